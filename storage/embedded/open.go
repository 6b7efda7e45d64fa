package embedded

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Open opens the engine on a directory and restores the jobs in it. The error is ErrLocked if
// another process uses the directory, and wal.ErrDamaged if the log is damaged.
func Open(o Options) (*Engine, error) {
	o.setDefaults()
	fatal := o.Fatal
	o.Fatal = func(err error) { fatal(explainFull(o.Dir, err)) }
	e := newEngine(o.clock)
	e.cold.after = o.coldAfter
	e.cold.mostReady, e.cold.fewReady = o.mostReady, o.fewReady
	e.machine.SetCold(e.cold.lead(), e.cold.fewReady)
	e.ends.most, e.ends.recent.KeepFloors = uint64(o.HistoryBytes), true // before any goroutine of the journal
	j, err := openJournal(&o, e)
	if err != nil {
		return nil, fmt.Errorf("opening the journal in %s: %w", o.Dir, err)
	}
	if o.restored != nil {
		n := e.machine.Totals()
		o.restored(int(n.Ready + n.Reserved + n.Delayed + n.Buried))
	}
	e.journal = j
	e.machine.SetJournal(j)
	e.reportEnds()
	j.watcher.Go(e.sweep)
	e.resume()
	return e, nil
}

func openJournal(o *Options, e *Engine) (*journal, error) {
	if err := wal.MakeDir(o.fs, o.Dir); err != nil {
		return nil, explainLink(err)
	}
	if !o.restoring {
		if err := refuseForeign(o.fs, o.Dir, o.NewStore); err != nil {
			return nil, err
		}
	}
	lock, err := lockDirectory(o)
	if err != nil {
		return nil, err
	}
	freeSpare(o)
	j := newJournal(o, e, lock)
	if err := j.open(o, e.now()); err != nil {
		lock.Close()
		return nil, explainFull(o.Dir, err)
	}
	return j, nil
}

// newJournal returns a journal without log and tables.
func newJournal(o *Options, e *Engine, lock *directoryLock) *journal {
	j := &journal{
		dir: o.Dir, lock: lock, ownership: &ownership{dir: lock.dir, clock: o.clock},
		machine: e.machine, imports: e.imports, tallies: &e.tallies, saved: &e.saved, cold: &e.cold, slog: o.Log, fatal: o.Fatal,
		syncFirst: o.SyncEvery == 0, keep: o.KeepBodies, windowBytes: o.windowBytes, now: e.now, syncs: e.metrics.syncs, maxSize: uint64(o.FileSize),
		ended: make(chan struct{}), checkpoints: make(chan *window, maxWindows),
		failures: &failures{log: o.Log, dir: o.Dir},
		mu:       &e.mu, commits: sync.NewCond(&e.mu), cond: sync.NewCond(&e.mu),
		window: newWindow(0), roomMade: e.roomMade, ends: &e.ends,
		guard:     &guard{fs: o.fs, dir: o.Dir, reserve: o.Reserve, log: o.Log, clock: o.clock, limited: telemetry.Throttle{Clock: o.clock}},
		bodyReads: bodyReads{log: o.Log, limited: telemetry.Throttle{Clock: o.clock}},
	}
	j.guard.stalled = j.stalled
	return j
}

// open opens tables and log, restores the jobs in them, and starts the journal's goroutines.
func (j *journal) open(o *Options, now tube.Instant) error {
	var err error
	if j.tables, err = openTables(o); err != nil {
		return fmt.Errorf("opening the tables: %w", err)
	}
	first, err := j.tables.FirstSegment()
	if err != nil {
		return errors.Join(fmt.Errorf("reading the tables: %w", err), j.tables.Close())
	}
	fromLog := newHistory(make(interner))
	if j.log, err = openLog(o, first, fromLog.replay); err != nil {
		return errors.Join(err, j.tables.Close())
	}
	j.ownership.tables, j.ownership.log = j.tables.Directory(), j.log
	j.filling = j.newCommit()
	if first == 0 {
		err = j.tables.WriteLayout()
	}
	if err == nil {
		release := j.tables.LimitCache()
		err = j.load(fromLog, now)
		release()
	}
	if err == nil {
		err = j.upgrade()
	}
	if err != nil {
		j.log.Abandon()
		return errors.Join(fmt.Errorf("reading the tables: %w", err), j.tables.Close())
	}
	j.start(o)
	return nil
}

