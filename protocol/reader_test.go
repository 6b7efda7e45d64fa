package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	bad     = "unknown BAD_FORMAT"
	unknown = "unknown UNKNOWN_COMMAND"
	used    = "list-tube-used"
)

// Behaviour reference 1.1.
func TestFraming(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, tc := range []struct {
		input string
		want  []string
	}{
		{"", nil},
		{"\r\n", []string{unknown}},
		{"stats\n", nil},
		{"stats\r", nil},
		{"\r", nil},
		{"\n\n\n\r\n", []string{unknown}},
		{"list-tube-used\nlist-tube-used\r\n", []string{used + " BAD_FORMAT"}},
		{"PUT 0 0 0 0\r\n", []string{unknown}},
		{" stats\r\n", []string{unknown}},
		{"stats\r\nstats\r\n", []string{"stats", "stats"}},

		// NUL, before the word is examined.
		{"foo\x00bar\r\n", []string{bad}},
		{"use a\x00b\r\n", []string{bad}},
		{"stats\x00\r\n", []string{bad}},
		{"\x00\r\n" + used + "\r\n", []string{bad, used}},

		// Length.
		{a(222) + "\r\n", []string{unknown}},
		{a(223) + "\r\n", []string{bad}},
		{a(221) + "\n\r\n", []string{unknown}},
		{a(5000), nil},

		// A lone CR.
		{used + "\r\r\n" + used + "\r\n", []string{bad, used}},
		{"foo\rbar\r\n" + used + "\r\n" + used + "\r\n", []string{bad, used, used}},
		{"\rstats\r\n", []string{bad}},
		{"\r\r\r\r\n\r\n", []string{bad, unknown}},
		{"a\r\rb\n\r\n", []string{bad}},
		{a(100) + "\r" + a(121) + "\r\n" + used + "\r\n", []string{bad, used}},
		{a(100) + "\r" + a(122) + "\r\n" + used + "\r\n", []string{bad, used}},
		{a(100) + "\r" + a(123) + "\r\n" + used + "\r\n", []string{bad, used}},
		{strings.Repeat("\r", 300) + "\n" + used + "\r\n", []string{bad, used}},
		{a(223) + "\r\r\n" + used + "\r\n", []string{bad, used}},
	} {
		check(t, tc.input, 65535, tc.want...)
	}
	for n := 223; n < 1400; n++ {
		check(t, a(n)+"\r\n"+used+"\r\n", 65535, bad, used)
	}
	check(t, a(100_000)+"\r\n"+used+"\r\n", 65535, bad, used)
}

