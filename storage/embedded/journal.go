package embedded

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// lateSync is how long the trace of a reservation, for which no reply waits,
// may be with the operating system before it is synced with nothing else.
const lateSync = 10 * time.Millisecond

// journal writes what the machine says has changed to the log, in groups. Who
// has changed something and finds nobody writing leads: he writes and syncs the
// group on his own goroutine. What comes meanwhile fills the next group, which
// the follower, a goroutine of the journal, writes. All fields behind mu are
// guarded by the engine's lock, which mu is.
type journal struct {
	log     *wal.Log
	tables  *tables
	lock    *directoryLock
	own     *ownership
	eager   bool // the log is synced before batches that need that are done
	fatal   func(error)
	dir     string
	guard   *guard
	machine *tube.Machine
	slog    *slog.Logger
	keep    int64 // bytes of bodies to keep in memory at most
	maxSize uint64

	mu        *sync.Mutex
	more      *sync.Cond // for the follower: handed or ending has changed
	room      *sync.Cond // behind has shrunk, or filling is empty again
	filling   *group
	writing   *group // nil if nobody leads
	handed    bool   // writing is the follower's
	spare     []*group
	durable   uint64 // the puts of ids up to this one are as safe as was asked for
	written   uint64 // entries so far
	window    *window
	behind    int    // windows that are not in the tables yet
	failing   bool   // the oldest of them could not be written when that was last tried
	unwritten int64  // bytes of bodies that are not written yet
	roomMade  func() // called when unwritten or behind have shrunk
	frameSize int    // for tests; bytes, instead of maxFrame if it is not 0
	most      int64  // for tests; bytes, instead of maxUnwritten if it is not 0
	reads     reads
	closing   bool // close waits until nobody leads
	ending    bool
	ended     chan struct{} // closed with ending

	follower    sync.WaitGroup
	checkpoints chan *window
	checkpoint  sync.WaitGroup
	trouble     *trouble
	gaveUp      bool           // writing them; belongs to the checkpoint
	fetching    sync.WaitGroup // goroutines that read bodies
}

// group is changes that are written together, as one frame of the log, or as
// several if there is much of it.
//
// What is being filled is the last frame: room for its header and its entries,
// without the large bodies, which are not copied.
type group struct {
	frame   []byte
	large   []largeBody
	size    int // bytes of this frame, with large bodies
	ended   []endedFrame
	bodies  int64            // bytes of all bodies
	early   []*storage.Batch // done when it is written
	waiters []*storage.Batch // done when it is as safe as was asked for
	bound   bool             // there is a change in it that needs that
	reclaim bool             // files are to be tidied up behind it
	decided bool             // it is written, and whether it is synced will not change
	lastID  uint64           // when it was taken
}

func (g *group) empty() bool { return len(g.frame) == wal.HeaderSize && len(g.ended) == 0 }

// keepFrame is up to how many bytes the memory of frames is used again.
const keepFrame = 1 << 20

func (j *journal) newGroup() *group {
	if n := len(j.spare); n > 0 {
		g := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return g
	}
	return &group{frame: make([]byte, wal.HeaderSize)}
}

// recycle makes g ready to be filled again. The lock is held.
func (j *journal) recycle(g *group) {
	if cap(g.frame) > keepFrame {
		g.frame = make([]byte, wal.HeaderSize)
	}
	j.unwritten -= g.bodies
	clear(g.early)
	clear(g.waiters)
	g.frame, g.early, g.waiters = g.frame[:wal.HeaderSize], g.early[:0], g.waiters[:0]
	g.large, g.ended, g.size, g.bodies = nil, nil, 0, 0
	g.bound, g.decided, g.reclaim = false, false, false
	j.spare = append(j.spare, g)
	j.roomMade()
}

