package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParseArgs(t *testing.T) {
	tests := []struct {
		in   string // separated by spaces
		want string
		ask  string
	}{
		{in: "", want: ""},
		{in: "-p1234", want: "--port=1234"},
		{in: "-p 1234", want: "--port=1234"},
		{in: "--port 1234", want: "--port=1234"},
		{in: "--port=1234", want: "--port=1234"},
		{in: "--port=", want: "--port="},
		{in: "-VVp 1", want: "--verbose=true --verbose=true --port=1"},
		{in: "-VVp1", want: "--verbose=true --verbose=true --port=1"},
		{in: "-p=1", want: "--port==1"},
		{in: "-f0", want: "--fsync-ms=0"},
		{in: "-Ff50", want: "--no-fsync=true --fsync-ms=50"},
		{in: "-z -1", want: "--max-job-size=-1"},
		{in: "-z-1", want: "--max-job-size=-1"},
		{in: "-l -- -p 1", want: "--listen=-- --port=1"},
		{in: "-l -h", want: "--listen=-h"},
		{in: "-cnV", want: "--c=true --n=true --verbose=true"},
		{in: "--store redis://h/0?a=b", want: "--store=redis://h/0?a=b"},
		{in: "--quote-stats=false", want: "--quote-stats=false"},
		{in: "-V --", want: "--verbose=true"},
		{in: "-Vv -x", want: "--verbose=true", ask: "version"},
		{in: "-hx", ask: "help"},
		{in: "--version stray", ask: "version"},
	}
	for _, test := range tests {
		line, err := parseArgs(strings.Fields(test.in), defaults().options())
		if err != nil {
			t.Errorf("%q: %v", test.in, err)
			continue
		}
		var got []string
		for _, g := range line.flags {
			got = append(got, "--"+g.name+"="+g.text)
		}
		if want := strings.Fields(test.want); !slices.Equal(got, want) || line.ask != test.ask {
			t.Errorf("%q: %q and %q, want %q and %q", test.in, got, line.ask, want, test.ask)
		}
	}
}

func TestParseArgsRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"-x", "unknown flag -x"},
		{"-Vx", "unknown flag -x"},
		{"-é", "unknown flag -é"},
		{"--nosuch=1", "unknown flag --nosuch"},
		{"--p 1", "unknown flag --p"},
		{"-p", "flag -p needs a value: PORT"},
		{"-Vp", "flag -p needs a value"},
		{"--store", "flag --store needs a value: URL"},
		{"stray", `unexpected argument "stray"`},
		{"-V -", `unexpected argument "-"`},
		{"-V -- -p", `unexpected argument "-p"`},
		{"redis://u:secret@h", `unexpected argument "redis://xxxxx@h"`},
		{"-x -v", "unknown flag -x"},
	}
	for _, test := range tests {
		_, err := parseArgs(strings.Fields(test.in), defaults().options())
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || exitCode(err) != exitUsage {
			t.Errorf("%q: %v, want %q", test.in, err, test.want)
		}
	}
}
