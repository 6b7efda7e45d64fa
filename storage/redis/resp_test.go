package redis

import (
	"bufio"
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/redistest"
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
		"-NOSCRIPT No matching script.\r\n":    answeredError("NOSCRIPT No matching script."),
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
	if _, err := (&socket{in: bufio.NewReader(strings.NewReader("$5\r\nab"))}).read(); err == nil || codeOf(err) != "" {
		t.Errorf("an answer that is cut off: %v", err)
	}
	if code := codeOf(answeredError("LOST the instance was declared dead")); code != lua.Lost {
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

// TestClosedWhileIdle: a connection that Redis has closed while it was idle is reopened before
// the next call, which does not fail.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	var log bytes.Buffer
	s := openWith(t, Options{URL: server.URL(), Timeout: patient, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 10 {
		if err := client.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if a := do(s, put("x")); a.Err != nil || a.ID != uint64(i+1) {
			t.Errorf("%+v", a)
		}
	}
	if strings.Contains(log.String(), "not carried out") {
		t.Error(log.String())
	}
	if n := len(s.parts[0].transport.(*connection).dialer.fresh.conns); n != 0 {
		t.Errorf("%d connections have no owner", n)
	}
	if n := s.parts[0].transport.(*connection).dialer.client.PoolStats().TotalConns; n != 1 {
		t.Errorf("there are %d connections", n)
	}
	do(s, storage.Op{Kind: storage.Stats})
}