// submit takes over batches that were carried out, to be done when what has
// changed so far is with the operating system (early), or as safe as was asked
// for (bound; and needs, for a change that no batch waits for). It returns those
// for which there is nothing to wait, and, if the caller has to lead, the group
// to write. The lock is held.
func (j *journal) submit(early, bound []*storage.Batch, needs bool) (lead *group, ready []*storage.Batch) {
	needs = needs || len(bound) > 0
	g := j.filling
	if g.empty() {
		// What these have seen may be just being written.
		if w := j.writing; needs && w != nil && (w.bound || !w.decided) {
			w.waiters, w.bound = append(w.waiters, bound...), true
			return nil, early
		}
		return nil, append(early, bound...)
	}
	g.early, g.waiters, g.bound = append(g.early, early...), append(g.waiters, bound...), g.bound || needs
	if j.writing == nil {
		lead = j.take()
	}
	return lead, nil
}

// tidy returns a group to lead though nothing has changed, if a put was refused
// for want of room and files should be tidied up; nil if not. The lock is held.
func (j *journal) tidy() *group {
	if j.writing != nil || !j.guard.low || j.guard.clock().Sub(j.guard.reclaimed) < reclaimEvery {
		return nil
	}
	return j.take()
}

// take makes the group that was filled the one that is being written. The lock
// is held.
func (j *journal) take() *group {
	g := j.filling
	g.lastID, g.reclaim = j.machine.LastID(), j.guard.wanting()
	j.writing, j.filling = g, j.newGroup()
	j.room.Broadcast()
	return g
}

// lead writes a group, ends its batches, and hands the next one to the
// follower if there is one. It asks for more, unless that is nil, before it
// syncs the log. It does not return if the disk fails.
func (j *journal) lead(g *group, more func() int) {
	if err := j.own.lately(); err != nil {
		j.fatal(err)
	}
	j.write(g)
	if more != nil && j.eager {
		j.gather(g, more)
	}
	if j.decide(g) && j.eager {
		if err := j.log.Sync(); err != nil {
			j.fatal(err)
		}
	}
	if j.log.Full() || g.reclaim && j.log.CanRotate() {
		j.rotate(g.reclaim)
	}
	j.settle(g)
	done(g.waiters)
	j.mu.Lock()
	j.recycle(g)
	j.mu.Unlock()
}

// write hands a group to the operating system, and ends the batches that wait
// for no more than that.
func (j *journal) write(g *group) {
	var err error
	if len(g.ended) == 0 && len(g.large) == 0 {
		g.frame, err = j.log.Append(g.frame)
	} else {
		err = g.each(j.log.AppendPieces)
	}
	if err != nil {
		j.fatal(err)
	}
	done(g.early)
}

const (
	// maxGather is how many times more is asked for. The replies that need no
	// sync go out in between: who gets one may have sent the next command
	// before the last of them is written.
	maxGather = 4

	// worthGathering is how many batches make it worth while to ask again.
	worthGathering = 3
)

// gather writes what has come since g was written, for g's sync to serve that
// as well.
func (j *journal) gather(g *group, more func() int) {
	for range maxGather {
		if !j.gathers(g) {
			return
		}
		n := more()
		if next := j.takeMore(g); next != nil {
			j.write(next)
			j.mu.Lock()
			j.recycle(next)
			j.mu.Unlock()
		}
		if n < worthGathering {
			return
		}
	}
}

// gathers tells whether g will be synced, and changes may be made by who leads:
// if they had to wait for the tables, these would wait for him.
func (j *journal) gathers(g *group) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return g.bound && j.behind <= maxBehind
}

// takeMore makes the group that was filled while g is written a part of g, and
// returns it; nil if it is empty.
func (j *journal) takeMore(g *group) *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := j.filling
	if next.empty() {
		return nil
	}
	g.waiters, g.bound = append(g.waiters, next.waiters...), g.bound || next.bound
	g.lastID, j.filling = j.machine.LastID(), j.newGroup()
	return next
}

// decide tells whether g, which is written, is to be synced as well. If not,
// nobody joins it any more who would need that.
func (j *journal) decide(g *group) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	g.decided = true
	return g.bound
}

