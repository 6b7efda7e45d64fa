package redis

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// unit is what is carried out together: the batch of a connection, or background work of the
// engine itself, such as heartbeats, expiry and reclaiming. It can take several
// calls.
//
// A unit belongs to the goroutine that submits it until it is in the inbox, and then to the
// caller of the partition until end.
type unit struct {
	batch *storage.Batch // nil for background work
	since time.Time      // when it was submitted, for its time limit

	at       int          // number of operations of the batch that are encoded
	begun    int          // how many of these, in earlier calls than the present one
	yields   bool         // it has had its share of a call; others come first
	cut      bool         // something of it was cut, see rewind
	answered map[int]bool // operations that were answered although one before them was cut
	limit    *head        // if not nil, the batch is takes of jobs that come before this one

	refs    refProgress
	partial partial
	kick    kickProgress
	listing listing
	many    manyProgress

	background func(*call)     // encodes an operation of the engine itself
	after      func(err error) // called when background work is done, if not nil
	mustRun    bool            // background work without a time limit

	abandoned bool // it was answered with an error, while its call continues
}

// refProgress is how many Ref operations of a unit are done.
type refProgress struct { // counted in tubeRefs
	counted int // encoded
	seen    int // how many of these, in earlier calls than the present one
	before  int // of these, in earlier calls than the present one
}

// partial is the progress of an operation on many jobs that takes several calls: how many jobs
// it has kicked or removed in those that were answered.
type partial struct {
	op   *storage.Op
	jobs int
}

// add adds jobs of an answered part of an operation.
func (d *partial) add(op *storage.Op, jobs int) { d.op, d.jobs = op, d.jobs+jobs }

// kickProgress is the state of a kick that takes several calls.
type kickProgress struct {
	from string // the state from which it kicks; "" before the first call
}

// listing is a list of tubes that is read in parts, from its end, or of jobs in them.
type listing struct { // where the next part ends, exclusive; 0 if none was read
	from  int // where the next part ends, exclusive; 0 if none was read
	names []string
	jobs  []tube.JobStats
}

// next returns where the next part ends, as the script expects it.
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

// restart goes back to the position of u before its present call, which was not carried out.
func (u *unit) restart() { u.at, u.refs.seen = u.begun, u.refs.before }

// again repeats the last operation, in another call.
func (u *unit) again() { u.at-- }

// againLater is again, after the other units that wait.
func (u *unit) againLater() { u.at, u.yields = u.at-1, true }

// done returns whether nothing is left to do.
func (u *unit) done() bool { return u.batch == nil || u.at == len(u.batch.Ops) }

// rewind goes back to the first operation that was cut, and returns whether there is one. The
// unit yields to others if it has got something.
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

// given returns the operations of u so far that have reserved a job.
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

// open returns the unanswered operations of u so far, from an index on.
func (u *unit) open(from int) []*storage.Op {
	ops := make([]*storage.Op, 0, u.at-from)
	for i := from; i < u.at; i++ {
		if !u.answered[i] {
			ops = append(ops, &u.batch.Ops[i])
		}
	}
	return ops
}

// end completes the unit. If err is not nil nothing of it counts as done, except for the jobs
// that were kicked or removed.
func (u *unit) end(err error) {
	if u.background != nil {
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

// jobsDone returns how many jobs an operation has handled in calls that were answered.
func (u *unit) jobsDone(i int) int {
	switch op := &u.batch.Ops[i]; {
	case op == u.partial.op:
		return u.partial.jobs
	case i < u.at: // encoded, so the answer is not that of an earlier use of the operation
		return op.Answer.Count
	}
	return 0
}

// head is the best ready job of a group.
type head struct {
	err   error
	found bool
	pri   uint32
	id    uint64
}

func (h *head) before(other *head) bool {
	return h.pri < other.pri || h.pri == other.pri && h.id < other.id
}

// givesJob returns whether an answered operation has reserved a job.
func givesJob(op *storage.Op) bool {
	takes := op.Kind == storage.Take || op.Kind == storage.Move && bringsBody(op)
	return takes && op.Answer.ID != 0
}

// manyProgress is the progress of a flush or a list.
type manyProgress struct {
	begun  bool
	states string // still to be flushed, as the script expects them
	last   string // the largest id to be flushed; "" at first. Of groups the cursor with which finding them continues; "" at its end. Of records the last chunk

	position listPosition // after which the next part continues
	holder   string       // whose reserved jobs come next; of groups the name, or the member, of the last one
	had      int          // how many of this holder were found
	found    []listed
	groups   []tube.GroupStats
	names    *groupNames

	jobs []tube.JobStats // members of a batch; there last is the position of the index at which the next part begins

	limits map[*storage.Op]*limitProgress // of TubeStats whose figures about groups take further calls
}

// listPosition is the position of a job in a queue, as the script has it: its score and its
// key; "" before the first.
type listPosition struct{ score, key string }
