package protocol

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// nameBodyVerb gives the verb use a name, a size and a body, until the test ends. No real verb
// has both a name and a body.
func nameBodyVerb(t *testing.T) {
	before := table[Use]
	t.Cleanup(func() { table[Use] = before })
	table[Use].Body = true
	table[Use].parse = func(c *Command, args []byte) (ok bool) {
		name, rest, found := bytes.Cut(args, []byte(" "))
		c.Name = name
		c.size, rest, ok = u32(rest)
		c.junk = len(rest) > 0
		return found && ok && ValidName(name)
	}
}

// TestNameAndBody checks that a name is still valid when the body is complete, although the
// buffer moves and is overwritten while the body arrives.
func TestNameAndBody(t *testing.T) {
	nameBodyVerb(t)
	for _, size := range []int{0, 3, minBuffer - 100, minBuffer + 100, 3 * maxBuffer} {
		body := strings.Repeat("b", size)
		one := fmt.Sprintf("put 0 0 1 3\r\nabc\r\nuse first-%d %d\r\n%s\r\nuse second %d\r\n%s\r\nstats\r\n", size, size, body, size, body)
		input, want := strings.Repeat(one, 3), []string{"", fmt.Sprint("first-", size), "second", ""}
		for name, cut := range map[string]func() int{
			"whole": whole, "byte by byte": oneByte, "split": randomly(7), "1000 bytes": func() int { return 1000 },
		} {
			r, n := NewReader(&pieces{input, cut}, 1<<20), 0
			for c := (Command{}); ; {
				for ; r.Next(&c); n++ {
					if got := string(c.Name); got != want[n%len(want)] || c.Fault != NoFault {
						t.Fatalf("size %d, %s, command %d: name %q (%v), want %q", size, name, n, got, c.Fault, want[n%len(want)])
					}
					if c.Verb == Use && string(c.Body) != body {
						t.Fatalf("size %d, %s: a body of %d bytes", size, name, len(c.Body))
					}
				}
				if err := r.Fill(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if n != 3*len(want) {
				t.Errorf("size %d, %s: %d commands, want %d", size, name, n, 3*len(want))
			}
		}
	}
}

// TestNameAndBodyFaults checks that bodies are checked in the same way for every verb.
func TestNameAndBodyFaults(t *testing.T) {
	nameBodyVerb(t)
	input := "use a 4\r\nabcdxxuse a 9\r\n123456789\r\nuse a 1 junk\r\nstats\r\nuse -a 0\r\nuse a 1\r\nb\r\n"
	want := []Fault{ExpectedCRLF, JobTooBig, BadFormat, NoFault, BadFormat, NoFault}
	for _, cut := range []func() int{whole, oneByte} {
		r := NewReader(&pieces{input, cut}, 8)
		for i, fault := range want {
			var c Command
			more(t, r, &c)
			if c.Fault != fault {
				t.Errorf("command %d: %v, want %v", i, c.Fault, fault)
			}
		}
	}
}
