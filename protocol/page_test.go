package protocol

import (
	"bytes"
	"testing"
)

// The expected bytes of the reference (4.1), in the layouts of 1.12 and 1.13.
func TestStatsJobPage(t *testing.T) {
	for _, tc := range []struct {
		tube func(p *Page)
		want string
	}{
		{func(p *Page) { p.Bare("tube", "123") }, "OK 143\r\n---\nid: 1\ntube: 123\nstate: reserved\npri: 10\nage: 0\ndelay: 0\nttr: 5\ntime-left: 4\nfile: 0\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n\r\n"},
		{func(p *Page) { p.Quoted("tube", "123") }, "OK 145\r\n---\nid: 1\ntube: \"123\"\nstate: reserved\npri: 10\nage: 0\ndelay: 0\nttr: 5\ntime-left: 4\nfile: 0\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n\r\n"},
	} {
		var p Page
		p.Uint("id", 1)
		tc.tube(&p)
		p.Bare("state", "reserved")
		p.Uint("pri", 10)
		p.Uint("age", 0)
		p.Uint("delay", 0)
		p.Uint("ttr", 5)
		p.Int("time-left", 4)
		p.Uint("file", 0)
		p.Uint("reserves", 1)
		for _, k := range []string{"timeouts", "releases", "buries", "kicks"} {
			p.Uint(k, 0)
		}
		var out bytes.Buffer
		w := NewWriter(&out)
		w.OK(p.Bytes())
		if w.Flush(); out.String() != tc.want {
			t.Errorf("got %q", out.String())
		}
	}
}

func TestPage(t *testing.T) {
	var p Page
	if got := string(p.Bytes()); got != "---\n" {
		t.Errorf("empty page is %q", got)
	}
	p.Reset()
	p.Item("default")
	p.Item("-x")
	if got := string(p.Bytes()); got != "---\n- default\n- -x\n" {
		t.Errorf("list is %q", got)
	}
	p.Reset()
	p.Quoted("version", "1.13")
	p.Quoted("os", `#1 "SMP" a\b`)
	p.Quoted("empty", "")
	p.Bare("id", "00ff")
	p.Bool("draining", true)
	p.Bool("off", false)
	p.Int("time-left", -3)
	p.Uint("max", 1<<64-1)
	p.Seconds("rusage-utime", 0, 0)
	p.Seconds("rusage-stime", 12, 34)
	p.Seconds("s", 3, 999_999)
	p.Seconds("s", 3, 100_000)
	const want = "---\nversion: \"1.13\"\nos: \"#1 \\\"SMP\\\" a\\\\b\"\nempty: \"\"\nid: 00ff\ndraining: true\noff: false\ntime-left: -3\nmax: 18446744073709551615\n" +
		"rusage-utime: 0.000000\nrusage-stime: 12.000034\ns: 3.999999\ns: 3.100000\n"
	if got := string(p.Bytes()); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n := testing.AllocsPerRun(100, func() {
		p.Reset()
		p.Uint("a", 1<<40)
		p.Quoted("b", "c")
		p.Item("x")
		p.Seconds("d", 1, 2)
		p.Bytes()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for range 10_000 {
		p.Item("a-tube-with-a-name")
	}
	if p.Reset(); string(p.Bytes()) != "---\n" || cap(p.b) > keepBuffer {
		t.Errorf("after Reset: %q, %d bytes kept", p.Bytes(), cap(p.b))
	}
}
