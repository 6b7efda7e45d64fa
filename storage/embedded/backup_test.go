package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

// restored restores a backup and opens the engine.
func restored(t *testing.T, from string, buried bool) (*Engine, Restored) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "restored")
	r, err := Restore(t.Context(), RestoreOptions{From: from, To: to, Buried: buried, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	e := mustOpen(t, Options{Dir: to})
	t.Cleanup(func() { e.Close() })
	return e, r
}

// backedUp is an engine on the real file system with jobs in the log and in the tables, and a backup.
func backedUp(t *testing.T) (e *Engine, backup string) {
	t.Helper()
	dir := t.TempDir()
	e = mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), segment: minFileSize, windowBytes: -1})
	t.Cleanup(func() { e.Close() })
	for range 6 {
		fillSegment(t, e)
	}
	eventually(t, "nothing is in the tables", func() bool { oldest, _ := segments(e); return oldest > 2 })
	do(t, e, storage.Op{Kind: storage.Put, Tube: "last", TTR: 60, Body: []byte("the last one")})
	backup = filepath.Join(dir, "backup")
	if b, err := e.Backup(t.Context(), backup); err != nil || b.Files < 4 {
		t.Fatalf("%+v, %v", b, err)
	}
	return e, backup
}

// totals returns the totals of a store.
func totals(t *testing.T, s storage.Store) tube.Totals {
	t.Helper()
	return do(t, s, storage.Op{Kind: storage.Stats})[0].Answer.Stats.Totals
}

// TestBackup: a backup has all jobs and is not changed by what happens to the engine, or to an engine that was
// restored from it. New jobs get ids that the engine has not given out after the backup.
func TestBackup(t *testing.T) {
	t.Parallel()
	e, backup := backedUp(t)
	want := totals(t, e)
	lastID := do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 60, Body: []byte("later")})[0].Answer.ID
	deleteAll(t, e, "filler")
	for range 12 { // segments are used again
		fillSegment(t, e)
		deleteAll(t, e, "filler")
	}
	for range 2 {
		again, r := restored(t, backup, false)
		got := totals(t, again)
		if got.Ready != want.Ready || got.Ready == 0 {
			t.Errorf("restored: %+v, want %+v", got, want)
		}
		if id := do(t, again, storage.Op{Kind: storage.Put, Tube: "a", TTR: 60})[0].Answer.ID; id <= lastID || id != r.After+1 {
			t.Errorf("the next id is %d after %d; Restore returned %d", id, lastID, r.After)
		}
		deleteAll(t, again, "filler")
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
		if _, faults, err := VerifyBackup(t.Context(), backup); err != nil || len(faults) > 0 {
			t.Errorf("the backup has changed: %v %v", faults, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(e.journal.dir, snapshotName)); err != nil || len(left) > 0 {
		t.Errorf("the snapshot was left: %v %v", left, err)
	}
}

// TestRestoreBuried: all jobs come up buried, and say why.
func TestRestoreBuried(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: filepath.Join(dir, "jobs")})
	t.Cleanup(func() { e.Close() })
	put := func(name string, delay uint32) uint64 {
		return do(t, e, storage.Op{Kind: storage.Put, Tube: name, TTR: 600, Delay: delay, Body: []byte("x")})[0].Answer.ID
	}
	ready, delayed, leased, grouped := put("a", 0), put("b", 600), put("c", 0), uint64(0)
	grouped = do(t, e, storage.Op{Kind: storage.Put, Tube: "d", TTR: 600, Args: &storage.Args{Tags: &tube.Tags{Group: "g"}}})[0].Answer.ID
	do(t, e, storage.Op{Kind: storage.Take, Tubes: []string{"c"}, Holder: tube.LeaseHolder})
	do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "d", Args: &storage.Args{Policy: &tube.Policy{Limits: tube.Limits{Concurrency: 1}}}})
	if _, err := e.Backup(t.Context(), filepath.Join(dir, "backup")); err != nil {
		t.Fatal(err)
	}
	again, r := restored(t, filepath.Join(dir, "backup"), true)
	if r.Buried != 4 {
		t.Errorf("%d were buried", r.Buried)
	}
	for _, id := range []uint64{ready, delayed, leased, grouped} {
		j := do(t, again, storage.Op{Kind: storage.JobStats, ID: id})[0].Answer.Job
		if j.State != tube.Buried || !strings.HasPrefix(j.Metadata.AllNotes().Reason, "restored from the backup of 20") {
			t.Errorf("%+v", j)
		}
	}
	if p := do(t, again, storage.Op{Kind: storage.GetPolicy, Tube: "d"})[0].Answer.Result; p == nil || p.Policy == nil || p.Policy.Limits.Concurrency != 1 {
		t.Errorf("the policy is %+v", p)
	}
	if id := do(t, again, storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: ready})[0].Answer; id.NotFound {
		t.Error("it cannot be kicked")
	}
}

