package differ

import (
	"regexp"
	"strconv"
	"strings"
)

// act is what a step does.
type act uint8

const (
	send   act = iota // one packet, or one in fragments
	half              // shut down the sending side
	hangUp            // close the connection
	drain             // SIGUSR1 to the servers; conn means nothing
	quiet             // nothing, until no figure of the subject lags; conn means nothing
)

// step is what happens at once; both servers must become idle after it.
type step struct {
	act      act
	conn     int // opened when it is first named
	commands []command
	cuts     []int // where the packet is cut into fragments, modulo its length
	fin      bool  // shut down the sending side right behind the packet
}

// command is what is cut out together when a script is made smaller: a line
// and what belongs to it. In a line, \x02 5 \x03 stands for the id of the job
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

// noSuchJob is written for a job that was never made.
const noSuchJob = "99999999999"

// bytes is the packet for a server on which jobs have the ids that id tells.
func (c command) bytes(id func(label int) (uint64, bool)) []byte {
	line := c.line
	if strings.Contains(line, refStart) {
		line = refs.ReplaceAllStringFunc(line, func(r string) string {
			label, _ := strconv.Atoi(r[1 : len(r)-1])
			if n, ok := id(label); ok {
				return strconv.FormatUint(n, 10)
			}
			return noSuchJob
		})
	}
	return []byte(line + c.payload)
}

// clean drops what is left of references that were cut up.
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
