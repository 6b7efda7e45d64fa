package protocol

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// linesSeed is the seed of the random lines in this package's tests. It is the same in each run:
// what another seed finds is an old fault, and not one of the change that is tested.
var linesSeed = flag.Uint64("lines-seed", 1, "what makes the random lines")

// TestJudge sends random lines to the real beanstalkd (1.12 or 1.13: the one on the path,
// or REDSTALK_BEANSTALKD) and compares the faults. It omits what is fixed here or differs between the
// two versions: framing faults and reserve-with-timeout.
func TestJudge(t *testing.T) {
	conn := startJudge(t)
	in := bufio.NewReader(conn)
	rnd := rand.New(rand.NewPCG(1, *linesSeed))
	for range 20_000 {
		line := randomLine(rnd)
		var c Command
		parseLine(&c, []byte(line))
		if c.Verb == Quit || c.Verb == ReserveWithTimeout || c.Verb == Reserve && c.Fault == NoFault || isExtension(&c) {
			continue
		}
		const limit = 10
		want, body := c.Fault, ""
		if c.Verb == Put && c.Fault == NoFault {
			switch {
			case c.size > 100_000:
				continue
			case c.size > limit:
				want, body = JobTooBig, strings.Repeat("b", int(c.size)+2)
			case c.junk:
				want = BadFormat
			case rnd.IntN(2) == 0:
				want, body = ExpectedCRLF, strings.Repeat("b", int(c.size)+2)
			default:
				body = strings.Repeat("b", int(c.size)) + "\r\n"
			}
		}
		// list-tube-used marks the end: whatever the answer was, it ends there.
		fmt.Fprintf(conn, "%s\r\n%slist-tube-used\r\n", line, body)
		first, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got := NoFault
		for f := BadFormat; f <= ExpectedCRLF; f++ {
			if first == f.String()+"\r\n" {
				got = f
			}
		}
		if got != want {
			t.Errorf("%q: beanstalkd says %q, we say %q", line, first, want)
		}
		if c.Verb == Use && got == NoFault || c.Verb == ListTubeUsed && got == NoFault {
			in.ReadString('\n')
			continue
		}
		for last := ""; !strings.HasPrefix(last, "USING "); {
			if last, err = in.ReadString('\n'); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
}

// isExtension reports whether beanstalkd does not know a line: an extension, tags, or a weight.
func isExtension(c *Command) bool {
	return c.Verb.Spec().Extension || c.Tags != nil || c.badTags || c.KeepCheckpoint || c.Verb == Watch && c.Fault == NoFault && c.Weight > 0
}

func startJudge(t *testing.T) net.Conn {
	_, addr := child.Beanstalkd(t, "-z", "10")
	conn, err := net.Dial("unix", strings.TrimPrefix(addr, "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// randomLine returns a word that beanstalkd knows, mostly complete, with arguments that are
// mostly almost valid.
func randomLine(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	v := Unknown + 1 + Verb(rnd.IntN(int(NumVerbs)-1))
	for v.Spec().Extension {
		v = Unknown + 1 + Verb(rnd.IntN(int(NumVerbs)-1))
	}
	var line bytes.Buffer
	line.WriteString(v.Spec().Prefix)
	if rnd.IntN(8) == 0 {
		line.Truncate(rnd.IntN(line.Len() + 1))
	}
	for range rnd.IntN(6) {
		line.WriteString(pick("0", "1", "7", "12", "007", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616",
			"-1", "+1", "-", "x", "a", "tube", "-a", ".5", strings.Repeat("n", 200), strings.Repeat("n", 201), "\t", "\n", "\xff", ":", "99999999999999999999", "key:", "key:a", "max:0", "foo:1", "progress:a", "keep-checkpoint"))
		line.WriteString(pick(" ", " ", " ", "", "", "  ", "\t"))
	}
	out := line.String()
	if rnd.IntN(2) == 0 {
		out = strings.TrimRight(out, " ")
	}
	return out[:min(len(out), MaxLine-2)]
}