// recognized has lines, without CRLF, and their commands by the reference (1.2).
var recognized = map[string]string{
	"put\t0 0 1 1": unknown,
	"list-tube":    unknown,
	"qui":          unknown,
	"pee":          unknown,
	"p":            unknown,
	"\xff":         unknown,
	"pause-tub":    unknown,

	"statsfoo":              "stats BAD_FORMAT",
	"stats ":                "stats BAD_FORMAT",
	"stats-job":             "stats BAD_FORMAT",
	"stats-tube":            "stats BAD_FORMAT",
	"stats-job ":            "stats-job BAD_FORMAT",
	"stats-tube ":           "stats-tube BAD_FORMAT",
	"reservefoo":            "reserve BAD_FORMAT",
	"reserve ":              "reserve BAD_FORMAT",
	"reserve-job":           "reserve BAD_FORMAT",
	"reserve-job ":          "reserve-job BAD_FORMAT",
	"reserve-with-timeout":  "reserve BAD_FORMAT",
	"reserve-with-timeout ": "reserve-with-timeout BAD_FORMAT",
	"peek-readyx":           "peek-ready BAD_FORMAT",
	"peek-delayed ":         "peek-delayed BAD_FORMAT",
	"peek-buried\t":         "peek-buried BAD_FORMAT",
	"list-tubes ":           "list-tubes BAD_FORMAT",
	"list-tubes-watched ":   "list-tubes-watched BAD_FORMAT",
	"list-tubes-watche":     "list-tubes BAD_FORMAT",
	"list-tube-used ":       "list-tube-used BAD_FORMAT",

	"quit":                 "quit",
	"quitter":              "quit",
	"quit now please":      "quit",
	"pause-tubedefault 0":  "pause-tube default 0",
	"pause-tube default 0": "pause-tube default 0",

	"peek-ready":             "peek-ready",
	"peek-delayed":           "peek-delayed",
	"peek-buried":            "peek-buried",
	"reserve":                "reserve",
	"reserve-with-timeout 7": "reserve-with-timeout 7",
	"reserve-job 5":          "reserve-job 5",
	"delete 5":               "delete 5",
	"release 1 2 3":          "release 1 2 3",
	"bury 1 2":               "bury 1 2",
	"kick 9":                 "kick 9",
	"kick-job 9":             "kick-job 9",
	"touch 9":                "touch 9",
	"peek 9":                 "peek 9",
	"stats":                  "stats",
	"stats-job 9":            "stats-job 9",
	"stats-tube a":           "stats-tube a",
	"use a":                  "use a",
	"watch a":                "watch a",
	"ignore a":               "ignore a",
	"list-tubes":             "list-tubes",
	"list-tube-used":         "list-tube-used",
	"list-tubes-watched":     "list-tubes-watched",
	"pause-tube a 5":         "pause-tube a 5",
}

// Behaviour reference 1.2.
func TestRecognition(t *testing.T) {
	for _, word := range []string{"put", "peek", "delete", "release", "bury", "kick", "kick-job", "touch", "use", "watch", "ignore"} {
		check(t, word+"\r\n", 65535, unknown)
		check(t, word+" \r\n", 65535, word+" BAD_FORMAT")
	}
	for input, want := range recognized {
		check(t, input+"\r\n", 65535, want)
	}
}

