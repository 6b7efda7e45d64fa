package embedded

import (
	"runtime"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// tickPart is how many due things are done under one hold of the lock at most, see partSize,
// and tickParts is how many such parts one Tick does.
const (
	tickPart  = 256
	tickParts = 16
)

// Shared implements storage.Store: the engine has its directory to itself.
func (e *Engine) Shared() bool { return false }

// TickAll is Tick.
func (e *Engine) TickAll() (time.Duration, error) { return e.Tick() }

// Tick implements storage.Store.
func (e *Engine) Tick() (time.Duration, error) {
	if next, now, logged, err := e.tickPart(false); err == nil && next <= now {
		e.tickOn(logged)
	}
	for parts := 1; e.trimEnded() && parts < tickParts; parts++ {
		runtime.Gosched()
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return storage.Forever, storage.ErrClosed
	}
	now, next := e.now(), e.machine.Next()
	commit := e.maintain(now)
	e.mu.Unlock()

	if commit != nil {
		e.journal.commit(commit, nil)
	}
	return untilDue(next, now), nil
}

// untilDue returns how long until the next thing is due, negative if it is late. What has no time, but is to be
// done at once, is due at the instant 0.
func untilDue(next, now tube.Instant) time.Duration {
	if next == 0 {
		return 0
	}
	return next.Until(now)
}

// tickOn does further parts of what is due, at most tickParts in all. logged is for tickPart.
func (e *Engine) tickOn(logged bool) {
	y, release := ownThread()
	defer release()
	for range tickParts - 2 {
		runtime.Gosched()
		y.work()
		next, now, changed, err := e.tickPart(logged)
		if err != nil || next > now {
			return
		}
		logged = changed
	}
}

// tickPart does a part of what is due. logged says that the part before it has made changes
// that are in the log: then it waits like a task (awaitTaskTurn). changed says that it has made
// such changes.
func (e *Engine) tickPart(logged bool) (next, now tube.Instant, changed bool, err error) {
	e.mu.Lock()
	if logged {
		e.journal.awaitTaskTurn()
	}
	if e.closed {
		e.mu.Unlock()
		return 0, 0, false, storage.ErrClosed
	}
	now = e.followWallClock()
	next = e.machine.Tick(now, e.tickSize.size)
	if e.journal != nil {
		changed = e.journal.handOverIfFull()
	}
	setBack := e.takeSetBack()
	wakeUps, ends := e.wakeUps(), e.machine.EndsNoticed()
	e.startAdmitting()
	e.startCooling()
	var due [tube.NumRecordKinds]bool
	for kind := range due {
		due[kind] = e.machine.TakeRecordsDue(tube.RecordKind(kind))
	}
	e.tickSize.adjust(e.now().Until(now))
	e.mu.Unlock()
	e.sendWakeUps(wakeUps)
	e.sendEnds(ends)
	e.sendSetBack(setBack)
	for kind, is := range due {
		if is {
			e.listener.RecordsDue(tube.RecordKind(kind))
		}
	}
	return next, now, changed, nil
}

// giveBackMemory returns memory to the operating system that is not needed without traffic.
func (e *Engine) giveBackMemory() {
	if e.journal != nil {
		e.journal.tables.EmptyCache()
	}
	e.free()
}

// maintain does what a Tick does beside the jobs: it returns memory, resumes tasks that have
// waited for room too long, ends a long hold of windows, and makes the journal write what the
// Tick has changed. It returns a commit that the caller must commit, or nil. The lock is held.
func (e *Engine) maintain(now tube.Instant) (commit *commit) {
	if e.trimmer.due(now) {
		e.freeing.Go(e.giveBackMemory)
	}
	if e.journal == nil {
		return nil
	}
	if len(e.noRoom) > 0 && now-e.roomAt > maxWait {
		e.admitTasks(true)
	}
	e.journal.flushOldWindows(now)
	e.startSender()
	if commit, _ = e.journal.addBatches(nil, nil, true); commit == nil {
		commit = e.journal.startReclaim()
	}
	return commit
}

const (
	// trimAfter is how long there must be hardly any traffic before memory is returned to the
	// operating system. Up to idleBatches batches in a second are hardly any traffic.
	trimAfter   = tube.Instant(20 * time.Second)
	idleBatches = 20

	// worthTrimming is how many batches, or pieces of bodies of bytesPerWork bytes, there must
	// have been since memory was last returned.
	worthTrimming = 2000
	bytesPerWork  = 16 << 10
)

// trimmer notices when a period of much traffic has ended. Go frees memory when it needs more:
// so without traffic a process would stay as large as its largest backlog. Pebble's cache is
// emptied as well: the operating system caches the same files.
type trimmer struct {
	work      uint64       // batches and pieces of bodies so far
	checkedAt tube.Instant // when due last measured the traffic
	seen      uint64       // work at that time
	since     tube.Instant // since then there has been hardly any traffic
	freed     uint64       // work when memory was last returned
}

// due reports whether it is time to return memory. It has to be called at least once a second.
func (t *trimmer) due(now tube.Instant) bool {
	if now-t.checkedAt < tube.Instant(time.Second) {
		return false
	}
	if t.work-t.seen > idleBatches {
		t.since = now
	}
	t.checkedAt, t.seen = now, t.work
	if now-t.since < trimAfter || t.work-t.freed < worthTrimming {
		return false
	}
	t.freed = t.work
	return true
}
