package differ

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sentCommand is a completely sent command, with what follows from its bytes
// alone.
type sentCommand struct {
	verb, line string
	label      int       // of the job, if it is a put
	whole      bool      // a put whose body is complete and ends as it should
	blocks     bool      // a reserve that waits if there is no job
	flaw       string    // the name of a difference that it would show
	begun      int       // a put with a body, to be kept or swallowed: its place among them
	since      time.Time // then: when its line was complete
	counted    bool      // a put or reserve that is well-formed, so that stats counts it
	armed      bool      // what its waiting sets off was noted
	delayed    bool      // its long delay was noted
	closeWait  bool      // a reserve whose wait ends just after what is due, see episode.closeWait

	// How many stats pages had been asked of the two for other reasons.
	probesJudge, probesSubject int
}

// ids returns the jobs that a command names, if it names any. It is called for every
// command of every packet that might be sent.
func (a *sentCommand) ids() (all []uint64) {
	verb, rest, _ := strings.Cut(a.line, " ")
	switch verb {
	case "peek", "reserve-job", "delete", "release", "bury", "kick-job", "touch", "stats-job":
	default:
		return nil
	}
	for {
		rest = strings.TrimLeft(rest, " ")
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			return all
		}
		if all = append(all, n); verb != "delete-batch" {
			return all
		}
		rest = rest[len(digits):]
	}
}

var (
	releaseLine = regexp.MustCompile(`^release +([0-9]+) +([0-9]+) +([0-9]+)$`)
	pauseLine   = regexp.MustCompile(`^pause-tube *([-A-Za-z0-9+/;.$_()]+) +([0-9]+)$`)
)

// seconds returns the times that a command names, if it may be accepted.
func (a *sentCommand) seconds() []uint64 {
	var m []string
	switch a.verb {
	case "put":
		if m = putLine.FindStringSubmatch(a.line); m != nil && a.whole {
			ttr := m[3]
			if strings.Trim(ttr, "0") == "" {
				ttr = "1"
			}
			m = []string{m[2], ttr}
		} else {
			m = nil
		}
	case "release":
		if m = releaseLine.FindStringSubmatch(a.line); m != nil {
			m = m[3:]
		}
	case "pause-tube":
		if m = pauseLine.FindStringSubmatch(a.line); m != nil {
			m = m[2:]
		}
	case "reserve-with-timeout":
		if m = timeoutLine.FindStringSubmatch(a.line); m != nil {
			m = m[1:]
		}
	}
	var all []uint64
	for _, digits := range m {
		if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

const (
	soonest = 3    // seconds: the longest time that a timed script waits for
	latest  = 1000 // seconds: what a script never waits for begins here
	apart   = 100  // seconds: between longer delays, more than a script takes
)

// longDelay returns the delay of a put or release, if it is a long one.
func (a *sentCommand) longDelay() (uint64, bool) {
	times := a.seconds()
	if len(times) == 0 || times[0] < latest {
		return 0, false
	}
	switch a.verb {
	case "put", "release":
		return times[0], true
	}
	return 0, false
}

// wakes reports whether a command can make a job ready, or let one be taken.
func (a *sentCommand) wakes() bool {
	switch a.verb {
	case "put", "release", "kick", "kick-job", "pause-tube", "quit":
		return true
	}
	return false
}

// isNeutral reports whether a command neither changes a job nor shows one.
func (a *sentCommand) isNeutral() bool {
	switch a.verb {
	case unknown, "use", "watch", "ignore", "list-tube-used", "list-tubes-watched":
		return true
	}
	return false
}
