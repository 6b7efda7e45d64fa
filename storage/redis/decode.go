package redis

import (
	"errors"
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// reply is what a call of the script has returned, being read from the front.
// The first value that is missing or of the wrong type is remembered in err.
type reply struct {
	answers  []any
	earliest time.Duration // until the first thing that the call made due; negative: none
	hints    []any
	at       int
	err      error
}

var errReply = errors.New("the script returned something else than expected")

// parseReply takes apart what the script returns, see lua/10_batch.lua.
func parseReply(raw any) (*reply, error) {
	parts, ok := raw.([]any)
	if !ok || len(parts) != 3 {
		return nil, fmt.Errorf("%w: %T", errReply, raw)
	}
	answers, ok1 := parts[0].([]any)
	earliest, ok2 := parts[1].(int64)
	hints, ok3 := parts[2].([]any)
	if !ok1 || !ok2 || !ok3 {
		return nil, errReply
	}
	return &reply{answers: answers, earliest: time.Duration(earliest) * time.Microsecond, hints: hints}, nil
}

func (r *reply) next() any {
	if r.at >= len(r.answers) {
		r.err = errReply
		return nil
	}
	r.at++
	return r.answers[r.at-1]
}

func (r *reply) int64() int64 {
	n, ok := r.next().(int64)
	if !ok {
		r.err = errReply
	}
	return n
}

func (r *reply) int() int     { return int(r.int64()) }
func (r *reply) id() uint64   { return uint64(r.int64()) }
func (r *reply) found() bool  { return r.int64() == 1 }
func (r *reply) body() []byte { return []byte(r.text()) }

func (r *reply) text() string {
	s, ok := r.next().(string)
	if !ok {
		r.err = errReply
	}
	return s
}

// ms reads milliseconds.
func (r *reply) ms() time.Duration { return time.Duration(r.int64()) * time.Millisecond }

// readTake reads the job of a take, or says how soon DEADLINE_SOON is.
func (p *partition) readTake(r *reply, op *storage.Op) {
	a := &op.Answer
	if a.NotFound = !r.found(); a.NotFound {
		a.Soon = p.holdings.soon(op.Holder, p.now())
		return
	}
	a.ID, a.Body = r.id(), r.body()
	p.holdings.hold(op.Holder, a.ID, p.sent.Add(r.ms()))
}

// readMove reads the answer of a move, and keeps in step what the holder has.
func (p *partition) readMove(r *reply, op *storage.Op) {
	a := &op.Answer
	if a.NotFound = !r.found(); a.NotFound {
		return
	}
	if left := r.ms(); left > 0 {
		p.holdings.hold(op.Holder, op.ID, p.sent.Add(left))
	} else {
		p.holdings.drop(op.Holder, op.ID)
	}
	if op.Move == tube.ReserveJob {
		a.ID, a.Body = r.id(), r.body()
	}
}

func readPeek(r *reply, a *storage.Answer) {
	if a.NotFound = !r.found(); !a.NotFound {
		a.ID, a.Body = r.id(), r.body()
	}
}

func readJobStats(r *reply, op *storage.Op) {
	if op.Answer.NotFound = !r.found(); op.Answer.NotFound {
		return
	}
	s := &tube.JobStats{ID: op.ID, Tube: r.text(), State: stateOf(r.text())}
	s.Pri, s.Delay, s.TTR = uint32(r.int64()), uint32(r.int64()), uint32(r.int64())
	s.Age, s.TimeLeft = r.ms(), r.ms()
	for c := range s.Counters {
		s.Counters[c] = uint32(r.int64())
	}
	op.Answer.Job = s
}

// readTubeStats reads what Redis knows of a tube; using and watching are how
// many connections of this instance do, which it does not tell.
func readTubeStats(r *reply, op *storage.Op, using, watching int) {
	if op.Answer.NotFound = !r.found(); op.Answer.NotFound {
		return
	}
	s := &tube.TubeStats{Name: op.Tube, Urgent: r.id(), Ready: r.id(), Delayed: r.id(), Buried: r.id(), Total: r.id(), Deletes: r.id(), Pauses: r.id()}
	s.Pause, s.PauseLeft = uint32(r.int64()), r.ms()
	s.Using, s.Watching, s.Waiting = r.id()+uint64(using), r.id()+uint64(watching), r.id()
	s.Reserved = s.Total - s.Deletes - s.Ready - s.Delayed - s.Buried
	op.Answer.TubeStats = s
}

func readStats(r *reply, op *storage.Op) {
	r.found()
	t := tube.Totals{Urgent: r.id(), Ready: r.id(), Delayed: r.id(), Buried: r.id(), Jobs: r.id()}
	deleted := r.id()
	t.Timeouts, t.Tubes = r.id(), r.id()
	t.Reserved = t.Jobs - deleted - t.Ready - t.Delayed - t.Buried
	op.Answer.Stats = &storage.Figures{Totals: t}
}

func readTubes(r *reply, op *storage.Op) {
	names := make([]string, r.int())
	for i := range names {
		names[i] = r.text()
	}
	op.Answer.Names = names
}
