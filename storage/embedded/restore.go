package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// RestoreOptions say what to restore.
type RestoreOptions struct {
	From string // the directory of a backup
	To   string // the directory for an engine; it must not exist, or be empty

	// Buried says that all jobs come up buried, with a reason.
	Buried bool

	Log   *slog.Logger // nil means slog.Default
	Fatal func(error)  // as Options.Fatal

	fs  vfs.FS           // for tests: nil is the real file system
	now func() time.Time // for tests: nil is time.Now
}

// Restored is the result of Restore.
type Restored struct {
	storage.Backup
	Made   time.Time // when the backup was made
	After  uint64    // the id that new jobs come after
	Buried int       // jobs that were buried by Restore
}

// idsPerSecond is more ids than a store gives out in a second. For each second since the backup was made,
// Restore leaves out that many ids: they may have been given out by the store that is lost.
const idsPerSecond = 1_000_000

// maxID is the largest id: many clients read ids as doubles.
const maxID = 1<<53 - 1

// VerifyBackup reads a backup. It returns the faults: for each file that is not as it was written an
// error that names it. The error is ErrNoManifest if it is no complete backup.
func VerifyBackup(ctx context.Context, from string) (b storage.Backup, faults []error, err error) {
	return verifyBackup(ctx, ownerFS{vfs.Default}, from, func() {})
}

// verifyBackup is VerifyBackup; it calls yield after each small piece of work.
func verifyBackup(ctx context.Context, fs vfs.FS, from string, yield func()) (b storage.Backup, faults []error, err error) {
	m, err := readManifest(fs, from)
	if errors.Is(err, errDamaged) {
		return b, []error{err}, nil
	}
	if err != nil {
		return b, nil, err
	}
	c := &copier{ctx: ctx, fs: fs, yield: yield}
	for i := range m.Files {
		err := c.verified(&m.Files[i], from, "")
		if ctx.Err() != nil {
			return b, faults, ctx.Err()
		}
		if err != nil {
			faults = append(faults, err)
		}
	}
	return m.summary(), faults, nil
}

// verified copies a file of a backup, or only reads it if to is "". It fails if the file is not as it was
// written.
func (c *copier) verified(want *manifestFile, from, to string) error {
	name := filepath.FromSlash(want.Name)
	if to != "" {
		to = c.fs.PathJoin(to, name)
		if err := c.fs.MkdirAll(c.fs.PathDir(to), ownerDirectory); err != nil {
			return fmt.Errorf("making a directory: %w", err)
		}
	}
	got, err := c.file(c.fs.PathJoin(from, name), to)
	switch {
	case err != nil:
		return fmt.Errorf("%s of the backup: %w", want.Name, err)
	case got.Bytes != want.Bytes:
		return fmt.Errorf("%s of the backup: %w: it has %d bytes, and had %d", want.Name, errDamaged, got.Bytes, want.Bytes)
	case got.SHA256 != want.SHA256:
		return fmt.Errorf("%s of the backup: %w: its SHA-256 digest differs", want.Name, errDamaged)
	}
	return nil
}

// Restore makes the directory of an engine from a backup. It copies all files: the backup stays as
// it is.
func Restore(ctx context.Context, o RestoreOptions) (r Restored, err error) {
	if o.fs == nil {
		o.fs = ownerFS{vfs.Default}
		if o.To, err = filepath.Abs(o.To); err == nil {
			err = checkTarget(o.To, o.From)
		}
		if err != nil {
			return r, err
		}
	}
	o.setDefaults()
	m, err := readManifest(o.fs, o.From)
	if err != nil {
		return r, err
	}
	target, err := beginTarget(o.fs, o.To)
	if err != nil {
		return r, err
	}
	defer target.abandon()
	if err := o.copyTo(ctx, m, target.partial); err != nil {
		return r, err
	}
	r = Restored{Backup: m.summary(), Made: m.Made}
	if r.After, err = o.skipIDs(m, target.partial); err != nil {
		return r, err
	}
	if o.Buried {
		if r.Buried, err = o.buryAll(ctx, m, target.partial); err != nil {
			return r, err
		}
	}
	return r, target.complete()
}

// setDefaults sets what is not set, except fs, as for an engine.
func (o *RestoreOptions) setDefaults() {
	of := Options{Log: o.Log, Fatal: o.Fatal, fs: o.fs, clock: o.now}
	of.setDefaults()
	o.Log, o.Fatal, o.now = of.Log, of.Fatal, of.clock
}

// copyTo copies the files of a backup, and syncs them.
func (o *RestoreOptions) copyTo(ctx context.Context, m *manifest, dir string) error {
	c := &copier{ctx: ctx, fs: o.fs, yield: func() {}}
	for i := range m.Files {
		if err := c.verified(&m.Files[i], o.From, dir); err != nil {
			return err
		}
	}
	return nil
}

