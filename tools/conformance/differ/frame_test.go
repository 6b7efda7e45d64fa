package differ

import (
	"slices"
	"strings"
	"testing"
)

// TestFramer: what is sent is cut into the commands that beanstalkd answers,
// however it is cut up on the way.
func TestFramer(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ sent, want string }{
		{"stats\r\nfoo\r\n", "stats unknown"},
		{"\r\n", "unknown"},
		{"stats\n\r\n", "stats"},
		{"quitter\r\nstats\r\n", "quit"},
		{"put 0 0 1 3\r\nabc\r\nstats\r\n", "put stats"},
		{"put 0 0 1 3\r\n\r\n\r\r\n", "put"},
		{"put 0 0 1 3\r\nabcde\r\n", "put! unknown"},
		{"put 0 0 1 x\r\nstats\r\n", "put! stats"},
		{"put 0 0 1 3 junk\r\nabc\r\n", "put! unknown"},
		{"put 4294967296 0 1 3\r\nabc\r\n", "put! unknown"},
		{"put  0  0  007  0\r\n\r\n", "put"},
		{"put 0 0 1 11 junk\r\nabcdefghijk\r\nstats\r\n", "put! stats"},
		{"put 0 0 1 11\r\nstats\r\nstats\r\n", "put!"},
		{"put 0 0 1 3\r\nab", ""},
		{"stats-job\r\nreserve-with-timeout \r\nreserve-with-timeout 0\r\n", "stats reserve-with-timeout? reserve-with-timeout"},
		{"reserve\r\nreservex\r\nreserve-with-timeout 1\r\n", "reserve... reserve reserve-with-timeout..."},
		{"reserve-with-timeout 9223372036854775808\r\n", "reserve-with-timeout"},
		{"reserve-with-timeout 2147483648\r\n", "reserve-with-timeout?..."},
		{"stats\x00\r\n", "unknown"},
		{x(222) + "\r\n" + x(224) + "\r\n", "unknown unknown"},
		{x(223) + "\r\n" + x(447) + "\r\n", "unknown? unknown?"},
		{"sta\rts\r\nstats\r\r\n", "unknown? stats?"},
	} {
		for _, cut := range []int{1, 7, len(c.sent)} {
			f := framer{max: 10, sums: new(sums)}
			var got []string
			for part := range slices.Chunk([]byte(c.sent), cut) {
				for _, a := range f.feed(part, 0) {
					got = append(got, describe(a))
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%.60q in pieces of %d: %q, want %q", c.sent, cut, got, c.want)
			}
		}
	}
}

// describe writes a command as the test does.
func describe(a *sentCommand) string {
	s := a.verb
	if a.verb == "put" && !a.whole {
		s += "!"
	}
	if a.flaw != "" {
		s += "?"
	}
	if a.blocks {
		s += "..."
	}
	return s
}

// TestClone: what is fed to a copy does not change the framer.
func TestClone(t *testing.T) {
	f := framer{max: 10, sums: new(sums)}
	f.feed([]byte("put 0 0 1 5\r\nab"), 7)
	c := f.clone()
	if done := c.feed([]byte("cde\r\nput 0 0 1 1\r\nx\r\nsta"), 8); len(done) != 2 || done[0].label != 7 || done[1].label != 8 {
		t.Fatalf("the copy has %+v", done)
	}
	if f.left != 5 || f.sums.begun != 1 || f.sums.counted != 1 || len(f.line) > 0 || string(f.end) != "ab" {
		t.Errorf("the original is %+v", f)
	}
	if done := f.feed([]byte("cde\r\n"), 0); len(done) != 1 || !done[0].whole {
		t.Errorf("the original goes on with %+v", done)
	}
}
