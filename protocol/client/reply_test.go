package client

import (
	"strings"
	"testing"
)

func TestReplies(t *testing.T) {
	for _, c := range []struct {
		in   string
		word Word
		id   uint64
		body string
	}{
		{"INSERTED 17\r\n", Inserted, 17, ""},
		{"INSERTED 17 DELAYED\r\n", Inserted, 17, ""},
		{"LEASED 4 00017 2\r\nab\r\n", Leased, 4, "ab"},
		{"ENDED 4 done 2\r\nab\r\n", Ended, 4, "ab"},
		{"RESERVED 18446744073709551 5\r\nab\r\nc\r\n", Reserved, 18446744073709551, "ab\r\nc"},
		{"RESERVED 1 0\r\n\r\n", Reserved, 1, ""},
		{"FOUND 3 2\r\nab\r\n", Found, 3, "ab"},
		{"OK 8\r\n---\na: b\r\n", OK, 0, "---\na: b"},
		{"OK 0\r\n\r\n", OK, 0, ""},
		{"DELETED\r\n", Deleted, 0, ""},
		{"USING a\r\n", Using, 0, ""},
		{"WATCHING 2\r\n", Watching, 0, ""},
		{"KICKED 0\r\n", Kicked, 0, ""},
		{"TIMED_OUT\r\n", TimedOut, 0, ""},
		{"DEADLINE_SOON\r\n", DeadlineSoon, 0, ""},
		{"NOT_FOUND\r\n", NotFound, 0, ""},
		{"BURIED 3\r\n", Other, 0, ""},
		{"OUT_OF_MEMORY\r\n", Other, 0, ""},
	} {
		var reply Reply
		for cut := range len(c.in) {
			if n, err := reply.Parse([]byte(c.in[:cut])); n != 0 || err != nil {
				t.Errorf("%q cut to %d: %d, %v", c.in, cut, n, err)
			}
		}
		n, err := reply.Parse([]byte(c.in + "DELETED\r\n"))
		if err != nil || n != len(c.in) || reply.Word != c.word || reply.ID != c.id || string(reply.Body) != c.body {
			t.Errorf("%q: %d, %v, %+v", c.in, n, err, reply)
		}
	}
}

func TestParseNonsense(t *testing.T) {
	for _, in := range []string{
		"DELETED\n", "\n", "INSERTED\r\n", "INSERTED x\r\n", "INSERTED 1 2\r\n", "RESERVED 1\r\n",
		"RESERVED 1 x\r\n", "RESERVED x 1\r\n", "RESERVED 1 2\r\nabcd", "RESERVED 1 9999999999\r\n",
		"RESERVED 1 -1\r\n", "OK\r\n", "OK x\r\n", "OK 1 2\r\n", "OK 1\r\nabc", "FOUND 1\r\n", "INSERTED 1 \r\n", "LEASED 1 2\r\n", "LEASED 1 2 x\r\n", strings.Repeat("x", MaxLine+1),
	} {
		var reply Reply
		if _, err := reply.Parse([]byte(in)); err == nil {
			t.Errorf("%.40q: no error", in)
		}
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	in := []byte("RESERVED 123456 5\r\nhello\r\n")
	var reply Reply
	if n := testing.AllocsPerRun(100, func() { reply.Parse(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
