package client

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// scripted serves one connection: for each step it reads the expected command and
// writes the reply, in pieces of a few bytes.
func scripted(t *testing.T, conn net.Conn, steps [][2]string) {
	t.Helper()
	for _, s := range steps {
		got := make([]byte, len(s[0]))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != s[0] {
			t.Errorf("server reads %q, %v, want %q", got, err, s[0])
			return
		}
		for rest := s[1]; rest != ""; {
			n := min(7, len(rest))
			if _, err := io.WriteString(conn, rest[:n]); err != nil {
				t.Errorf("server writing: %v", err)
				return
			}
			rest = rest[n:]
		}
	}
}

func TestConn(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	big := strings.Repeat("x", 3*bufferSize)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		scripted(t, far, [][2]string{
			{"use a\r\n", "USING a\r\n"},
			{"watch a\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n"},
			{"reserve\r\n", fmt.Sprintf("RESERVED 9 %d\r\n%s\r\n", len(big), big)},
			{"stats\r\n", "OK 11\r\n---\nkey: 2\n\r\n"},
			{"stats-job 9\r\n", "NOT_FOUND\r\n"},
			{"delete 7\r\n", "INTERNAL_ERROR\r\n"},
		})
	}()
	c := New(near)
	if err := c.UseOnly("a"); err != nil {
		t.Fatal(err)
	}
	err := c.Ask([]byte("reserve\r\n"), 1, func(reply *Reply) error {
		if reply.Word != Reserved || reply.ID != 9 || string(reply.Body) != big {
			t.Errorf("reserved job %d with %d bytes", reply.ID, len(reply.Body))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if page, err := c.Page("stats"); err != nil || page != "---\nkey: 2\n" {
		t.Errorf("%q, %v", page, err)
	}
	if _, err := c.Page("stats-job 9"); err == nil || !strings.Contains(err.Error(), "NOT_FOUND") {
		t.Errorf("no page gives %v", err)
	}
	if err := c.Ask([]byte("delete 7\r\n"), 1, Expect(Deleted)); err == nil || !strings.Contains(err.Error(), "INTERNAL_ERROR") {
		t.Errorf("a wrong reply gives %v", err)
	}
	<-ended
	far.Close()
	if _, err := c.Receive(); err == nil {
		t.Error("no error from a closed connection")
	}
}

// TestLineAndRead checks that lines, replies and raw bytes can be read in turn.
func TestLineAndRead(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		scripted(t, far, [][2]string{{"x", "FOUND 1 9\r\nab\ncd\r\nef\r\nDELETED\r\nand more"}})
		far.Close()
	}()
	c := New(near)
	if err := c.Send([]byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FOUND 1 9", "ab\n", "cd", "ef"} {
		if line, err := c.Line(); line != want || err != nil {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
	}
	if reply, err := c.Receive(); err != nil || reply.Word != Deleted {
		t.Fatalf("%v, %v", reply, err)
	}
	if rest, err := io.ReadAll(c); string(rest) != "and more" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if line, err := c.Line(); line != "" || err == nil {
		t.Errorf("%q, %v behind the end", line, err)
	}
}

func TestPageValue(t *testing.T) {
	p := Page("---\nid: 7\nname: \"a: b\"\n")
	for key, want := range map[string]string{"id": "7", "name": `"a: b"`} {
		if value, ok := p.Value(key); value != want || !ok {
			t.Errorf("%s: %q, %v", key, value, ok)
		}
	}
	if value, ok := p.Value("i"); ok || value != "" {
		t.Errorf("%q of a key that is not there", value)
	}
}

func TestCommands(t *testing.T) {
	out := AppendPut([]byte("x\r\n"), 1, 2, 3, []byte("ab"))
	out = AppendReserveJob(AppendDelete(out, 18446744073709551615), 7)
	const want = "x\r\nput 1 2 3 2\r\nab\r\ndelete 18446744073709551615\r\nreserve-job 7\r\n"
	if string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
}
