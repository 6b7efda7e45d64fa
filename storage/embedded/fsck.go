package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// FsckReport receives the findings of Fsck.
type FsckReport struct {
	// Found is called with each fault and, if it was repaired, what was done.
	Found func(what string)

	// Skipped is called with what was not checked because of other faults.
	Skipped func(what string)

	// Progress is called with what is being checked, and how many so far.
	Progress func(what string, n int)
}

// fsck is a Fsck under way.
type fsck struct {
	*Options
	FsckReport
	ctx      context.Context
	repair   bool
	lock     *directoryLock
	fromLog  *history
	replayed bool // fromLog is complete

	checkpoints map[uint64]*checkpointOf // by number
	jobs        int
	repairable  int // faults
	left        int // faults that cannot be repaired
}

// checkpointOf is a checkpoint that a job has.
type checkpointOf struct {
	job   uint64
	size  int
	found bool
}

// Fsck checks the directory of an engine that is not open: the log, the tables, and that an engine could be opened on them. Without
// repair it writes nothing. It returns how many jobs there are, if a start was possible, otherwise how many are in the tables; and how
// many of the faults were not repaired. The error is ErrLocked if another process uses the directory, and ErrForeign if it is none
// of an engine.
func Fsck(ctx context.Context, o Options, repair bool, report FsckReport) (jobs, left int, err error) {
	o.KeepBodies = 1 // none is needed
	o.setDefaults()
	f := &fsck{Options: &o, FsckReport: report, ctx: ctx, repair: repair, fromLog: newHistory(make(interner)), checkpoints: make(map[uint64]*checkpointOf)}
	if err = f.lockStore(); err == nil {
		err = errors.Join(f.run(), f.lock.Close())
	}
	if err != nil {
		return f.jobs, f.left, fmt.Errorf("checking the journal in %s: %w", o.Dir, explainFull(o.Dir, err))
	}
	if !repair {
		f.left += f.repairable
	}
	return f.jobs, f.left, nil
}

// lockStore locks the directory, which must be one of an engine.
func (f *fsck) lockStore() error {
	names, err := f.fs.List(f.Dir)
	if err != nil {
		return err
	}
	if err := refusePart(f.fs, f.Dir, names); err != nil {
		return err
	}
	if !isStore(f.fs, f.Dir, names) {
		return fmt.Errorf("%w: there are neither a log nor tables", ErrForeign)
	}
	lock := lockDirectory
	if !f.repair && !slices.Contains(names, lockName) {
		lock = lockWithoutFile
	}
	f.lock, err = lock(f.Options)
	return err
}

// run checks and repairs. The tables are read to the end before anything is written.
func (f *fsck) run() error {
	if err := f.reading(f.checkAll); err != nil {
		return err
	}
	if f.repair && f.repairable > 0 {
		if err := f.repairTables(); err != nil {
			return err
		}
	}
	if f.left > 0 {
		f.Skipped("because of these faults it was not checked whether a server could start")
		return nil
	}
	return f.reading(func(t *tables.Tables) error { return f.fault(f.rehearse(t)) })
}

// reading calls do with the tables, if they can be opened.
func (f *fsck) reading(do func(t *tables.Tables) error) error {
	t, err := f.openTables()
	if err != nil {
		return f.fault(err)
	}
	return errors.Join(do(t), t.Close())
}

// checkAll checks the log and the tables.
func (f *fsck) checkAll(t *tables.Tables) error {
	first, err := t.FirstSegment()
	if err != nil {
		return err
	}
	err = wal.Read(f.fs, f.Dir, first, f.fromLog.replay)
	f.replayed = err == nil
	if err := f.fault(err); err != nil {
		return err
	}
	f.jobs, err = t.Check(f.ctx, f.check())
	if err == nil && f.replayed {
		f.findCheckpoints()
	}
	if err != nil && f.repairable > 0 {
		f.left, f.repairable = f.left+f.repairable, 0
		f.Skipped("nothing is repaired, because the tables cannot be read to the end")
	}
	return f.fault(err)
}

// fault reports an error that is a fault of the data, and returns any other.
func (f *fsck) fault(err error) error {
	if err == nil || !isFault(err) {
		return err
	}
	f.found(err.Error(), "")
	return nil
}