// upgrade gives tables of an older layout the present one.
func (j *journal) upgrade() error {
	layout, err := j.tables.Layout()
	if err != nil || layout == tables.LayoutVersion {
		return err
	}
	j.slog.Warn("the layout of the store is upgraded: older versions of redstalk refuse it from now on, and only a backup made before leads back",
		"dir", j.dir, "from", layout, "to", tables.LayoutVersion)
	return j.tables.Upgrade()
}

// openTables opens the tables. It refuses tables that lack something which is no longer in
// the log.
func openTables(o *Options) (*tables.Tables, error) {
	options := tables.Options{FS: o.fs, Dir: o.Dir, Log: o.Log, Fatal: o.Fatal, OpenFiles: o.OpenFiles}
	if err := checkTables(o, options); err != nil {
		return nil, err
	}
	return tables.Open(options)
}

func checkTables(o *Options, options tables.Options) error {
	numbers, err := wal.Numbers(o.fs, o.Dir)
	if err != nil {
		return err
	}
	oldest := unbrokenFrom(numbers)
	if oldest <= 1 {
		return nil // there are no tables, or the log has everything that is in them
	}
	first, err := tables.ReadFirstSegment(options)
	if err != nil || first >= oldest {
		return err
	}
	missing := max(first, 1)
	for slices.Contains(numbers, missing) {
		missing++
	}
	return fmt.Errorf("%w: %s/log.%d is missing", wal.ErrDamaged, o.Dir, missing)
}

// unbrokenFrom returns the number from which on no segment is missing; 0 if there are no
// segments. There may be a segment before a gap, which is kept to be used again.
func unbrokenFrom(numbers []uint64) uint64 {
	if len(numbers) == 0 {
		return 0
	}
	i := len(numbers) - 1
	for i > 0 && numbers[i-1] == numbers[i]-1 {
		i--
	}
	return numbers[i]
}

func openLog(o *Options, first uint64, replay func([]byte) error) (*wal.Log, error) {
	every := o.SyncEvery
	if every == 0 {
		every = lateSync
	}
	return wal.Open(wal.Options{
		FS: o.fs, Dir: o.Dir, Size: o.FileSize, SyncEvery: every, Never: o.SyncEvery < 0, Log: o.Log, Fatal: o.Fatal,
	}, first, replay)
}

// load restores the jobs from the tables and from the part of the log that is not in them.
func (j *journal) load(fromLog *history, now tube.Instant) error {
	lastID, err := j.tables.LastID()
	if err != nil {
		return err
	}
	j.machine.SkipTo(lastID)
	j.window.base = windowBase(lastID, fromLog)
	l := &loader{
		tables: j.tables, machine: j.machine, imports: j.imports, tallies: j.tallies, saved: j.saved, cold: j.cold, storedID: lastID, now: now, log: j.slog, fromLog: fromLog, window: j.window, keep: j.keep,
	}
	if err := l.load(); err != nil {
		return err
	}
	if err := j.ends.load(j.tables, fromLog.ended, j.window); err != nil {
		return err
	}
	for _, name := range l.pausesOver {
		j.Paused(name, 0, 0) // otherwise it would come back if the log is replayed again
	}
	return nil
}

// sparseIDs is how many ids may be looked at for each job in the log, at most.
const sparseIDs = 4

// windowBase returns the base of the window of a log that was replayed: lastID, the last of the tables, so that the window
// needs no entry for each job of the log. But if most of the ids after it are of no job, as in the log of an
// import, it is the last id.
func windowBase(lastID uint64, fromLog *history) uint64 {
	if end := max(lastID, fromLog.lastID); (end-lastID)/sparseIDs > uint64(fromLog.jobs.count) {
		return end
	}
	return lastID
}

// start starts the journal's goroutines, and begins to write the log that was replayed to the
// tables.
func (j *journal) start(o *Options) {
	j.durableID = j.machine.LastID()
	j.window.last = j.durableID
	j.tables.RemoveIngestFiles() // of the last process
	j.removeSnapshot()
	j.lastBackup = j.readLastBackup()
	for range committers {
		j.committers.Go(j.commitHandedOver)
	}
	j.checkpointer.Add(1)
	go j.writeWindows()
	j.watcher.Go(func() { j.watchDirectory(o.spare) })
	j.mu.Lock()
	j.guard.refusing() // logs a disk that is too small
	j.mu.Unlock()
	if oldest, current := j.log.Segments(); oldest < current {
		j.mu.Lock()
		j.window.segment = current - 1
		j.flushWindows()
		j.mu.Unlock()
	}
}