// numbers has lines with numbers, and their commands by the reference (1.3).
var numbers = map[string]string{
	"peek 18446744073709551615":          "peek 18446744073709551615",
	"peek 00000000000000000000000000001": "peek 1",
	"peek  1":                            "peek 1",
	"peek 18446744073709551616":          "peek BAD_FORMAT",
	"peek 18446744073709551620":          "peek BAD_FORMAT",
	"peek 99999999999999999999":          "peek BAD_FORMAT",
	"peek 100000000000000000000":         "peek BAD_FORMAT",
	"peek +1":                            "peek BAD_FORMAT",
	"peek -1":                            "peek BAD_FORMAT",
	"peek \t1":                           "peek BAD_FORMAT",
	"peek 0x1":                           "peek BAD_FORMAT",
	"peek 1.5":                           "peek BAD_FORMAT",
	"peek 1 ":                            "peek BAD_FORMAT",
	"peek 1x":                            "peek BAD_FORMAT",
	"peek 1\n":                           "peek BAD_FORMAT",
	"delete 0":                           "delete 0",
	"release 1  2   3":                   "release 1 2 3",
	"release 1 4294967295 4294967295":    "release 1 4294967295 4294967295",
	"release 1 4294967296 0":             "release BAD_FORMAT",
	"release 1 0 4294967296":             "release BAD_FORMAT",
	"release 1 0 0 ":                     "release BAD_FORMAT",
	"release 1 0":                        "release BAD_FORMAT",
	"release 1":                          "release BAD_FORMAT",
	"release 1\t0 0":                     "release BAD_FORMAT",
	"bury 1 0 x":                         "bury BAD_FORMAT",
	"bury 1":                             "bury BAD_FORMAT",
	"bury 1 -1":                          "bury BAD_FORMAT",
	"touch 1 1":                          "touch BAD_FORMAT",
	"pause-tube t 0 ":                    "pause-tube BAD_FORMAT",
	"pause-tube t 4294967295":            "pause-tube t 4294967295",
	"pause-tube t 4294967296":            "pause-tube BAD_FORMAT",
	"pause-tube t":                       "pause-tube BAD_FORMAT",
	"pause-tube t -1":                    "pause-tube BAD_FORMAT",
	"pause-tube t5":                      "pause-tube BAD_FORMAT",
	"reserve-with-timeout 0x":            "reserve-with-timeout 0",
	"reserve-with-timeout 0 foo":         "reserve-with-timeout 0",
	"reserve-with-timeout  3":            "reserve-with-timeout 3",
	"reserve-with-timeout 2147483647":    "reserve-with-timeout 2147483647",
	"reserve-with-timeout 2147483648":    "reserve-with-timeout BAD_FORMAT",
	"reserve-with-timeout 4294967295":    "reserve-with-timeout BAD_FORMAT",
	"reserve-with-timeout 4294967296":    "reserve-with-timeout BAD_FORMAT",
	"reserve-with-timeout -1":            "reserve-with-timeout BAD_FORMAT",
	"reserve-with-timeout abc":           "reserve-with-timeout BAD_FORMAT",
	"reserve-with-timeout \t1":           "reserve-with-timeout BAD_FORMAT",
	"kick 0":                             "kick 0",
	"kick 1x":                            "kick 1",
	"kick 1 1 1":                         "kick 1",
	"kick \t\n\v\f 5":                    "kick 5",
	"kick +5":                            "kick 5",
	"kick 4294967296":                    "kick 0",
	"kick 4294967298":                    "kick 2",
	"kick -1":                            "kick 4294967295",
	"kick -18446744073709551615":         "kick 1",
	"kick 18446744073709551615":          "kick 4294967295",
	"kick 18446744073709551616":          "kick BAD_FORMAT",
	"kick -18446744073709551616":         "kick BAD_FORMAT",
	"kick x":                             "kick BAD_FORMAT",
	"kick -":                             "kick BAD_FORMAT",
	"kick +-1":                           "kick BAD_FORMAT",
	"kick - 1":                           "kick BAD_FORMAT",
	"kick 0x10":                          "kick 0",
	"kick-job 4294967296":                "kick-job 4294967296",
	"kick-job 1x":                        "kick-job BAD_FORMAT",
	"put 4294967296 0 1 1":               "put BAD_FORMAT",
	"put 0 4294967296 1 1":               "put BAD_FORMAT",
	"put 0 0 4294967296 1":               "put BAD_FORMAT",
	"put 0 0 1 4294967296":               "put BAD_FORMAT",
	"put 0 0 1":                          "put BAD_FORMAT",
	"put 0 0 1 ":                         "put BAD_FORMAT",
	"put -1 0 1 1":                       "put BAD_FORMAT",
	"put 0\t0 1 1":                       "put BAD_FORMAT",
	"put 0x 0 1 1":                       "put BAD_FORMAT",
}

// TestHTTP checks that a line of an HTTP request is recognised where it is no command, however long,
// and that no other line is.
func TestHTTP(t *testing.T) {
	long := strings.Repeat("x", 300)
	for line, want := range map[string]string{
		"POST / HTTP/1.1": "unknown HTTP_REQUEST", "GET /a?b HTTP/1.0": "unknown HTTP_REQUEST", "PUT / HTTP/1.1": "unknown HTTP_REQUEST",
		"use /a HTTP/1.1": "unknown HTTP_REQUEST", "pause-tube /a HTTP/1.1": "unknown HTTP_REQUEST", "stats / HTTP/1.1": "unknown HTTP_REQUEST",
		"Host: a:11300": "unknown HTTP_REQUEST", "host:" + long: "unknown HTTP_REQUEST",
		"POST /" + long + " HTTP/1.1": "unknown BAD_FORMAT", // Host follows
		"find /a HTTP/1.1":            "find /a HTTP/1.1", "quit / HTTP/1.1": "quit",
		"POST": unknown, "POST /": unknown, "POST / HTTP": unknown, "POST / HTTP/1.11": unknown, "POST / http/1.1": unknown,
		"POST /a b HTTP/1.1": unknown, " / HTTP/1.1": unknown, "POST  HTTP/1.1": unknown, "HTTP/1.1": unknown, "Hosts: a": unknown, "Host": unknown,
		"GET http://a/ HTTP/1.1": "unknown HTTP_REQUEST", "GET 1 HTTP/1.1": unknown, "put 0 HTTP/1.1": "put BAD_FORMAT",
		"put HTTP/1.1": "put BAD_FORMAT", "peek x": "peek BAD_FORMAT",
	} {
		check(t, line+"\r\n", 65535, want)
	}
}

