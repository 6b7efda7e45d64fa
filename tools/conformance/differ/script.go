package differ

import (
	"regexp"
	"strconv"
	"strings"
)

// act is the action of a step.
type act uint8

const (
	send   act = iota // one packet, or one in fragments
	half              // shut down the sending side
	hangUp            // close the connection
	drain             // SIGUSR1 to the servers; conn is unused
	quiet             // wait until no figure of the subject lags; conn is unused
)

// step is one action; both servers must become idle after it.
type step struct {
	act      act
	conn     int // opened when it is first named
	commands []command
	cuts     []int // where the packet is cut into fragments, modulo its length
	fin      bool  // shut down the sending side right after the packet
}

// command is the unit that is removed when a script is reduced: a line
// with its body. In a line, \x02 5 \x03 stands for the id of the job
// with label 5, which differs from server to server.
type command struct {
	line    string
	payload string // CRLF, a body
	label   int    // of the job that a put makes; 0 if it is no put
}

// refStart begins the reference to a job in a line.
const refStart = "\x02"

// ref writes a job's id into a line.
func ref(label int) string { return refStart + strconv.Itoa(label) + "\x03" }

var refs = regexp.MustCompile("\x02([0-9]+)\x03")

// names returns the id on one of the servers of the job with a label; false if it has none.
type names func(label int) (uint64, bool)

// resolve returns the id for a label.
func (n names) resolve(label string) string {
	job, _ := strconv.Atoi(label)
	if id, ok := n(job); ok {
		return strconv.FormatUint(id, 10)
	}
	return noSuchJob
}

// noSuchJob is the id for a job that does not exist.
const noSuchJob = "99999999999"

// bytes returns the bytes for a server with these names.
func (c command) bytes(n names) []byte {
	line := c.line
	if strings.Contains(line, refStart) {
		line = refs.ReplaceAllStringFunc(line, func(r string) string { return n.resolve(r[1 : len(r)-1]) })
	}
	return []byte(line + c.payload)
}

// clean removes the remains of references that were cut.
func clean(line string) string {
	if !strings.ContainsAny(line, "\x02\x03") {
		return line
	}
	whole := refs.FindAllStringIndex(line, -1)
	kept := make([]byte, 0, len(line))
	for i := range len(line) {
		inside := false
		for _, w := range whole {
			inside = inside || w[0] <= i && i < w[1]
		}
		if inside || line[i] != 2 && line[i] != 3 {
			kept = append(kept, line[i])
		}
	}
	return string(kept)
}