// TestDamagedBackup: VerifyBackup names each file that was changed, cut or removed, and Restore refuses it and leaves
// nothing.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	_, backup := backedUp(t)
	seen := make(map[string]bool)
	err := filepath.Walk(backup, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		seen[strings.TrimRight(strings.TrimLeft(filepath.Base(path), "0123456789"), "0123456789")] = true
		return damageFile(t, backup, path)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, faults, err := VerifyBackup(t.Context(), backup); err != nil || len(faults) > 0 {
		t.Errorf("at the end: %v %v", faults, err)
	}
	for _, kind := range []string{"MANIFEST", "log.", "MANIFEST-", ".sst", "OPTIONS-"} {
		if !seen[kind] {
			t.Errorf("there was no file %s among %v", kind, seen)
		}
	}
}

// damageFile changes a file of a backup in several ways, checks each, and restores the file.
func damageFile(t *testing.T, backup, path string) error {
	name, err := filepath.Rel(backup, path)
	if err != nil {
		return err
	}
	was, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	write := func(b []byte) error { return errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600)) } // not into a link
	if len(was) > 0 {
		bytesAt := []int{0, len(was) / 2, len(was) - 1}
		if testing.Short() {
			bytesAt = bytesAt[:1]
		}
		for _, at := range bytesAt {
			now := bytes.Clone(was)
			now[at] ^= 1
			if err := write(now); err != nil {
				return err
			}
			wantDamaged(t, backup, name, fmt.Sprintf("byte %d", at))
		}
		if err := write(was[:len(was)-1]); err != nil {
			return err
		}
		wantDamaged(t, backup, name, "cut")
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	wantDamaged(t, backup, name, "removed")
	return os.WriteFile(path, was, 0o600)
}

// TestPipeInBackup: a file of a backup that has become a pipe is reported, and not waited for.
func TestPipeInBackup(t *testing.T) {
	t.Parallel()
	_, backup := backedUp(t)
	logs, err := filepath.Glob(filepath.Join(backup, "log.*"))
	if err != nil || len(logs) == 0 {
		t.Fatal(err)
	}
	for _, path := range []string{logs[0], filepath.Join(backup, manifestName)} {
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
		wantDamaged(t, backup, filepath.Base(path), "a pipe")
	}
}

// TestBackupOfAnotherLayout: a backup of a layout that is not supported is refused, by its manifest.
func TestBackupOfAnotherLayout(t *testing.T) {
	t.Parallel()
	_, backup := backedUp(t)
	fs := ownerFS{vfs.Default}
	m, err := readManifest(fs, backup)
	if err != nil {
		t.Fatal(err)
	}
	for _, layout := range []int{0, tables.LayoutVersion + 1} {
		if m.Layout = layout; m.write(fs, backup) != nil {
			t.Fatal("the manifest cannot be written")
		}
		want := fmt.Sprintf("layout %d is not supported", layout)
		if _, _, err := VerifyBackup(t.Context(), backup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("verifying: %v", err)
		}
		to := filepath.Join(t.TempDir(), "restored")
		if _, err := Restore(t.Context(), RestoreOptions{From: backup, To: to}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("restoring: %v", err)
		}
	}
}