// Behaviour reference 1.3.
func TestNumbers(t *testing.T) {
	for input, want := range numbers {
		check(t, input+"\r\n", 65535, want)
	}
}

// Behaviour reference 1.4.
func TestNames(t *testing.T) {
	long := strings.Repeat("n", MaxName)
	for _, name := range []string{"default", "1", "1e3", "true", "null", "..", "/", "$", "()", ".5", "a-", "A+/;.$_()z", long} {
		for _, verb := range []string{"use", "watch", "ignore", "stats-tube"} {
			check(t, verb+" "+name+"\r\n", 65535, verb+" "+name)
		}
		check(t, "pause-tube   "+name+"  3\r\n", 65535, "pause-tube "+name+" 3")
	}
	for _, name := range []string{"", " a", "a ", "a b", "a\tb", "a\n", "a:", "a,b", "@", "#", "%", "=", "~", "\x80", "\xff", "-", "-a", long + "n"} {
		if ValidName([]byte(name)) {
			t.Errorf("%q is valid", name)
		}
		for _, verb := range []string{"use", "watch", "ignore", "stats-tube"} {
			check(t, verb+" "+name+"\r\n", 65535, verb+" BAD_FORMAT")
		}
	}
	for _, name := range []string{"", "a b", "a\tb", "a:", "\x80", "\ta"} {
		check(t, "pause-tube "+name+" 0\r\n", 65535, "pause-tube BAD_FORMAT")
	}
	for _, name := range []string{"-", "-a", long + "n"} {
		check(t, "pause-tube "+name+" 0\r\n", 65535, "pause-tube BAD_FORMAT counted")
		check(t, "pause-tube "+name+" 0x\r\n", 65535, "pause-tube BAD_FORMAT")
	}
	check(t, "pause-tube-x 0\r\n", 65535, "pause-tube BAD_FORMAT counted")
}

