package conn

import (
	"bufio"
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestReadAnswers: what Redis may answer, and what it may not.
func TestReadAnswers(t *testing.T) {
	for text, want := range map[string]any{
		"+OK\r\n":                              "OK",
		":42\r\n":                              int64(42),
		":-7\r\n":                              int64(-7),
		"$0\r\n\r\n":                           "",
		"$5\r\na\r\nbc\r\n":                    "a\r\nbc",
		"$-1\r\n":                              nil,
		"*-1\r\n":                              nil,
		"*0\r\n":                               []any{},
		"*3\r\n$1\r\na\r\n:1\r\n$-1\r\n":       []any{"a", int64(1), nil},
		"-NOSCRIPT No matching script.\r\n":    ServerError("NOSCRIPT No matching script."),
		"!5\r\nhello\r\n":                      errProtocol,
		"$x\r\n":                               errProtocol,
		"$99999999999\r\n":                     errProtocol,
		"+OK\n":                                errProtocol,
		"*1\r\n*1\r\n:1\r\n":                   errProtocol,
		"*2\r\n$1\r\na\r\n-ERR in a list\r\n":  errProtocol,
		"*" + strings.Repeat("9", 30) + "\r\n": errProtocol,
	} {
		s := &socket{in: bufio.NewReader(strings.NewReader(text))}
		got, err := s.read()
		if wrong, ok := want.(error); ok && !errors.Is(err, wrong) {
			t.Errorf("%q: %v, want %v", text, err, wrong)
		} else if !ok && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%q: %#v, %v, want %#v", text, got, err, want)
		}
	}
	if _, err := (&socket{in: bufio.NewReader(strings.NewReader("$5\r\nab"))}).read(); err == nil || CodeOf(err) != "" {
		t.Errorf("an answer that is cut off: %v", err)
	}
	if code := CodeOf(ServerError("LOST the instance was declared dead")); code != "LOST" {
		t.Errorf("the code is %q", code)
	}
}

// TestWriteCommand: words of all kinds are texts to Redis.
func TestWriteCommand(t *testing.T) {
	var out bytes.Buffer
	s := &socket{out: outgoing{to: &out}}
	name, pri := "a tube", uint32(7)
	if err := s.write([]any{"put", &name, []byte("\r\n"), 1, int64(-2), uint64(3), uint32(4), &pri, ""}); err != nil {
		t.Fatal(err)
	}
	s.out.Flush()
	want := "*9\r\n$3\r\nput\r\n$6\r\na tube\r\n$2\r\n\r\n\r\n$1\r\n1\r\n$2\r\n-2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n7\r\n$0\r\n\r\n"
	if got := out.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := s.write([]any{1.5}); err == nil {
		t.Error("a fraction was written")
	}
}
