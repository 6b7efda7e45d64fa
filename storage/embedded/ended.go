package embedded

import (
	"math"
	"strconv"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/ended"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// Records of ended jobs. Without a journal all of them are in recent. With one, recent has those that are not in the tables yet: the
// journal's log has them, and the checkpointer writes them with their window, when it also drops those that are beyond the bounds
// (ended_stored.go). Those in memory and those in the tables are within the bounds, each by themselves: until the next window is
// written there can be twice as many.

// endedJobs are the records of the ended jobs of an engine. Its lock is that of the engine.
type endedJobs struct {
	mu      *sync.Mutex // the engine's
	machine *tube.Machine
	clock   func() time.Time

	recent  ended.Memory
	most    uint64       // bound of all records, in bytes; 0: there are none
	trimmed tube.Instant // when all records in memory whose time was over were last dropped

	storing sync.Mutex                // held while the tables get or lose records; taken before the engine's lock
	stored  map[string]tables.EndedOf // the tubes that have records in the tables
	lastSeq uint64                    // the largest Ended.Seq when the store was opened
	records uint64                    // in the tables
	bytes   uint64                    // in the tables
}

const (
	// maxEndedPage is about how many bytes of records a page has at most.
	maxEndedPage = 1 << 20

	// trimEvery is how often records whose time is over are dropped.
	trimEvery = tube.Instant(10 * time.Second)

	// trimLimit is how many of them are dropped at a time in memory, under the lock.
	trimLimit = 2000
)

// KeepHistory sets the bound of the records of ended jobs, in bytes; 0: there are none. It must be called before the first Do. The
// default is tube.DefaultHistoryBytes.
func (e *Engine) KeepHistory(bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ends.most = uint64(max(bytes, 0))
	e.reportEnds()
}

// reportEnds lets the machine report records, unless there can be none. The lock is held, or nobody else uses the engine.
func (e *Engine) reportEnds() {
	if e.ends.most == 0 {
		e.machine.OnEnd(e.ends.lastSeq, nil)
	} else {
		e.machine.OnEnd(e.ends.lastSeq, e.jobEnded)
	}
}

// jobEnded is called by the machine with each record. The lock is held.
func (e *Engine) jobEnded(r *tube.Ended) {
	encoded := e.ends.recent.Add(r)
	if e.journal != nil {
		e.journal.Ended(r, encoded)
	}
	e.ends.recent.Trim(r.Tube, r.At, e.machine.KeepBytes(r.Tube), math.MaxInt)
	if e.ends.recent.Bytes() > e.ends.most {
		e.ends.recent.TrimAll(e.ends.most - e.ends.most/256) // not one record at a time: it looks at all tubes
	}
}

// trimEnded drops some of the records in memory whose time is over, or that a lower bound excludes. The lock is held.
func (e *Engine) trimEnded(now tube.Instant) {
	if now-e.ends.trimmed < trimEvery || e.ends.recent.Len() == 0 {
		return
	}
	left := trimLimit
	for _, name := range e.ends.recent.Tubes() {
		if left = e.ends.recent.Trim(name, e.machine.Wall(now), e.machine.KeepBytes(name), left); left == 0 {
			return // the rest with the next Tick
		}
	}
	e.ends.trimmed = now
}

// waitEnded carries out a WaitEnded.
func (e *Engine) waitEnded(now tube.Instant, b *storage.Batch, op *storage.Op) {
	a := &op.Answer
	j := e.machine.Find(op.ID)
	switch {
	case j == nil:
		if r := e.ends.recent.Get(op.ID); r != nil {
			e.answerEnded(a, r, e.machine.Wall(now))
		} else if a.NotFound = true; e.journal != nil {
			e.bodiesMissing = append(e.bodiesMissing, bodyNeeded{b, op})
		}
	case !e.machine.Keeps(j):
		a.Result = &storage.Result{NotKept: true}
	default:
		if r := e.machine.StillParked(j); r != nil {
			a.Result = &storage.Result{Ended: []*tube.Ended{r}}
			return
		}
		if a.State = j.State(); op.Wait {
			e.machine.AwaitEnd(op.ID)
		}
	}
}

// answerEnded answers a WaitEnded with a record, which can be nil, unless its time is over.
func (e *Engine) answerEnded(a *storage.Answer, r *tube.Ended, wall tube.Instant) {
	if a.NotFound = r == nil || r.Until <= wall; !a.NotFound {
		a.Result = &storage.Result{Ended: []*tube.Ended{r}}
	}
}

// endedPage is a page of a ListEnded that is being filled.
type endedPage struct {
	result *storage.Result
	wall   tube.Instant
	floors map[string]uint64 // of records in the tables, see ended.Memory.Floor
	before uint64            // Ended.Seq of the last one that was looked at: the older ones are left
	count  int
	bytes  int
	full   bool // there are more records than the page has
}

// add adds a record, and returns whether the next one is wanted.
func (p *endedPage) add(r *tube.Ended) (more bool) {
	p.before = r.Seq
	if r.Until <= p.wall || r.Seq <= p.floors[r.Tube] {
		return true
	}
	page := p.result.Ended
	if p.full = len(page) > 0 && (len(page) == p.count || p.bytes+r.Bytes() > maxEndedPage); p.full {
		p.result.Cursor = strconv.FormatUint(page[len(page)-1].Seq, 10)
		return false
	}
	p.result.Ended = append(page, r)
	p.bytes += r.Bytes()
	return true
}

// newestFirst is the Ended.Seq before which a ListEnded begins.
func newestFirst(op *storage.Op) uint64 {
	if before, err := strconv.ParseUint(cursorOf(op), 10, 64); err == nil {
		return before
	}
	return math.MaxUint64
}

// listEnded carries out a ListEnded, or a part of what it does with records in memory: there can be many whose time is over. It returns
// false if it has to be called again later.
func (e *Engine) listEnded(now tube.Instant, b *storage.Batch, op *storage.Op, p *progress) (done bool) {
	if !e.mayBeginMany() {
		return false
	}
	if !p.begun {
		op.Answer.Result = new(storage.Result)
		p.begun, p.ended = true, &endedPage{
			result: op.Answer.Result, wall: e.machine.Wall(now), before: newestFirst(op), count: int(min(op.MaxJobs, tube.MaxListed)),
		}
	}
	if p.ended.count == 0 {
		return true
	}
	left := e.budget
	e.ends.recent.List(op.Tube, batchOf(op), p.ended.before, func(r *tube.Ended) bool {
		left--
		return p.ended.add(r) && left > 0
	})
	e.spend(e.budget - left)
	if left == 0 && !p.ended.full {
		return false
	}
	if !p.ended.full && e.journal != nil {
		e.bodiesMissing = append(e.bodiesMissing, bodyNeeded{b, op})
	}
	return true
}

// batchOf returns the batch that a ListEnded is about; "" if it is about a tube.
func batchOf(op *storage.Op) string {
	if op.Args == nil {
		return ""
	}
	return op.Args.Name
}

// fetchEnded completes the answer of a WaitEnded or a ListEnded from the tables. The lock is not held.
func (e *Engine) fetchEnded(from tables.Snapshot, op *storage.Op) {
	wall := tube.Instant(e.clock().UnixNano())
	e.mu.Lock()
	floors := e.ends.recent.Floors()
	e.mu.Unlock()
	if op.Kind == storage.WaitEnded {
		r, err := from.Ended(op.ID)
		if r != nil && r.Seq <= floors[r.Tube] {
			r = nil
		}
		if e.answerEnded(&op.Answer, r, wall); err != nil {
			op.Answer = unreadable(err)
		}
		return
	}
	p := &endedPage{result: op.Answer.Result, wall: wall, floors: floors, count: int(min(op.MaxJobs, tube.MaxListed))}
	before := newestFirst(op)
	for _, r := range p.result.Ended {
		before, p.bytes = r.Seq, p.bytes+r.Bytes()
	}
	if err := from.ListEnded(op.Tube, batchOf(op), before, p.add); err != nil {
		op.Answer = unreadable(err)
	}
}
