package differ

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// outstandingReplies is what a side must still send before it is idle.
type outstandingReplies struct {
	busy  bool // something that must come without a further step
	maybe int  // connections whose next reply is that of a reserve, which may wait
	lost  int  // a connection that has ended too early, -1 if none
	more  bool // there are replies without a command
}

// outstanding returns what a side must still send.
func (e *episode) outstanding(s *side) outstandingReplies {
	r := outstandingReplies{lost: -1}
	for id, c := range e.conns {
		replies, ended := s.received(id)
		due := len(c.pending)
		if due > 0 && c.pending[due-1].verb == "quit" {
			due--
		}
		r.more = r.more || replies > due
		switch {
		case replies >= due && c.over():
			r.busy = r.busy || !ended
		case ended:
			r.lost = id
		case replies >= due:
		case c.pending[replies].blocks && !c.halfClosed:
			r.maybe++
		default:
			r.busy = true
		}
	}
	return r
}

// errJudge means that the judge has not answered as expected: a mistake of this
// package, or an unknown behaviour of beanstalkd.
var errJudge = errors.New("the judge is not idle")

const (
	// judgePatience is the timeout of a reply of the judge.
	judgePatience = 10 * time.Second

	// longestWait is the longest single wait.
	longestWait = 50 * time.Millisecond
)

// budget is the remaining time to wait for a side. Time in which the whole machine stands still
// does not count.
type budget struct {
	*episode
	side *side
	left time.Duration
}

// wait returns when something has arrived, or after d.
func (b *budget) wait(d time.Duration) {
	begun := time.Now()
	b.side.wait(d)
	took := time.Since(begun)
	b.left -= min(took, 4*longestWait)
	b.slow = max(b.slow, took-d)
}

// awaitBoth waits until both servers are idle and compares what has come.
func (e *episode) awaitBoth() error {
	begun := time.Now()
	if err := e.awaitJudge(); err != nil {
		return err
	}
	e.slow = max(e.slow, time.Since(begun))
	owed, fault := make(map[int]int), error(nil)
	for id := range e.conns {
		owed[id], _ = e.judge.received(id)
	}
	if fault = e.awaitSubject(owed); fault != nil {
		for id := range owed { // compare what there is: that is more informative
			n, _ := e.subject.received(id)
			owed[id] = min(owed[id], n)
		}
	}
	if err := e.consume(owed); err != nil {
		fault = err
	}
	if fault != nil {
		e.logUnmatched()
		return fault
	}
	e.census = false
	e.forgetClosed()
	if e.timed {
		e.armTimeouts()
	}
	return nil
}

// awaitJudge waits until the judge is idle. If a reserve may be waiting,
// only the judge knows: if as many connections wait as had no reply
// before it was asked, and it has not counted a reserve after them, no reply
// is pending.
func (e *episode) awaitJudge() error {
	limit := budget{e, e.judge, judgePatience}
	for pause := 100 * time.Microsecond; ; {
		r := e.outstanding(e.judge)
		switch {
		case r.lost >= 0:
			return fmt.Errorf("%w: it has closed connection %s", errJudge, connName(r.lost))
		case r.more:
			return fmt.Errorf("%w: it has answered more than was asked", errJudge)
		case r.busy:
			limit.wait(longestWait)
		case r.maybe == 0 && !e.census:
			return nil
		default:
			if idle, err := e.isIdle(e.judge, r.maybe); err != nil || idle {
				return err
			}
			limit.wait(pause)
			pause = min(2*pause, 10*time.Millisecond)
		}
		if limit.left < 0 {
			return fmt.Errorf("%w: %+v", errJudge, r)
		}
	}
}

// isIdle asks a side whether this many connections wait and nothing else
// is pending.
func (e *episode) isIdle(s *side, waiting int) (bool, error) {
	want := e.idleState(s, waiting)
	st, err := s.probe()
	return st == want, err
}

// idleState is what a side reports when this many connections wait and nothing else is
// pending.
func (e *episode) idleState(s *side, waiting int) state {
	st := state{waiting: waiting, draining: e.draining, counted: e.sums.counted}
	for id, c := range e.conns {
		replies, ended := s.received(id)
		if !ended {
			st.connections++
		}
		if replies >= len(c.pending) {
			continue
		}
		for _, a := range append(slices.Clone(c.pending[replies+1:]), c.frame.put) {
			if a != nil && a.counted { // after the reserve
				st.counted--
			}
		}
	}
	return st
}

// awaitSubject waits until the subject has sent as many replies as the judge
// and is idle.
func (e *episode) awaitSubject(owed map[int]int) error {
	limit := budget{e, e.subject, e.patience}
	for pause := 100 * time.Microsecond; ; {
		r := e.outstanding(e.subject)
		missing, extra := e.compareCounts(owed)
		switch {
		case r.lost >= 0:
			return e.fault(r.lost, "the connection to stay open", "its end")
		case extra >= 0:
			n := owed[extra]
			return e.fault(extra, "no reply", show(e.subject.peek(extra)[n]))
		case missing >= 0 || r.busy:
			limit.wait(longestWait)
		case r.maybe == 0 && !e.census:
			return nil
		default:
			if idle, err := e.isIdle(e.subject, r.maybe); err != nil || idle {
				return err
			}
			limit.wait(pause)
			pause = min(2*pause, 10*time.Millisecond)
		}
		if limit.left < 0 {
			return e.late(missing, owed, r)
		}
	}
}

// late returns the fault of a subject that did not become idle.
func (e *episode) late(missing int, owed map[int]int, r outstandingReplies) error {
	if missing >= 0 {
		n, _ := e.subject.received(missing)
		n = min(n, owed[missing]-1) // it can have arrived just now
		return e.fault(missing, show(e.judge.peek(missing)[n]), "no reply")
	}
	for id, c := range e.conns {
		if _, ended := e.subject.received(id); c.over() && !ended {
			return e.fault(id, "the end of the connection", "nothing")
		}
	}
	st, err := e.subject.probe()
	if err != nil {
		return err
	}
	want := e.idleState(e.subject, r.maybe)
	return &Fault{Conn: -1, Verb: "idle", Want: fmt.Sprintf("%+v", want), Got: fmt.Sprintf("%+v", st)}
}

// compareCounts returns a connection on which the subject has sent fewer replies
// than the judge, and one on which it has sent more; -1 for none.
func (e *episode) compareCounts(owed map[int]int) (missing, extra int) {
	missing, extra = -1, -1
	for _, id := range slices.Sorted(maps.Keys(owed)) {
		switch n, _ := e.subject.received(id); {
		case n < owed[id]:
			missing = id
		case n > owed[id]:
			extra = id
		}
	}
	return missing, extra
}

// fault makes a fault of the first command without a reply.
func (e *episode) fault(id int, want, got string) *Fault {
	verb := "nothing"
	n, _ := e.subject.received(id)
	if c := e.conns[id]; n < len(c.pending) {
		verb = c.pending[n].verb
	}
	return &Fault{Conn: id, Verb: verb, Want: want, Got: got}
}

// forgetClosed removes connections that both servers have closed.
func (e *episode) forgetClosed() {
	for _, id := range slices.Sorted(maps.Keys(e.conns)) {
		c := e.conns[id]
		if !c.over() {
			continue
		}
		if c.frame.over {
			e.covered.add("quit", "(end)")
			e.compared++
		}
		last := &e.log[len(e.log)-1]
		last.end = append(last.end, id)
		e.forget(id)
		e.census = false
	}
}
