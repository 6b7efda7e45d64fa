package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
)

// A backup is a directory with a closed log, tables, and a manifest (manifest.go). An engine could
// be opened on it, but that would write to files that the engine in use may have as well: Restore
// copies it first.
//
// It is made in two steps. The first makes a snapshot inside the engine's directory, of links
// wherever possible: it keeps segments of the log from being used again, so it has to be short. The second
// links or copies the snapshot to its destination, and reads all of it, for the digests and once more to verify it. No lock of the
// engine is held in either.

// snapshotName is the directory of the snapshot, in the engine's directory.
const snapshotName = "backup.new"

// Backup implements storage.BackupStore.
func (e *Engine) Backup(ctx context.Context, dir string) (b storage.Backup, err error) {
	ctx, end, err := e.beginBackup(ctx)
	if err != nil {
		return b, err
	}
	defer end()
	return e.writeBackup(ctx, dir)
}

// BackupInto implements storage.BackupStore.
func (e *Engine) BackupInto(ctx context.Context, dir string, keep int) (b storage.Backup, err error) {
	ctx, end, err := e.beginBackup(ctx)
	if err != nil {
		return b, err
	}
	defer end()
	s := series{fs: e.journal.guard.fs, dir: filepath.Clean(dir), store: e.journal.dir}
	if err := s.prepare(); err != nil {
		return b, fmt.Errorf("writing a backup below %s: %w", dir, err)
	}
	if b, err = e.writeBackup(ctx, filepath.Join(s.dir, nameAt(e.clock()))); err != nil || keep == 0 {
		return b, err
	}
	if b.Removed, err = s.removeOld(b.To, keep); err != nil {
		return b, fmt.Errorf("the backup %s is complete, but older ones stay: %w", b.To, err)
	}
	return b, nil
}

// beginBackup waits for nothing: while another backup is written it returns storage.ErrBackupRunning. The context ends
// with the engine.
func (e *Engine) beginBackup(ctx context.Context) (_ context.Context, end func(), err error) {
	if e.journal == nil {
		return nil, nil, storage.ErrNoBackup
	}
	if !e.backingUp.TryLock() {
		return nil, nil, storage.ErrBackupRunning
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		e.backingUp.Unlock()
		return nil, nil, storage.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.lifetime, func() { cancel(storage.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		e.backingUp.Unlock()
	}, nil
}

// writeBackup writes a backup to a directory that does not exist or is empty.
func (e *Engine) writeBackup(ctx context.Context, dir string) (b storage.Backup, err error) {
	begun := time.Now()
	var m *manifest
	if err = checkTarget(dir, e.journal.dir); err == nil {
		m, err = e.journal.backup(ctx, dir)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return b, fmt.Errorf("writing a backup to %s: %w", dir, err)
	}
	e.journal.backedUp(m.Made)
	b = m.summary()
	b.To = dir
	e.journal.slog.Info("a backup is complete", "to", dir, "files", b.Files, "bytes", b.Bytes, "took", time.Since(begun))
	return b, nil
}

// endBackup stops a backup that is being written, and prevents others.
func (e *Engine) endBackup() {
	e.endLifetime()
	e.backingUp.Lock()
	//lint:ignore SA2001 this waits for the one that is being written
	e.backingUp.Unlock()
}

// backup writes a backup to a directory that does not exist or is empty, and verifies it before it gets its name.
func (j *journal) backup(ctx context.Context, dir string) (*manifest, error) {
	fs := j.guard.fs
	target, err := beginTarget(fs, dir)
	if err != nil {
		return nil, err
	}
	defer target.abandon()
	snapshot := fs.PathJoin(j.dir, snapshotName)
	defer fs.RemoveAll(snapshot)
	m, err := j.snapshot(fs, snapshot)
	if err != nil {
		return nil, err
	}
	y, release := ownThread()
	defer release()
	c := &copier{ctx: ctx, fs: fs, link: true, yield: y.work}
	if m.Files, err = c.tree(snapshot, target.partial); err != nil {
		return nil, err
	}
	if err := m.write(fs, target.partial); err != nil {
		return nil, err
	}
	_, faults, err := verifyBackup(ctx, fs, target.partial, y.work)
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("reading it again: %w", err)
	}
	return m, target.complete()
}

// snapshot makes a snapshot of the log and the tables in a directory. It returns the manifest, which lacks
// the files.
//
// The log is copied after the tables: so it has everything that is in them.
func (j *journal) snapshot(fs vfs.FS, dir string) (*manifest, error) {
	if err := j.ownership.check(); err != nil {
		return nil, err
	}
	if err := errors.Join(fs.RemoveAll(dir), wal.MakeDir(fs, dir)); err != nil {
		return nil, fmt.Errorf("making a directory for the snapshot: %w", err)
	}
	defer j.log.Hold()()
	if err := j.tables.Checkpoint(fs.PathJoin(dir, tables.DirName)); err != nil {
		return nil, err
	}
	if err := j.syncChanges(); err != nil {
		j.fatal(err)
	}
	j.mu.Lock()
	m := &manifest{Store: storePath(j.dir), Made: time.Unix(0, int64(j.now())).UTC(), LastID: j.machine.LastID(), Layout: tables.LayoutVersion}
	j.mu.Unlock()
	return m, j.log.CopyTo(dir)
}

// removeSnapshot removes a snapshot that an earlier process may have left.
func (j *journal) removeSnapshot() { j.guard.fs.RemoveAll(j.guard.fs.PathJoin(j.dir, snapshotName)) }
