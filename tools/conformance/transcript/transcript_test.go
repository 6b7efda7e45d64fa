package transcript

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a> {x":                           "x:1: { without }",
		"a> {int}":                        "a mask cannot be sent",
		"a> {x*y}":                        "bad count",
		`a> \q`:                           `unknown escape \q`,
		"a< RESERVED $j1 3":               "needs its body",
		"a< OK 14\n\na= x":                "belongs under",
		"a< OK page":                      "needs its keys",
		"   key: value":                   "belongs under OK page",
		"a< OK with state":                "not key: value",
		"a< [soon] X":                     "invalid duration",
		"only redstalk:\nend":             "only KIND: reason",
		"only redstalk: x":                "without `end`",
		"end":                             "without `only`",
		"a> x\nserver -z 1":               "must come before",
		"jump a":                          "bad directive",
		"race a b as w":                   "bad directive",
		"signal KILL":                     "bad directive",
		"\na> x\nsilent a":                "x:3",
		"only a: b\nonly c: d\nend\nend":  "inside `only`",
		"eof a later":                     "invalid duration",
		"wait 1s for b":                   "bad directive",
		"a= x":                            "belongs under",
		"a< FOUND {int} 1\nb= x":          "belongs under",
		"open":                            "bad directive",
		"a< OK page\n   a: 1\n\n   b: {x": "belongs under",
	} {
		_, err := Parse("x", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestParseSends(t *testing.T) {
	tr, err := Parse("x", "server -z 10\n# comment\na> one\na>> two\na> three\n\na> four\nb> five\n")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(tr.Flags(), " ") != "-z 10" {
		t.Errorf("flags %v", tr.Flags())
	}
	if len(tr.steps) != 3 {
		t.Fatalf("%d steps, want 3: adjacent lines of a connection are one packet", len(tr.steps))
	}
	if s := tr.steps[0].(*sendStep); len(s.texts) != 3 || s.first != 3 || s.last != 5 {
		t.Errorf("first packet: %+v", s)
	}
}

func TestPlays(t *testing.T) {
	tr, err := Parse("x", "only beanstalkd: a reason\na> x\nend\n")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{"beanstalkd-1.12": true, "beanstalkd": true, "redstalk": false, "beanstalkdx": false} {
		if tr.Plays(kind) != want {
			t.Errorf("Plays(%s) = %v", kind, !want)
		}
	}
}

func TestText(t *testing.T) {
	v := &vars{byName: map[string]uint64{"j1": 7}}
	for src, want := range map[string]string{
		`a\r\n\0\t\s\\\$\{\}`: "a\r\n\x00\t \\${}",
		`\xff\x00`:            "\xff\x00",
		`{ab*3}c`:             "abababc",
		`{\r\n*2}`:            "\r\n\r\n",
		`delete $j1`:          "delete 7",
		`$`:                   "$",
		`$1 $.`:               "$1 $.",
		`00$j1\x78`:           "007x",
	} {
		x, err := parseText(src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got, err := x.bytes(v); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", src, got, err, want)
		}
	}
}

func TestQuoteIsTheInverse(t *testing.T) {
	v := &vars{}
	for _, s := range []string{"", " a ", "$j1 {x} \\ \r\n\x00\xff", strings.Repeat("ab", 50), strings.Repeat(" ", 99) + "x", strings.Repeat("{", 40), "$" + strings.Repeat("a", 40)} {
		x, err := parseText(quote([]byte(s)))
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if got, err := x.bytes(v); err != nil || string(got) != s {
			t.Errorf("%q became %s, which is %q (%v)", s, quote([]byte(s)), got, err)
		}
	}
}

func TestMatch(t *testing.T) {
	v := &vars{byName: map[string]uint64{"j1": 7}}
	for _, c := range []struct {
		src, data string
		want      bool
	}{
		{"FOUND $j1 1", "FOUND 7 1", true},
		{"FOUND $j1 1", "FOUND 71 1", false},
		{"FOUND $j1 1", "FOUND 07 1", false},
		{"{int}", "-3", true},
		{"{int}", "3x", false},
		{"{int}", "", false},
		{"{3..5}", "5", true},
		{"{3..5}", "6", false},
		{"{-3..-1}", "-2", true},
		{"{decimal}", "0.001", true},
		{"{decimal}", "1", false},
		{"{decimal}", "", false},
		{"{hex}", "00af", true},
		{"{hex}", "00AF", false},
		{`"{any}"`, `"1.13"`, true},
		{`"{any}"`, `1.13`, false},
		{"a{any}b{any}c", "axxbyyc", true},
		{"x", "x ", false},
	} {
		x, err := parseText(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if x.match([]byte(c.data), v, nil) != c.want {
			t.Errorf("%s on %q: %v", c.src, c.data, !c.want)
		}
	}
}

// Scripted server: an in-memory connection that answers from a table, so that
// what the player accepts and refuses can be tried without a server.

// pipe is one direction of a buffered in-memory connection.
type pipe struct {
	mu    sync.Mutex
	buf   []byte
	over  bool
	event chan struct{}
}

func newPipe() *pipe { return &pipe{event: make(chan struct{}, 1)} }

func (p *pipe) wake() {
	select {
	case p.event <- struct{}{}:
	default:
	}
}

func (p *pipe) write(b []byte) {
	p.mu.Lock()
	p.buf = append(p.buf, b...)
	p.mu.Unlock()
	p.wake()
}

func (p *pipe) close() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.wake()
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		n, over := copy(b, p.buf), p.over
		p.buf = p.buf[n:]
		p.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if over {
			return 0, net.ErrClosed
		}
		<-p.event
	}
}

// conn is the player's end of a scripted connection.
type conn struct {
	net.Conn // nil: only what is below is used
	in       *pipe
	answer   func(sent string, out *pipe)
}

func (c *conn) Read(b []byte) (int, error)       { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error)      { c.answer(string(b), c.in); return len(b), nil }
func (c *conn) Close() error                     { c.in.close(); return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
func (c *conn) CloseWrite() error                { c.in.close(); return nil }

// scripted answers each packet by its entry; an answer starting with "+1s "
// comes that much later.
func scripted(answers map[string]string) Target {
	asked := 0
	answer := func(sent string, out *pipe) {
		if sent == "count\r\n" {
			if asked++; asked < 3 {
				out.write([]byte("NOT YET\r\n"))
				return
			}
			out.write([]byte("OK\r\n"))
			return
		}
		reply := answers[strings.TrimSuffix(sent, "\r\n")]
		if late, ok := strings.CutPrefix(reply, "+1s "); ok {
			time.AfterFunc(time.Second, func() { out.write([]byte(late)) })
			return
		}
		out.write([]byte(reply))
	}
	return Target{Kind: "redstalk", Dial: func() (net.Conn, error) {
		return &conn{in: newPipe(), answer: answer}, nil
	}}
}

var answers = map[string]string{
	"put a":  "INSERTED 5\r\n",
	"put b":  "INSERTED 4\r\n",
	"peek":   "FOUND 5 2\r\nab\r\n",
	"broken": "FOUND 5 2\r\nabc\r\n",
	"two":    "A\r\nB\r\n",
	"list":   "OK 12\r\n---\n- a\n- b\n\r\n",
	"stats":  "OK 34\r\n---\nstate: ready\npri: 5\nfile: \"0\"\n\r\n",
	"later":  "+1s X\r\n",
}

// TestPlay says for small scripts whether they hold, or what the error must
// mention. It runs in virtual time, which also shows that Play can.
func TestPlay(t *testing.T) {
	for script, want := range map[string]string{
		"a> two\na< A\na< B": "",
		"a> two\na< A":       "nothing more on a",
		"a> two\na< B":       "x:2: want B, got A",
		"a> none\na< A":      "got nothing",
		"a> put a\na< INSERTED $j1\na> put b\na< INSERTED $j2":       "id 4 is not greater than 5",
		"a> put a\na< INSERTED $j1\na> peek\na< FOUND $j1 2\na= ab":  "",
		"a> put a\na< INSERTED $j1\na> peek\na< FOUND $j1 2\na= abc": "differs",
		"a> peek\na< FOUND $j1 2\na= ab":                             "$j1 has no value yet",
		"a> peek $j1":                                                "$j1 has no value yet",
		"a> broken\na< FOUND 5 2\na= ab":                             "no CR LF after the 2 bytes",
		"a> list\na< OK list a b":                                    "",
		"a> list\na< OK list b a":                                    "differs",
		"a> list\na< OK set b a":                                     "",
		"a> list\na< OK set a":                                       "differs",
		"a> stats\na< OK with pri: 5, file: 0":                       "",
		"a> stats\na< OK with file: \"0\"":                           "",
		"a> stats\na< OK with pri: 6":                                "pri is 5",
		"a> stats\na< OK with age: 6":                                "no key age",
		"a> stats\na< OK page\n   state: ready\n   pri: {int}":       "",
		"a> stats\na< OK page\n   pri: 5":                            "key 1 is state instead of pri",
		"a> list\na< OK with a: b":                                   "bad line",
		"a> stats\na< OK list a":                                     "bad line",
		"a> later\na< [1s] X":                                        "",
		"a> later\na< [now] X":                                       "it too late, after 1s",
		"a> later\na< [1.1s] X":                                      "it too early, after 1s",
		"mark m\nwait 1s\na> later\na< [2s after m] X":               "",
		"a> later\na< [1s after m] X":                                "no mark m",
		"a> later\nsilent a 900ms\na< X":                             "",
		"a> later\nsilent a 1100ms\na< X":                            "a silent for 1.1s, got X",
		"a> none\nhalfclose a\neof a [now]":                          "",
		"a> two\nhalfclose a\neof a":                                 "the end of a, got A",
		"a> none\nhalfclose a\nsilent a 1ms":                         "its end",
		"a> none\neof a":                                             "the end of a, got nothing",
		"open b\na> two\nrace a b as w l\nw< A\nw< B":                "",
		"race a b as w l":                                            "a reply on one of",
		"only redstalk: x\na> two\nend\na< A\na< B":                  "",
		"only beanstalkd: x\na> two\nend":                            "",
		"a?> count\na< OK":                                           "",
		"a?> two\na< A\na< B":                                        "",
		"a?> put a\na< INSERTED 6":                                   "want INSERTED 6, got INSERTED 5",
		"signal USR1":                                                "takes no signals",
	} {
		synctest.Test(t, func(t *testing.T) {
			tr, err := Parse("x", script)
			if err != nil {
				t.Fatal(err)
			}
			err = Play(context.Background(), tr, scripted(answers))
			switch {
			case want == "" && err != nil:
				t.Errorf("%q: %v", script, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%q: error %v, want %q", script, err, want)
			}
		})
	}
}

func TestPlayEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := Parse("x", "a> none\na< [1h] X")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := Play(ctx, tr, scripted(answers)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// TestRecord starts from an outline without replies, and from one with wrong
// ones, and ends at the same script.
func TestRecord(t *testing.T) {
	const want = `# An outline.

a> put a
a< INSERTED $j1

a> peek
a< FOUND $j1 2
a= ab
a> list
a< OK list a b

a> stats
a< OK with pri: 5, file: {int}
only beanstalkd: kept as it is
a< NONSENSE
end
`
	wrong := strings.NewReplacer("a= ab", "a= q", "list a b", "list c", "pri: 5", "pri: 7").Replace(want)
	outline := strings.NewReplacer("a< INSERTED $j1\n", "", "a< FOUND $j1 2\na= ab\n", "\n", "a< OK list a b\n", "").Replace(want)
	surplus := strings.Replace(want, "a= ab\n", "a= ab\na< MORE\n", 1)
	for _, text := range []string{want, wrong, outline, surplus} {
		synctest.Test(t, func(t *testing.T) {
			tr, err := Parse("x", text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Record(context.Background(), tr, scripted(answers))
			if err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(got, "\n\n", "\n") != strings.ReplaceAll(want, "\n\n", "\n") {
				t.Errorf("recorded:\n%s", got)
			}
		})
	}
}

func TestLoadWantsFiles(t *testing.T) {
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder was loaded")
	}
}
