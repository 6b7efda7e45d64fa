package embedded

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
)

// seriesEngine is an engine with a job, whose clock moves only by advance, and a directory for backups.
func seriesEngine(t *testing.T) (e *Engine, fs *hookFS, clock *fakeClock, dir string) {
	t.Helper()
	dir = t.TempDir()
	fs, clock = newHookFS(ownerFS{vfs.Default}), newFakeClock()
	e = mustOpen(t, Options{Dir: filepath.Join(dir, "jobs"), fs: fs, clock: clock.now})
	t.Cleanup(func() { e.Close() })
	do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 60, Body: []byte("x")})
	return e, fs, clock, filepath.Join(dir, "backups")
}

// namesIn returns the names in a directory, in order.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// plant makes directories and files with the names of backups that are none of the store's, and returns their names.
func plant(t *testing.T, e *Engine, dir string) (names []string) {
	t.Helper()
	foreign := filepath.Join(dir, "redstalk-20000101T000000Z") // of another store
	if _, err := e.Backup(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	fs := ownerFS{vfs.Default}
	m, err := readManifest(fs, foreign)
	if err != nil {
		t.Fatal(err)
	}
	m.Store = "/somewhere/else"
	mine := filepath.Join(dir, "monday") // not named by BackupInto
	_, failed := e.Backup(t.Context(), mine)
	err = errors.Join(failed, m.write(fs, foreign),
		os.MkdirAll(filepath.Join(dir, "redstalk-20000102T000000Z", "mail"), 0o700), // no backup
		os.MkdirAll(filepath.Join(dir, "redstalk-20000103T000000Z.partial", "mail"), 0o700),
		os.Symlink(mine, filepath.Join(dir, "redstalk-20000104T000000Z")),
		os.WriteFile(filepath.Join(dir, "redstalk-20000105T000000Z"), nil, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return namesIn(t, dir)
}

// TestBackupInto: of the backups that are named by their time the newest stay, and nothing else in the directory is touched. What a
// killed backup has left is removed.
func TestBackupInto(t *testing.T) {
	t.Parallel()
	e, _, clock, dir := seriesEngine(t)
	into := func() string {
		b, err := e.BackupInto(t.Context(), dir, 3)
		if err != nil {
			t.Fatal(err)
		}
		clock.advance(time.Hour)
		return filepath.Base(b.To)
	}
	first := into()
	planted := slices.DeleteFunc(plant(t, e, dir), func(name string) bool { return name == first })
	left := filepath.Join(dir, "redstalk-20000106T000000Z.partial")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, lockName), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	var written []string
	for range 4 {
		written = append(written, into())
	}
	want := slices.Concat(planted, written[1:])
	if slices.Sort(want); !slices.Equal(namesIn(t, dir), want) {
		t.Errorf("there are %v, want %v", namesIn(t, dir), want)
	}
	clock.advance(-24 * time.Hour)
	set := into()
	want = slices.Concat(planted, []string{set}, written[2:])
	if slices.Sort(want); !slices.Equal(namesIn(t, dir), want) {
		t.Errorf("after the clock was set back there are %v, want %v", namesIn(t, dir), want)
	}
	for _, name := range append(written[2:], set) {
		if _, faults, err := VerifyBackup(t.Context(), filepath.Join(dir, name)); err != nil || len(faults) > 0 {
			t.Errorf("%s: %v %v", name, faults, err)
		}
	}
}

// TestBackupIntoDamaged: a backup that is not as it was written fails, and no other one is removed then, nor is its time that of the
// last backup.
func TestBackupIntoDamaged(t *testing.T) {
	t.Parallel()
	e, fs, clock, dir := seriesEngine(t)
	made := func() time.Time { return do(t, e, storage.Op{Kind: storage.Stats})[0].Answer.Stats.Log.LastBackup }
	if !made().IsZero() {
		t.Errorf("a new store has a backup of %v", made())
	}
	b, err := e.BackupInto(t.Context(), dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	at := made()
	if off := clock.now().Sub(at); off < 0 || off > time.Second {
		t.Errorf("the last backup is of %v, %v ago", at, off)
	}
	clock.advance(time.Hour)
	fs.set(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileClose || !strings.HasSuffix(op.Path, "/"+manifestName) || !strings.Contains(op.Path, partialSuffix) {
			return nil
		}
		if op.Kind != errorfs.OpOpen { // it was written: damage what it is about before it is read again
			return nil
		}
		logs, err := filepath.Glob(filepath.Join(filepath.Dir(op.Path), "log.*"))
		if err != nil || len(logs) == 0 {
			return errors.New("there is no log")
		}
		return os.Truncate(logs[0], 100)
	})
	if _, err := e.BackupInto(t.Context(), dir, 1); !errors.Is(err, errDamaged) {
		t.Errorf("a damaged backup: %v", err)
	}
	fs.set(nil)
	if names := namesIn(t, dir); !slices.Equal(names, []string{filepath.Base(b.To)}) || !made().Equal(at) {
		t.Errorf("there are %v, the last of %v; want only %s of %v", names, made(), b.To, at)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, Options{Dir: e.journal.dir})
	t.Cleanup(func() { e.Close() })
	if got := made(); got.Unix() != at.Unix() {
		t.Errorf("after a restart the last backup is of %v, want %v", got, at)
	}
}

// TestRestoreLoadsNoJobs: a restore copies files. Only --as buried needs the jobs in memory.
func TestRestoreLoadsNoJobs(t *testing.T) {
	t.Parallel()
	_, backup := backedUp(t)
	for buried, want := range map[bool]int{false: 0, true: 1} {
		var log bytes.Buffer
		o := RestoreOptions{From: backup, To: filepath.Join(t.TempDir(), "r"), Buried: buried, Log: slog.New(slog.NewTextHandler(&log, nil))}
		if _, err := Restore(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "all jobs are loaded"); n != want {
			t.Errorf("buried %v: the jobs were loaded %d times", buried, n)
		}
	}
}