// Behaviour reference 1.6.
func TestPut(t *testing.T) {
	z := func(n int) string { return strings.Repeat("z", n) }
	quoted := func(n int) string { return "put 0 0 1 " + showBody([]byte(z(n))) }
	for _, tc := range []struct {
		input string
		want  []string
	}{
		{"put 1 2 3 4\r\nabcd\r\n", []string{`put 1 2 3 "abcd"`}},
		{"put  0  0  1  1\r\na\r\n", []string{`put 0 0 1 "a"`}},
		{"put 0 0 0 0\r\n\r\n", []string{`put 0 0 0 ""`}},
		{"put 0 0 0 0\r\n\r\nput 0 0 0 1\r\nx\r\nstats\r\n", []string{`put 0 0 0 ""`, `put 0 0 0 "x"`, "stats"}},
		{"put 0 0 1 2\r\n\r\n\r\n", []string{`put 0 0 1 "\r\n"`}},
		{"put 0 0 1 4\r\n\x00\r\n\xff\r\n", []string{`put 0 0 1 "\x00\r\n\xff"`}},
		{"put 4294967295 4294967295 4294967295 1\r\na\r\n", []string{`put 4294967295 4294967295 4294967295 "a"`}},

		{"put 4294967296 0 1 1\r\na\r\n", []string{"put BAD_FORMAT", unknown}},
		{"put 0 0 1 1 \r\na\r\n", []string{"put BAD_FORMAT counted", unknown}},
		{"put 0 0 1 1x\r\na\r\n", []string{"put BAD_FORMAT counted", unknown}},
		{"put 0 0 1 1 junk\r\nstats\r\n", []string{"put BAD_FORMAT counted", "stats"}},

		{"put 0 0 1 3\r\nabcde\r\n", []string{"put EXPECTED_CRLF counted producer", unknown}},
		{"put 0 0 1 3\r\nab\r\nstats\r\n", []string{"put EXPECTED_CRLF counted producer", unknown}},
		{"put 0 0 1 1\r\na\rxstats\r\n", []string{"put EXPECTED_CRLF counted producer", "stats"}},
		{"put 0 0 1 1\r\nax\nstats\r\n", []string{"put EXPECTED_CRLF counted producer", "stats"}},
		{"put 0 0 1 0\r\nabstats\r\n", []string{"put EXPECTED_CRLF counted producer", "stats"}},
		{"put 0 0 1 3\r\nab\r\n", nil},
		{"put 0 0 1 1\r\na\r", nil},
		{"put 0 0 1 1\r\na", nil},

		{"put 0 0 1 65535\r\n" + z(65535) + "\r\nstats\r\n", []string{quoted(65535), "stats"}},
		{"put 0 0 1 65536\r\n", nil},
		{"put 0 0 1 65536\r\n" + z(65537), nil},
		{"put 0 0 1 65536\r\n" + z(65538), []string{"put JOB_TOO_BIG counted"}},
		{"put 0 0 1 65536\r\n" + z(65536) + "\r\nstats\r\n", []string{"put JOB_TOO_BIG counted", "stats"}},
		{"put 0 0 1 65536 junk\r\n" + z(65538) + "stats\r\n", []string{"put JOB_TOO_BIG counted", "stats"}},
		{"put 0 0 1 4294967295\r\n" + z(70000) + "\r\nstats\r\n", nil},
	} {
		check(t, tc.input, 65535, tc.want...)
	}
	// Around every size at which the Reader changes its method.
	for _, edge := range []int{0, 1, 64, 222, minBuffer, 2 * minBuffer, maxBuffer, 2 * maxBuffer} {
		for n := max(edge-20, 0); n < edge+4; n += 3 {
			line := "put 0 0 1 " + itoa(n) + "\r\n"
			check(t, line+z(n)+"\r\n"+line+z(n)+"\r\nstats\r\n", 1<<20, quoted(n), quoted(n), "stats")
			check(t, line+z(n)+"\n\rstats\r\n", 1<<20, "put EXPECTED_CRLF counted producer", "stats")
		}
	}
	check(t, "put 0 0 1 1\r\na\r\nput 0 0 1 0\r\n\r\nstats\r\n", 0, "put JOB_TOO_BIG counted", `put 0 0 1 ""`, "stats")
	check(t, "put 0 0 1 1\r\na\r\nstats\r\n", -1, "put JOB_TOO_BIG counted", "stats")
}

// TestSkipLargest checks that a body of 4 GiB is skipped without being stored.
func TestSkipLargest(t *testing.T) {
	const n = 1<<32 - 1
	src := io.MultiReader(strings.NewReader("put 0 0 1 4294967295\r\n"), io.LimitReader(idle{}, n+2), strings.NewReader("stats\r\n"))
	r := NewReader(src, 1<<40)
	var c Command
	if more(t, r, &c); show(&c) != "put JOB_TOO_BIG counted" {
		t.Fatal(show(&c))
	}
	if more(t, r, &c); show(&c) != "stats" {
		t.Fatal(show(&c))
	}
	if r.body != nil || len(r.buf) > maxBuffer {
		t.Errorf("body %d, buffer %d bytes", cap(r.body), len(r.buf))
	}
}