// wantDamaged checks that a backup is found to be damaged in one file.
func wantDamaged(t *testing.T, backup, name, how string) {
	t.Helper()
	_, faults, err := VerifyBackup(t.Context(), backup)
	if name == manifestName && errors.Is(err, ErrNoManifest) {
		return
	}
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0].Error(), name) {
		t.Errorf("%s, %s: %v, %v", name, how, faults, err)
	}
	to := filepath.Join(t.TempDir(), "restored")
	if _, err := Restore(t.Context(), RestoreOptions{From: backup, To: to}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%s, %s: restoring: %v", name, how, err)
	}
	if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
		t.Errorf("%s, %s: %v was left", name, how, left)
	}
}

// TestBackupPath: a backup is written to a new or an empty directory outside that of the engine, and only there.
func TestBackupPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs := filepath.Join(dir, "jobs")
	e := mustOpen(t, Options{Dir: jobs})
	for _, made := range []string{"full/x", "empty", "foreign.partial/x", "new.partial"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), os.Symlink(jobs, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "relative", "/", jobs, jobs + "/b", jobs + "/tables/b", dir + "/link", dir + "/link/b", dir + "/full", dir + "/file",
		dir + "/nothing/b", dir + "/foreign", dir + "/x/../jobs/b"} {
		if _, err := e.Backup(t.Context(), path); !errors.Is(err, storage.ErrBackupPath) {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"/empty", "/new"} {
		if _, err := e.Backup(t.Context(), dir+path); err != nil {
			t.Error(err)
		}
		if _, err := e.Backup(t.Context(), dir+path); !errors.Is(err, storage.ErrBackupPath) {
			t.Errorf("a second backup to %s: %v", path, err)
		}
	}
	if _, err := Restore(t.Context(), RestoreOptions{From: dir + "/new", To: dir + "/full"}); !errors.Is(err, storage.ErrBackupPath) {
		t.Errorf("restoring over something: %v", err)
	}
	if _, err := Restore(t.Context(), RestoreOptions{From: dir + "/full", To: dir + "/r"}); !errors.Is(err, ErrNoManifest) {
		t.Errorf("restoring something else: %v", err)
	}
	if _, err := NewMemory().Backup(t.Context(), dir+"/m"); !errors.Is(err, storage.ErrNoBackup) {
		t.Errorf("memory: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Backup(t.Context(), dir+"/late"); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestBackupOnFaultyDisk: a backup that meets a faulty disk leaves nothing, and the engine goes on.
func TestBackupOnFaultyDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fs := newHookFS(ownerFS{vfs.Default})
	e := mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), fs: fs})
	t.Cleanup(func() { e.Close() })
	backup := filepath.Join(dir, "backup")
	failed := errors.New("a test fails it")
	for n, ended := 0, false; !ended; n++ {
		var count atomic.Int64
		fs.set(func(op errorfs.Op) error {
			if strings.HasPrefix(op.Path, backup) && isWriting(op) && count.Add(1) == int64(n+1) {
				return failed
			}
			return nil
		})
		_, err := e.Backup(t.Context(), backup)
		fs.set(nil)
		switch ended = err == nil; {
		case ended && n < 8:
			t.Errorf("after %d operations nothing was left to fail", n)
		case !ended && !errors.Is(err, failed):
			t.Fatal(err)
		case !ended:
			if left, _ := filepath.Glob(backup + "*"); len(left) > 0 {
				t.Fatalf("operation %d: %v was left", n, left)
			}
		}
	}
	if _, faults, err := VerifyBackup(t.Context(), backup); err != nil || len(faults) > 0 {
		t.Errorf("%v %v", faults, err)
	}
	do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 60, Body: []byte("it goes on")})
}

// TestBackupCanceled: a backup that was canceled leaves nothing, not even what an earlier process has left. A second one at
// the same time is refused.
func TestBackupCanceled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fs := newHookFS(ownerFS{vfs.Default})
	e := mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), fs: fs})
	t.Cleanup(func() { e.Close() })
	backup := filepath.Join(dir, "backup")
	partial := backup + partialSuffix
	if err := errors.Join(os.Mkdir(partial, 0o700), os.WriteFile(filepath.Join(partial, lockName), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	second := errors.New("it was not tried")
	fs.set(func(op errorfs.Op) error {
		if strings.HasPrefix(op.Path, backup) && ctx.Err() == nil {
			cancel()
			_, second = e.Backup(t.Context(), filepath.Join(dir, "second"))
		}
		return nil
	})
	_, err := e.Backup(ctx, backup)
	fs.set(nil)
	if left, _ := filepath.Glob(backup + "*"); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("canceled: %v, and %v was left", err, left)
	}
	if !errors.Is(second, storage.ErrBackupRunning) {
		t.Errorf("a second backup: %v", second)
	}
}

