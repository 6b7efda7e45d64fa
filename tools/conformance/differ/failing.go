package differ

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// failure is a script that failed, not yet reduced.
type failure struct {
	fault  *Fault
	number int
	timed  bool
	script []step
	played string // as a transcript

	slow time.Duration // see episode
}

// fail records a failing script, if no other fails in the same way. A timed one counts
// only if it fails again, since a slow machine can be the cause once.
func (r *run) fail(f failure) {
	r.Log("script %d: %v", f.number, f.fault)
	if f.slow >= guard {
		r.Log("script %d: the machine was slow, up to %v late", f.number, f.slow)
	}
	failed, inTime := true, true
	if f.timed && !f.fault.certain {
		failed, inTime = again(f, func() (*episode, *Fault) { return r.replay(f.script, f.number, true) })
	}
	if !inTime {
		r.Log("script %d: whenever it was played again the machine was too slow to tell", f.number)
	}
	if !failed {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.report.Doubtful++
		r.Log("script %d has not failed again:\n%s", f.number, f.played)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failed) >= r.Faults || slices.ContainsFunc(r.failed, func(o failure) bool { return o.fault.like(f.fault) }) {
		return
	}
	r.failed = append(r.failed, f)
}

// again reports whether a script fails again, and whether it was ever played while
// the machine was not too slow. Only then the result is valid. If it fails near
// an event, the event can be the cause, but hardly twice.
func again(f failure, replay func() (*episode, *Fault)) (failed, inTime bool) {
	passed, near := 0, 0
	for plays := 0; passed < 3 && plays < 9; plays++ {
		e, fault := replay()
		if e == nil || e.tooSlow() {
			continue
		}
		inTime = true
		same := fault != nil && fault.like(f.fault)
		switch {
		case same && !e.void:
			return true, true
		case same:
			if near++; near == 2 {
				return true, true
			}
		case !e.void:
			passed++
		}
	}
	return false, inTime
}

// replay plays a script again and returns its fault, if any. The
// transcript is what was played.
func (r *run) replay(script []step, number int, timed bool) (*episode, *Fault) {
	e, err := r.episode(number, timed)
	if err != nil {
		return nil, nil
	}
	defer e.close()
	next := func() (step, bool) {
		if len(script) == 0 {
			return step{}, false
		}
		s := script[0]
		script = script[1:]
		return s, true
	}
	var fault *Fault
	err = e.play(next)
	errors.As(err, &fault)
	e.void = e.void || errors.Is(err, errVoid)
	return e, fault
}

// reduce makes a failing script as small as possible within the time.
func (r *run) reduce(f failure) Finding {
	if f.fault.certain { // but not again each time, so that it cannot be made smaller
		return Finding{Fault: f.fault, Seed: r.Seed, Number: f.number, Transcript: f.played}
	}
	r.Patience = min(r.Patience, 2*time.Second)
	fails := func(script []step) bool {
		_, fault := r.replay(script, f.number, f.timed)
		return fault != nil && fault.like(f.fault)
	}
	s := &shrinker{fails: fails, parallel: r.Parallel, deadline: time.Now().Add(r.Shrink)}
	if f.timed {
		s.parallel = r.Crowd
	}
	script := s.shrink(f.script)
	found := Finding{Fault: f.fault, Seed: r.Seed, Number: f.number}
	for range 3 {
		e, fault := r.replay(script, f.number, f.timed)
		if e != nil {
			said := "it was not seen again"
			if fault != nil {
				found.Fault, said = fault, fault.Error()
			}
			found.Transcript = e.transcript("WHAT IT SHOWS, IN A SENTENCE.\nFound at random; the server compared with the judge: " + oneLine(said))
		}
		if fault != nil {
			break
		}
	}
	return found
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