// buryAll opens an engine on the copy, and buries all jobs. It does not wait for a sync of each part: Close syncs, and the copy has
// no name before.
func (o *RestoreOptions) buryAll(ctx context.Context, m *manifest, dir string) (buried int, err error) {
	e, err := Open(Options{Dir: dir, restoring: true, SyncEvery: time.Second, Log: o.Log, Fatal: o.Fatal, fs: o.fs, clock: o.now})
	if err != nil {
		return 0, fmt.Errorf("opening the restored store: %w", err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.buryAll(ctx, "restored from the backup of "+m.Made.UTC().Format(time.RFC3339))
}

// readMarks returns the first segment of the log that the tables of the copy lack, and the largest id that they know.
func (o *RestoreOptions) readMarks(dir string) (first, lastID uint64, err error) {
	t, err := tables.OpenReadOnly(tables.Options{FS: o.fs, Dir: dir, Log: o.Log, Fatal: o.Fatal})
	if err != nil {
		return 0, 0, err
	}
	if first, err = t.FirstSegment(); err == nil {
		lastID, err = t.LastID()
	}
	return first, lastID, errors.Join(err, t.Close())
}

// skipIDs makes new ids larger than all that the store in the backup may have given out since then. It returns the id that
// they come after. It appends an entry to the log of the copy, as of an import without jobs: the jobs need not be loaded for that.
func (o *RestoreOptions) skipIDs(m *manifest, dir string) (after uint64, err error) {
	now := o.now()
	gap := idsPerSecond * (1 + uint64(max(now.Sub(m.Made), 0)/time.Second+1))
	first, lastID, err := o.readMarks(dir)
	if err != nil {
		return 0, fmt.Errorf("reading the tables of the backup: %w", err)
	}
	fromLog := newHistory(make(interner))
	log, err := wal.Open(wal.Options{FS: o.fs, Dir: dir, Size: minFileSize, Log: o.Log, Fatal: o.Fatal}, first, fromLog.replay)
	if err != nil {
		return 0, fmt.Errorf("reading the log of the backup: %w", err)
	}
	lastID = max(lastID, fromLog.lastID, m.LastID)
	if after = lastID + gap; after > maxID {
		err = fmt.Errorf("the backup was made %v ago, after the id %d: ids would be too large", now.Sub(m.Made), lastID)
	} else {
		source := fmt.Sprintf("restored-%d-%d", m.Made.UnixNano(), now.UnixNano())
		_, err = log.Append(appendImportMark(make([]byte, wal.HeaderSize), source, tables.ImportMark{Offset: lastID}, after))
	}
	if err = errors.Join(err, log.Close()); err != nil {
		return 0, fmt.Errorf("setting the next id: %w", err)
	}
	return after, nil
}

// buryAll buries all jobs that are not buried, with a reason. It returns how many it has buried.
func (e *Engine) buryAll(ctx context.Context, reason string) (buried int, err error) {
	e.mu.Lock()
	for e.pending > 0 { // dead letters are put where they belong
		e.idle.Wait()
	}
	left := e.machine.PendingDeadLetters()
	e.cold.allWarm = true // otherwise some could become cold between buryCold and the rest
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.cold.allWarm = false
		e.mu.Unlock()
	}()
	if left > 0 {
		return 0, fmt.Errorf("burying all jobs: %d cannot be sent to their dead-letter tubes", left)
	}
	ops := []storage.Op{{Kind: storage.Tubes}}
	storage.DoWait(e, ops)
	if err := e.buryCold(ctx, reason, ops[0].Answer.Names, &buried); err != nil {
		return buried, err
	}
	all := []func() []uint64{func() []uint64 { return e.machine.FirstHeld(tube.LeaseHolder, partWork) }}
	for _, name := range ops[0].Answer.Names {
		for _, state := range []tube.State{tube.Ready, tube.Delayed} {
			all = append(all, func() (ids []uint64) {
				for _, j := range e.machine.FirstJobs(name, state, partWork) {
					ids = append(ids, j.ID)
				}
				return ids
			})
		}
	}
	for _, some := range all {
		for {
			if err := ctx.Err(); err != nil {
				return buried, err
			}
			n := e.burySome(some, reason)
			if buried += n; n == 0 {
				break
			}
		}
	}
	return buried, nil
}

// buryCold admits and buries all cold jobs of tubes. It adds their number to buried.
func (e *Engine) buryCold(ctx context.Context, reason string, names []string, buried *int) error {
	for _, of := range coldQueues(names) {
		for next := (tube.ColdPlace{}); next != tube.NoColdPlace; {
			if err := ctx.Err(); err != nil {
				return err
			}
			page, err := e.journal.admitPage(coldPlaces{of, justBefore(next), anyRank, partWork})
			if err != nil {
				return err
			}
			*buried += e.burySome(func() []uint64 { return page.ids }, reason)
			next = page.next
		}
	}
	return nil
}

// coldQueues returns the queues of tubes that can have cold jobs.
func coldQueues(names []string) (queues []tube.ColdQueue) {
	for _, name := range names {
		for _, s := range tube.ColdStates {
			queues = append(queues, tube.ColdQueue{Tube: name, State: s})
		}
	}
	return queues
}

// burySome buries some jobs, durably. It returns how many. The function some is called with the lock held.
func (e *Engine) burySome(some func() []uint64, reason string) (n int) {
	done := make(chan struct{})
	e.mu.Lock()
	h := e.beginHold()
	for _, id := range some() {
		if e.machine.SetAsideWith(h.now, id, reason) {
			n++
		}
	}
	e.endHold(&h, []*storage.Batch{{Done: func() { close(done) }}})
	e.mu.Unlock()
	e.afterHold(&h)
	if h.commit != nil {
		e.journal.commit(h.commit, nil)
	}
	<-done
	return n
}
