package differ

import (
	"fmt"
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
// with label 5, which differs from server to server; 5/1 for its lease number 1, c1 for
// cursor number 1, and @2000 for 2 s after the step begins, in milliseconds since the
// Unix epoch.
type command struct {
	line    string
	payload string // CRLF, a body
	label   int    // of the job that a put makes; 0 if it is no put
}

// refStart begins the reference to a job in a line.
const refStart = "\x02"

// ref writes a job's id into a line.
func ref(label int) string { return refStart + strconv.Itoa(label) + "\x03" }

func leaseRef(label, n int) string { return fmt.Sprintf(refStart+"%d/%d\x03", label, n) }
func cursorRef(n int) string       { return fmt.Sprintf(refStart+"c%d\x03", n) }
func timeRef(ms uint64) string     { return fmt.Sprintf(refStart+"@%d\x03", ms) }

var refs = regexp.MustCompile("\x02([0-9]+|[0-9]+/[0-9]+|c[0-9]+|@[0-9]+)\x03")

// names has the values of references on one of the servers.
type names struct {
	id     func(label int) (uint64, bool)
	lease  func(label, n int) (string, bool)
	cursor func(n int) (string, bool)
	now    uint64 // when the step begins
}

// noLease and noCursor stand for leases and cursors that do not exist.
const noLease, noCursor = "00000000000000000007", "none"

// resolve returns the value of a reference, given without its markers.
func (n names) resolve(r string) string {
	label, number, isLease := strings.Cut(r, "/")
	job, _ := strconv.Atoi(label)
	switch {
	case isLease:
		at, _ := strconv.Atoi(number)
		if token, ok := n.lease(job, at); ok {
			return token
		}
		return noLease
	case r[0] == 'c':
		at, _ := strconv.Atoi(r[1:])
		if cursor, ok := n.cursor(at); ok {
			return cursor
		}
		return noCursor
	case r[0] == '@':
		ms, _ := strconv.ParseUint(r[1:], 10, 64)
		return strconv.FormatUint(n.now+ms, 10)
	}
	if id, ok := n.id(job); ok {
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