// idle returns bytes without writing them.
type idle struct{}

func (idle) Read(p []byte) (int, error) { return len(p), nil }

// more waits for the next command.
func more(t testing.TB, r *Reader, c *Command) {
	t.Helper()
	for !r.Next(c) {
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnnouncedSize checks that an announced size costs no memory before the bytes arrive.
func TestAnnouncedSize(t *testing.T) {
	src := &pieces{"put 0 0 1 1073741824\r\n" + strings.Repeat("z", 1<<20), randomly(1)}
	r := NewReader(src, 1<<30)
	var c Command
	for sent := 0; ; {
		before := len(src.data)
		if r.Next(&c) {
			t.Fatal("a command from an incomplete body")
		}
		if err := r.Fill(); err == io.EOF {
			break
		}
		sent += before - len(src.data)
		if got, limit := cap(r.body)+len(r.buf), 2*maxBuffer+2*sent; got > limit {
			t.Fatalf("%d bytes held for %d sent", got, sent)
		}
	}
}

// TestBodyOwnership checks that bodies belong to the caller, and have no spare capacity.
func TestBodyOwnership(t *testing.T) {
	for _, cut := range []func() int{whole, oneByte} {
		r := NewReader(&pieces{"put 0 0 1 5\r\nhello\r\nput 0 0 1 5\r\nworld\r\n", cut}, 100)
		var a, b Command
		more(t, r, &a)
		more(t, r, &b)
		if string(a.Body) != "hello" || string(b.Body) != "world" || cap(a.Body) != 5 {
			t.Errorf("%q (cap %d), %q", a.Body, cap(a.Body), b.Body)
		}
		if r.pending.Verb != Unknown || r.body != nil {
			t.Error("the Reader still has the put")
		}
	}
}

// TestFull checks that Fill reads up to 64 KiB while Next is not called, and nothing is lost.
func TestFull(t *testing.T) {
	const n = 20_000
	r := NewReader(&pieces{strings.Repeat("stats\r\n", n), randomly(3)}, 100)
	for !r.Full() {
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	if r.Buffered() != 64<<10 || r.Fill() != ErrFull {
		t.Errorf("%d bytes buffered", r.Buffered())
	}
	var c Command
	for range n {
		if more(t, r, &c); c.Verb != Stats {
			t.Fatal(show(&c))
		}
	}
	if err := r.Fill(); err != io.EOF {
		t.Error(err)
	}
}

// Fill without Next can also happen in the middle of a large body.
func TestFillInBody(t *testing.T) {
	body := strings.Repeat("b", 100_000)
	r := NewReader(&pieces{"put 0 0 1 100000\r\n" + body + "\r\nstats\r\n", randomly(5)}, 1<<20)
	var c Command
	for r.state != inBody {
		r.Next(&c)
		r.Fill()
	}
	for {
		if err := r.Fill(); err == io.EOF || err == ErrFull {
			break
		}
	}
	if more(t, r, &c); string(c.Body) != body {
		t.Error("body differs")
	}
	if more(t, r, &c); c.Verb != Stats {
		t.Error(show(&c))
	}
}

// TestBufferFollowsLoad checks that the buffer grows under load and shrinks when the load is
// over.
func TestBufferFollowsLoad(t *testing.T) {
	burst := strings.Repeat("stats\r\n", 100_000)
	cut := whole
	r := NewReader(&pieces{burst, func() int { return cut() }}, 100)
	var c Command
	for len(r.buf) < maxBuffer {
		more(t, r, &c)
	}
	cut = func() int { return 7 }
	for range 20_000 {
		more(t, r, &c)
	}
	if len(r.buf) != minBuffer {
		t.Errorf("buffer still %d bytes", len(r.buf))
	}
}

func TestFillErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, src := range map[string]io.Reader{
		"with the data":  iotest.DataErrReader(io.MultiReader(strings.NewReader("stats\r\n"), iotest.ErrReader(broken))),
		"after the data": io.MultiReader(strings.NewReader("stats\r\n"), iotest.ErrReader(broken)),
	} {
		r := NewReader(src, 100)
		var c Command
		if err := r.Fill(); err != nil || !r.Next(&c) || c.Verb != Stats {
			t.Errorf("%s: %v %v", name, err, show(&c))
		}
		if err := r.Fill(); err != broken {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := NewReader(iotest.ErrReader(nil), 100).Fill(); err != io.ErrNoProgress {
		t.Error(err)
	}
	// An error that arrived with bytes is returned once, after them.
	both := &script{{"stats\r\n", broken}, {"quit\r\n", nil}}
	r := NewReader(both, 100)
	var c Command
	if err := r.Fill(); err != nil || !r.Next(&c) || c.Verb != Stats {
		t.Error(err, show(&c))
	}
	if err := r.Fill(); err != broken || len(*both) != 1 {
		t.Error(err)
	}
	if err := r.Fill(); err != nil || !r.Next(&c) || c.Verb != Quit {
		t.Error(err, show(&c))
	}
	// A deadline is not the end.
	r = NewReader(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("stats\r\n"))), 100)
	timeouts := 0
	for !r.Next(&c) {
		if err := r.Fill(); err == iotest.ErrTimeout {
			timeouts++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if c.Verb != Stats || timeouts != 1 {
		t.Errorf("%v after %d timeouts", show(&c), timeouts)
	}
}

// script is a source with a fixed result for every Read.
type script []struct {
	data string
	err  error
}

func (s *script) Read(p []byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	step := (*s)[0]
	*s = (*s)[1:]
	return copy(p, step.data), step.err
}

// The end of a large body and the commands after it are read together, and the middle is
// read directly into the body.
func TestReadsForLargeBody(t *testing.T) {
	const n = 100_000
	var sizes []int
	src := strings.NewReader("put 0 0 1 100000\r\n" + strings.Repeat("z", n) + "\r\nstats\r\n")
	r := NewReader(readerFunc(func(p []byte) (int, error) {
		m, err := src.Read(p)
		sizes = append(sizes, m)
		return m, err
	}), n)
	var c Command
	more(t, r, &c)
	cut := sizes[1]
	if cut < maxBuffer-2*minBuffer {
		t.Errorf("the second read returns %d bytes: not directly into the body", cut)
	}
	r = NewReader(&script{
		{"put 0 0 1 5000\r\n", nil},
		{strings.Repeat("z", 4000), nil},
		{strings.Repeat("z", 1000) + "\r\nstats\r\n", nil},
	}, n)
	if more(t, r, &c); !r.Next(&c) || c.Verb != Stats {
		t.Error("the end of the body was read separately")
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// around returns the same bytes forever.
type around struct {
	data []byte
	at   int
}

func (a *around) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m := copy(p[n:], a.data[a.at:])
		n += m
		a.at = (a.at + m) % len(a.data)
	}
	return n, nil
}

func TestAllocations(t *testing.T) {
	for input, want := range map[string]float64{
		"put 0 0 1 128\r\n" + strings.Repeat("z", 128) + "\r\n": 1,
		"put 0 0 1 3\r\nabcde\r\n":                              0.5, // the second command is an empty line
		"put 0 0 1 20000\r\n" + strings.Repeat("z", 20002):      0,
		"reserve\r\n":                                                        0,
		"reserve-with-timeout 5\r\n":                                         0,
		"delete 123456\r\nfoo\r\na\rb\r\npeek x\r\n":                         0,
		"release 1 2 3\r\nkick -1\r\nstats-tube x\r\n":                       0,
		"use default\r\npause-tube a 5\r\nquit\r\n":                          0,
		strings.Repeat("x", 1000) + "\r\n":                                   0,
		"put 0 0 1 1 foo\r\nput 0 0 1 1" + strings.Repeat(" ", 900) + "\r\n": 0,
		"put 0 0 1 2 max:3\r\nab\r\n":                                        2, // body and Tags
		"set-policy a\r\nlist-jobs a ready\r\nflush-tube a\r\ntouch-lease 1 00000000000000000001\r\nmove-jobs a ready b 1\r\n": 0,
	} {
		r := NewReader(&around{data: []byte(input)}, 1000)
		var c Command
		for range 10_000 { // until the buffer has grown
			more(t, r, &c)
		}
		const batch = 100
		got := testing.AllocsPerRun(100, func() {
			for range batch {
				more(t, r, &c)
			}
		}) / batch
		if got > want {
			t.Errorf("%.20q: %v allocations a command, want %v", input, got, want)
		}
	}
}

// A connection that has sent nothing costs one small buffer.
func TestIdleMemory(t *testing.T) {
	const n = 1000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	readers := make([]*Reader, n)
	for i := range readers {
		readers[i] = NewReader(bytes.NewReader(nil), 1<<30)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 5000 {
		t.Errorf("%d bytes each", each)
	}
	runtime.KeepAlive(readers)
}

func BenchmarkNext(b *testing.B) {
	for _, bc := range []struct{ name, input string }{
		{"put128", "put 1024 0 60 128\r\n" + strings.Repeat("z", 128) + "\r\n"},
		{"put128-tags", "put 1024 0 60 128 key:order-1234567 retry:2m,10m,1h max:8\r\n" + strings.Repeat("z", 128) + "\r\n"},
		{"reserve", "reserve\r\n"},
		{"reserve-with-timeout", "reserve-with-timeout 5\r\n"},
		{"delete", "delete 1234567\r\n"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r := NewReader(&around{data: []byte(bc.input)}, 65535)
			var c Command
			b.ReportAllocs()
			for b.Loop() {
				for !r.Next(&c) {
					r.Fill()
				}
			}
		})
	}
}

// TestBegun checks that a put is counted once, when its line has arrived.
func TestBegun(t *testing.T) {
	for _, size := range []int{10, 10_000, 70_000} {
		pipe := &drip{}
		r := NewReader(pipe, 65535)
		var c Command
		pipe.add(fmt.Sprintf("put 0 0 1 %d\r\nabc", size))
		for range 3 {
			if r.Next(&c) {
				t.Fatalf("%d bytes: the put is complete", size)
			}
			verb, counted, producer := r.Begun()
			if counted && verb != Put {
				t.Errorf("%d bytes: %v has begun", size, verb)
			}
			if r.Buffered() == 0 && size == 10 && counted {
				t.Fatalf("%d bytes: counted before the line", size)
			}
			if counted {
				if producer != (size <= 65535) {
					t.Errorf("%d bytes: producer %v", size, producer)
				}
				break
			}
			r.Fill()
		}
		if _, counted, producer := r.Begun(); counted || producer {
			t.Errorf("%d bytes: reported twice", size)
		}
		pipe.add(strings.Repeat("x", size-3) + "\r\n")
		for !r.Next(&c) {
			if err := r.Fill(); err != nil {
				t.Fatal(err)
			}
		}
		if c.Verb != Put || c.Counted || c.Producer {
			t.Errorf("%d bytes: the command reports it again: %+v", size, c)
		}
	}
}

// drip is a source to which a test adds the bytes to be read next.
type drip struct{ rest strings.Builder }

func (p *drip) add(s string) { p.rest.WriteString(s) }

func (p *drip) Read(b []byte) (int, error) {
	s := p.rest.String()
	n := copy(b, s)
	p.rest.Reset()
	p.rest.WriteString(s[n:])
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