// isFault reports whether an error says that data is damaged or missing, and not only that it cannot be read now.
func isFault(err error) bool {
	if errors.Is(err, wal.ErrDamaged) || errors.Is(err, os.ErrNotExist) || tables.IsDamage(err) {
		return true
	}
	_, failed := errors.AsType[syscall.Errno](err)
	return !failed && !errors.Is(err, ErrGone) && !errors.Is(err, tables.ErrLayout) && !errors.Is(err, context.Canceled)
}

// found counts a fault of the tables, and reports it unless a repair will.
func (f *fsck) found(what, remedy string) {
	if remedy == "" {
		f.left++
	} else {
		f.repairable++
	}
	if remedy == "" || !f.repair {
		f.Found(what)
	}
}

func (f *fsck) tablesOptions() tables.Options {
	return tables.Options{FS: f.fs, Dir: f.Dir, Log: f.Log, Fatal: f.Fatal, OpenFiles: f.OpenFiles}
}

// openTables opens the tables to read them only. If there are none, because the first start was interrupted, they are empty.
func (f *fsck) openTables() (*tables.Tables, error) {
	numbers, err := wal.Numbers(f.fs, f.Dir)
	if err != nil {
		return nil, err
	}
	names, err := f.fs.List(f.fs.PathJoin(f.Dir, tables.DirName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	o := f.tablesOptions()
	switch is := slices.ContainsFunc(names, tables.IsFile); {
	case is:
		if err := checkTables(f.Options, o); err != nil {
			return nil, err
		}
		return tables.OpenReadOnly(o)
	case unbrokenFrom(numbers) > 1:
		return nil, fmt.Errorf("%w: the tables that come before it are missing", wal.ErrDamaged)
	}
	o.FS, o.Dir = vfs.NewMem(), "/"
	return tables.Open(o)
}

// check says what is checked in the tables.
func (f *fsck) check() tables.Check {
	c := tables.Check{Found: f.found, Progress: f.Progress}
	if f.replayed {
		f.fromLog.jobs.each(func(id uint64, im *image) {
			if r, _, err := tables.DecodeRecord(id, []byte(im.record), f.fromLog.names.name); err == nil && !im.gone {
				f.noteCheckpoint(&r)
			}
		})
		c.HasCheckpoint = f.hasCheckpoint
		c.Job = func(r *tube.Record) {
			if f.fromLog.jobs.find(r.ID) == nil {
				f.noteCheckpoint(r)
			}
		}
	}
	return c
}

// noteCheckpoint notes the checkpoint of a job, if it has one.
func (f *fsck) noteCheckpoint(r *tube.Record) {
	if r.Metadata != nil && r.Metadata.Checkpoint.Size > 0 {
		at := r.Metadata.Checkpoint
		f.checkpoints[at.Number] = &checkpointOf{job: r.ID, size: int(at.Size)}
	}
}

// hasCheckpoint is tables.Check.HasCheckpoint.
func (f *fsck) hasCheckpoint(number uint64, size int) bool {
	if _, later := f.fromLog.Checkpoints[number]; later {
		return true
	}
	of := f.checkpoints[number]
	if of == nil {
		return false
	}
	of.found = of.found || of.size == size
	return true
}

// findCheckpoints reports the checkpoints of jobs that are neither in the tables nor in the log.
func (f *fsck) findCheckpoints() {
	for number, of := range f.checkpoints {
		if !of.found && len(f.fromLog.Checkpoints[number]) != of.size {
			f.found(fmt.Sprintf("job %d: its checkpoint is missing", of.job), "")
		}
	}
}

// repairTables repairs the tables.
func (f *fsck) repairTables() error {
	t, err := tables.Open(f.tablesOptions())
	if err != nil {
		return err
	}
	c := f.check()
	c.Repair, c.Found = true, func(what, remedy string) {
		if remedy != "" {
			f.Found(what + ": " + remedy)
		}
	}
	_, err = t.Check(f.ctx, c)
	return errors.Join(err, t.Close())
}

// rehearse brings back what a start would, from the tables and the log, and counts the jobs.
func (f *fsck) rehearse(t *tables.Tables) error {
	e := newEngine(f.clock)
	j := newJournal(f.Options, e, f.lock)
	j.tables, j.filling = t, j.newCommit()
	if err := j.load(f.fromLog, e.now()); err != nil {
		return err
	}
	n := e.machine.Totals()
	f.jobs = int(n.Ready + n.Reserved + n.Delayed + n.Buried)
	return nil
}
