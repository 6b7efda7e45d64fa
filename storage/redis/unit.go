package redis

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// unit is what is carried out together: the batch of a connection, or upkeep of the
// engine itself. It may take several calls.
//
// A unit belongs to whoever handed it over until it is in the inbox, and then to the
// caller of the partition until end.
type unit struct {
	batch *storage.Batch // nil for upkeep
	since time.Time      // when it came; its time runs from here

	at       int          // operations of the batch that are encoded
	begun    int          // of these, in earlier calls than the present one
	yields   bool         // it has had as much of a call as one may have; others come first
	cut      bool         // something of it was cut, see rewind
	answered map[int]bool // operations that were, though one before them was cut
	limit    *head        // the batch is takes, of jobs that come before this one; nil if it is not, or of any

	refs    refProgress
	partial partial
	kick    kickProgress
	listing listing
	many    manyProgress

	upkeep  func(*call)     // encodes an operation of the engine itself
	after   func(err error) // called when upkeep is done, if not nil
	mustRun bool            // upkeep that must be done, however long it takes

	abandoned bool // it was answered with an error, while its call goes on
}

// attendProgress says how far a unit's attending operations have come.
type refProgress struct {
	counted int // that attendance knows
	seen    int // that are encoded
	before  int // of these, in earlier calls than the present one
}

// partial is an operation on many jobs that takes several calls, and how many jobs
// it has kicked or removed in those that were answered.
type partial struct {
	op   *storage.Op
	jobs int
}

// add notes that a part of an operation was done with some more jobs.
func (d *partial) add(op *storage.Op, jobs int) { d.op, d.jobs = op, d.jobs+jobs }

// kickProgress is a kick that takes several calls.
type kickProgress struct {
	from string // the state from which it kicks; "" before the first call
}

// listing is a list of tubes that is read in parts, from its end, or of jobs in them.
type listing struct {
	from  int // where the next part ends, behind the first; 0 if none was read
	names []string
	jobs  []tube.JobStats
}

// next is where the next part is to end, as the script wants it.
func (l *listing) next() int {
	if l.from == 0 {
		return -1
	}
	return l.from
}

// opsOf counts the operations of units.
func opsOf(units []*unit) int {
	n := 0
	for _, u := range units {
		if n++; u.batch != nil {
			n += len(u.batch.Ops) - 1
		}
	}
	return n
}

// enterCall is called when u goes into a call.
func (u *unit) enterCall() { u.begun, u.refs.before, u.yields = u.at, u.refs.seen, false }

// restart goes back to where u was when it went into its present call, which was not
// carried out.
func (u *unit) restart() { u.at, u.refs.seen = u.begun, u.refs.before }

// again asks for the last operation once more, in another call.
func (u *unit) again() { u.at-- }

// againLater is again, behind what others want.
func (u *unit) againLater() { u.at, u.yields = u.at-1, true }

// done returns whether nothing is left to do.
func (u *unit) done() bool { return u.batch == nil || u.at == len(u.batch.Ops) }

// rewind goes back to the first operation that was cut, and returns whether there is
// one. The unit yields to others if it has got something.
func (u *unit) rewind(cut map[*storage.Op]bool) bool {
	ops, first := u.batch.Ops, u.begun
	for first < u.at && !cut[&ops[first]] {
		first++
	}
	if first == u.at {
		return false
	}
	u.cut, u.yields = true, first > u.begun
	for i := first + 1; i < u.at; i++ {
		if !cut[&ops[i]] && !u.answered[i] {
			if u.answered == nil {
				u.answered = make(map[int]bool)
			}
			u.answered[i], u.yields = true, true
		}
	}
	u.at = first
	return true
}

// given returns the operations that have given somebody a job, as far as u has got.
func (u *unit) given() (ops []*storage.Op) {
	if u.batch == nil {
		return nil
	}
	for i := range u.batch.Ops {
		if op := &u.batch.Ops[i]; (i < u.at || u.answered[i]) && givesJob(op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// open returns the operations, from one as far as u has got, that were not answered.
func (u *unit) open(from int) []*storage.Op {
	ops := make([]*storage.Op, 0, u.at-from)
	for i := from; i < u.at; i++ {
		if !u.answered[i] {
			ops = append(ops, &u.batch.Ops[i])
		}
	}
	return ops
}

// end tells whoever handed u over that it is done; if err is not nil nothing of it
// counts as done, but for the jobs that were kicked or removed.
func (u *unit) end(err error) {
	if u.upkeep != nil {
		if u.after != nil {
			u.after(err)
		}
		return
	}
	if err != nil {
		for i := range u.batch.Ops {
			op := &u.batch.Ops[i]
			op.Answer = storage.Answer{Err: err, Count: u.jobsDone(i)}
		}
	}
	u.batch.Done()
}

// jobsDone returns with how many jobs an operation was done in calls that were answered.
func (u *unit) jobsDone(i int) int {
	switch op := &u.batch.Ops[i]; {
	case op == u.partial.op:
		return u.partial.jobs
	case i < u.at: // encoded, so an answer is not that of an earlier use of the operation
		return op.Answer.Count
	}
	return 0
}