// isWriting reports whether an operation changes something that a backup needs; what it tidies up
// with can fail without consequences.
func isWriting(op errorfs.Op) bool {
	switch op.Kind {
	case errorfs.OpRemove, errorfs.OpRemoveAll, errorfs.OpLink: // a file that cannot be linked is copied
		return false
	}
	return op.Kind.ReadOrWrite() == errorfs.OpIsWrite
}

// TestBackupWalk takes an engine through random histories, and makes a backup after some steps. What is restored is in the state that
// the engine had, while windows are written to the tables.
func TestBackupWalk(t *testing.T) {
	t.Parallel()
	backups, steps := 0, *walkSteps
	if testing.Short() {
		steps /= 2
	}
	for i := range 2 * uint64(*walks) {
		seed, rules := storetest.FirstSeed()+i/2, i%2 > 0
		t.Run(fmt.Sprintf("seed %d, with rules: %v", seed, rules), func(t *testing.T) {
			d := newDisk()
			d.segment = crashSegment
			e := d.engine(20)
			e.LargeBodies = 12
			w := storetest.NewWalk(t, e, seed)
			if rules {
				w.WithRules()
			}
			for step := 0; step < steps && w.Step(); step++ {
				if step%5 != 4 {
					continue
				}
				w.Acknowledge()
				backups++
				checkBackup(t, w, d, fmt.Sprint("/backup", step))
				if t.Failed() {
					t.Fatal(w.Log())
				}
			}
		})
	}
	if backups < 10 {
		t.Errorf("there were %d backups", backups)
	}
}

// checkBackup makes a backup in the middle of a history, restores it and compares.
func checkBackup(t *testing.T, w *storetest.Walk, d *disk, path string) {
	t.Helper()
	engine := w.Store().(waitingEngine).Engine
	mark := w.Mark()
	if _, err := engine.journal.backup(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if _, faults, err := verifyBackup(t.Context(), d.fs, path, func() {}); err != nil || len(faults) > 0 {
		t.Fatal(faults, err)
	}
	copied := &disk{fs: newMem(), clock: d.clock, segment: crashSegment}
	o := copied.options(t)
	if _, err := vfs.Clone(d.fs, copied.fs, path, o.Dir); err != nil {
		t.Fatal(err)
	}
	if err := copied.fs.Remove(copied.fs.PathJoin(o.Dir, manifestName)); err != nil { // it is no backup any more
		t.Fatal(err)
	}
	r := diskImage{fs: copied.fs}
	if diff := r.check(t, d.clock, w.Since(mark), w.Store()); diff != "" {
		t.Errorf("the backup %s differs: %s", path, diff)
	}
}

// TestBackupWhileWindowsWait: segments that a backup reads are not released, however long it takes, and are afterwards.
func TestBackupWhileWindowsWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), segment: minFileSize, windowBytes: -1})
	t.Cleanup(func() { e.Close() })
	end := e.journal.log.Hold()
	for range 6 {
		fillSegment(t, e)
	}
	eventually(t, "no window was written", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.journal.behind == 0
	})
	if oldest, current := segments(e); oldest != 1 || current < 5 {
		t.Errorf("segments %d to %d are there", oldest, current)
	}
	if _, err := e.Backup(t.Context(), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if oldest, _ := segments(e); oldest != 1 {
		t.Errorf("segments from %d on are there", oldest)
	}
	end()
	if oldest, _ := segments(e); oldest < 3 {
		t.Errorf("segments from %d on are there", oldest)
	}
	again, _ := restored(t, filepath.Join(dir, "b"), false)
	if got, want := totals(t, again).Ready, totals(t, e).Ready; got != want {
		t.Errorf("%d jobs, want %d", got, want)
	}
}
