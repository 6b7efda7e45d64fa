package differ

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verbs, in the order in which a line is matched against them.
var verbs = []string{
	"put ", "peek ", "peek-ready", "peek-delayed", "peek-buried", "reserve-with-timeout ", "reserve-job ",
	"reserve", "delete ", "release ", "bury ", "kick ", "kick-job ", "touch ", "stats-job ", "stats-tube ",
	"stats", "use ", "watch ", "ignore ", "list-tubes-watched", "list-tube-used", "list-tubes", "quit", "pause-tube",
}

const (
	lineMax = 222 // bytes of a line that is read, without its CRLF

	// The verb of a line that begins with no known word, or is bad before its word
	// is parsed.
	unknown = "unknown"
)

// framer cuts the bytes sent on one connection into commands.
type framer struct {
	max  int          // the longest body allowed
	line []byte       // of the line that is not complete yet
	left int64        // bytes still to come of a body and its CRLF
	end  []byte       // the last two bytes of the body so far
	put  *sentCommand // whose body that is
	over bool         // quit was sent
	lost bool         // and something after it
	sums *sums
}

// sums counts on all connections.
type sums struct {
	begun   int // puts with a body
	counted int // what is counted in asked
}

// clone returns a copy that can be fed without changing f.
func (f *framer) clone() *framer {
	c := *f
	sums := *f.sums
	c.line, c.end, c.sums = slices.Clone(f.line), slices.Clone(f.end), &sums
	if f.put != nil {
		put := *f.put
		c.put = &put
	}
	return &c
}

// idle reports whether no command has been begun.
func (f *framer) idle() bool { return len(f.line) == 0 && f.put == nil }

// feed takes the next sent bytes and returns the commands that they complete.
// A put that begins here gets the label.
func (f *framer) feed(data []byte, label int) (done []*sentCommand) {
	for len(data) > 0 && !f.over {
		if f.put != nil {
			data = f.body(data)
			if f.left == 0 {
				f.put.whole = f.put.whole && string(f.end) == "\r\n"
				done = append(done, f.put)
				f.put, f.end = nil, nil
			}
			continue
		}
		n := bytes.IndexByte(data, '\n') + 1
		if n == 0 {
			n = len(data)
		}
		f.line = append(f.line, data[:n]...)
		data = data[n:]
		if !bytes.HasSuffix(f.line, []byte("\r\n")) {
			continue
		}
		a := f.command(string(f.line[:len(f.line)-2]), label)
		f.line = nil
		switch {
		case a.verb == "put":
			label = 0
			if f.put = a; f.left == 0 { // a bad line has no body
				f.put, done = nil, append(done, a)
			}
		case a.verb == "quit":
			f.over, done = true, append(done, a)
		default:
			done = append(done, a)
		}
	}
	f.lost = f.lost || len(data) > 0
	return done
}

func (f *framer) body(data []byte) []byte {
	n := min(f.left, int64(len(data)))
	f.left -= n
	f.end = append(f.end, data[max(0, n-2):n]...)
	f.end = slices.Clone(f.end[max(0, len(f.end)-2):])
	return data[n:]
}

// command parses a line.
func (f *framer) command(line string, label int) *sentCommand {
	a := &sentCommand{line: line, verb: verbOf(line)}
	switch {
	case strings.Contains(line, "\r"):
		a.flaw = "framing-lone-cr"
	case len(line) > lineMax && (len(line)-lineMax-1)%(lineMax+2) == 0:
		a.flaw = "framing-line-of-223"
	case len(line) > lineMax || strings.Contains(line, "\x00"):
		a.verb = unknown
	case a.verb == "put":
		f.beginPut(a, label)
	case a.verb == "reserve":
		a.blocks = line == "reserve"
		a.counted = a.blocks
	case a.verb == "reserve-with-timeout":
		var same bool
		a.blocks, a.counted, same = timeoutOf(line)
		if !same {
			a.flaw = "numbers-reserve-with-timeout"
		}
	}
	if a.counted {
		f.sums.counted++
	}
	return a
}

// verbOf returns the verb that a line begins with.
func verbOf(line string) string {
	for _, v := range verbs {
		if strings.HasPrefix(line, v) {
			return strings.TrimSuffix(v, " ")
		}
	}
	return unknown
}

var putLine = regexp.MustCompile(`(?s)^put +([0-9]+) +([0-9]+) +([0-9]+) +([0-9]+)(.*)$`)

// beginPut reads the size of a put. A body that is too big is skipped even
// if the line has something after its numbers.
func (f *framer) beginPut(a *sentCommand, label int) {
	m := putLine.FindStringSubmatch(a.line)
	if m == nil {
		return
	}
	for _, number := range m[1:5] {
		if _, ok := number32(number); !ok {
			return
		}
	}
	a.counted = true
	size, _ := number32(m[4])
	big := size > uint64(f.max)
	if !big && m[5] != "" {
		return
	}
	f.left = int64(size) + 2
	f.sums.begun++
	a.whole, a.label, a.begun, a.since = !big, label, f.sums.begun, time.Now()
}

// number32 reads digits that are a number below 2^32.
func number32(digits string) (uint64, bool) {
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n <= 1<<32-1
}

var timeoutLine = regexp.MustCompile(`^reserve-with-timeout +([0-9]+)`)

// timeoutOf reads the timeout of a reserve. same is false if beanstalkd 1.12 and
// 1.13 read it differently.
func timeoutOf(line string) (blocks, valid, same bool) {
	m := timeoutLine.FindStringSubmatch(line)
	if m == nil {
		return false, false, false
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil || n > 1<<63-1 {
		return false, false, true
	}
	return n > 0, true, n <= 1<<31-1
}