// settle notes that g is as safe as was asked for. Nobody joins it any more.
func (j *journal) settle(g *group) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if g.bound {
		j.durable = max(j.durable, g.lastID)
	}
	if j.writing = nil; !j.filling.empty() {
		j.take()
		j.hand()
	} else if j.closing {
		j.more.Broadcast()
	}
}

// hand has the follower write the group that was taken. The lock is held.
func (j *journal) hand() {
	j.handed = true
	j.more.Broadcast() // close may be waiting as well
}

// follow writes the groups that are handed over, until the journal ends.
func (j *journal) follow() {
	defer j.follower.Done()
	for g := j.handedOver(); g != nil; g = j.handedOver() {
		j.lead(g, nil)
	}
}

// handedOver waits for a group of the follower's; nil when the journal ends.
func (j *journal) handedOver() *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.handed && !j.ending {
		j.more.Wait()
	}
	if !j.handed {
		return nil
	}
	j.handed = false
	return j.writing
}

// rotate begins a new segment of the log, and has what the ones before it say
// written to the tables, and those made as small as they can be if reclaim is
// set.
func (j *journal) rotate(reclaim bool) {
	j.mustOwn()
	ended, err := j.log.Rotate()
	if err != nil {
		j.fatal(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.window.reclaim = j.window.reclaim || reclaim
	j.endWindow(ended)
}

// endWindow hands the changes so far to the checkpoints. If the tables are too
// far behind for that, the window goes on, with the next segment as well. The
// lock is held.
func (j *journal) endWindow(segment uint64) {
	w := j.window
	w.segment, w.lastID = segment, j.machine.LastID()
	if j.behind > maxBehind {
		return
	}
	j.window = newWindow(w.lastID)
	j.behind++
	j.checkpoints <- w // has room for maxWindows
}

const (
	// maxBehind is how many windows may wait for the tables before changes
	// have to wait for them.
	maxBehind = 8

	// maxWindows is how many there can be, see endWindow.
	maxWindows = maxBehind + 1
)

// throttle waits while the tables are too far behind the log, unless they cannot
// be written: that may last for ever, and so puts are refused instead. The lock
// is held, but not while it waits.
func (j *journal) throttle() {
	for j.behind > maxBehind && !j.failing && !j.ending {
		j.room.Wait()
	}
}

// pace waits while a heavy group waits to be written. Tasks change jobs faster
// than a disk takes them, and whoever puts a job meanwhile waits for the group
// it has come into. The lock is held, but not while it waits.
func (j *journal) pace() {
	for j.writing != nil && j.filling.heavy() && !j.ending {
		j.room.Wait()
	}
}

// close writes what there is and closes the files.
func (j *journal) close() error {
	j.mu.Lock()
	j.closing = true
	for j.writing != nil {
		j.more.Wait()
	}
	lead, _ := j.submit(nil, nil, true)
	j.mu.Unlock()
	if lead != nil {
		j.lead(lead, nil)
	}
	j.mu.Lock()
	j.ending = true
	close(j.ended)
	j.more.Broadcast()
	j.room.Broadcast()
	j.mu.Unlock()
	j.follower.Wait()
	close(j.checkpoints)
	j.checkpoint.Wait()
	err := j.own.check()
	if e := j.log.Close(); err == nil {
		err = e
	}
	if e := j.tables.close(); err == nil {
		err = e
	}
	if e := j.lock.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("closing the journal in %s: %w", j.dir, err)
	}
	return nil
}

// file is what stats-job says of the file that holds the job's record: the
// journal counts as one.
func (j *journal) file() int {
	if j == nil {
		return 0
	}
	return 1
}

// figures are the journal's numbers on the stats page. What is written to the
// tables is what beanstalkd calls migrated. The lock is held.
func (j *journal) figures() storage.Log {
	if j == nil {
		return storage.Log{}
	}
	oldest, current := j.log.Segments()
	return storage.Log{
		OldestIndex: oldest, CurrentIndex: current, MaxSize: j.maxSize,
		RecordsWritten: j.written, RecordsMigrated: j.tables.migrated.Load(),
	}
}
