package embedded

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redstalk/storage"
)

// storeWithBackup returns a disk with a store in jobs, and a backup of it in backup.
func storeWithBackup(t *testing.T) *disk {
	t.Helper()
	d := newDisk()
	e := mustOpen(t, d.options(t))
	do(t, e, storage.Op{Kind: storage.Put, Tube: "a", TTR: 9, Body: []byte("x")})
	if _, err := e.journal.backup(context.Background(), "backup"); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// write makes an empty file, and the directories above it.
func write(t *testing.T, fs vfs.FS, name string) {
	t.Helper()
	if err := fs.MkdirAll(path.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	rewrite(t, fs, name, []byte("x"))
}

// TestForeignDirectory: an engine is opened on no backup, no part of a store, and, without the word of an operator, on
// nothing that has other files in it or a store below it. Nothing is written there.
func TestForeignDirectory(t *testing.T) {
	for _, c := range []struct {
		dir, file, want string
		created         bool // Options.NewStore allows it
	}{
		{"backup", "", "redstalkd restore --from backup", false},
		{"backup", "backup/MANIFEST", "it is a backup", false}, // damaged
		{"jobs/tables", "", "whose directory is jobs", false},
		{"jobs/backup.new", "", "a part of the store in jobs", false},
		{"old.partial", "old.partial/backup.lock", "an interrupted backup", false},
		{"home", "home/notes.txt", "such as notes.txt", true},
		{"var", "var/log.1", "such as log.1", false},
		{"web", "web/tables/index.html", "such as tables", true},
		{"above", "above/jobs/log.1", "", true},
		{"old", "old/binlog.1", "a binlog of beanstalkd", false},
		{"volume", "volume/lost+found/x", "", true},
		{"was", "was/lock", "", true},
	} {
		d := storeWithBackup(t)
		o := d.options(t)
		o.Dir = c.dir
		if c.file != "" {
			write(t, d.fs, c.file)
		}
		if c.dir == "above" {
			if err := d.fs.RemoveAll("above/jobs"); err != nil {
				t.Fatal(err)
			}
			if _, err := vfs.Clone(d.fs, d.fs, "jobs", "above/jobs"); err != nil {
				t.Fatal(err)
			}
			c.want = "above/jobs"
		}
		before, _ := d.fs.List(c.dir)
		e, err := Open(o)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.dir, err)
			} else if err := e.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.dir, err, c.want)
		}
		after, _ := d.fs.List(c.dir)
		slices.Sort(before)
		if slices.Sort(after); !slices.Equal(before, after) {
			t.Errorf("%s: it had %q, and has %q", c.dir, before, after)
		}
		o.NewStore = true
		if e, err = Open(o); (err == nil) != c.created {
			t.Errorf("%s with NewStore: %v", c.dir, err)
		}
		if err == nil {
			e.Close()
		}
	}
}

// TestInterruptedFirstStart: a directory opens again whatever a first start has written before it was interrupted.
func TestInterruptedFirstStart(t *testing.T) {
	for n := 1; ; n++ {
		d := newDisk()
		o := d.options(t)
		fs, ended := newHookFS(d.fs), make(chan error, 2)
		o.fs, o.Fatal = fs, func(err error) { ended <- err; select {} }
		f := &fault{meets: func(op errorfs.Op) bool { return isCreate(op) || isRename(op) || isWrite(op) }, nth: n, lasts: true}
		fs.set(f.hook)
		go func() { ended <- openRecovering(o) }()
		if err := <-ended; err == nil && !f.hasStruck() {
			return
		}
		fs.set(blockForever)
		left := &disk{fs: clone(d.fs, 100), clock: d.clock}
		if err := openRecovering(left.options(t)); err != nil {
			t.Errorf("%v: %v", f, err)
		}
	}
}

// TestErrForeign: the program can tell this error from others.
func TestErrForeign(t *testing.T) {
	d := newDisk()
	write(t, d.fs, "jobs/notes.txt")
	if _, err := Open(d.options(t)); !errors.Is(err, ErrForeign) {
		t.Errorf("the error is %v", err)
	}
}

// TestOtherPaths: what an interrupted backup has left is recognised by whatever path, and a link that leads nowhere is named.
func TestOtherPaths(t *testing.T) {
	at := t.TempDir()
	left, link, lost := filepath.Join(at, "b.partial"), filepath.Join(at, "link"), filepath.Join(at, "lost")
	err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, lockName), nil, 0o600), os.Symlink("b.partial", link), os.Symlink("none", lost))
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{link: "an interrupted backup", left + "/.": "an interrupted backup", lost: "lost is a symbolic link to none,", lost + "/jobs": "lost is a symbolic link to none,"} {
		e, err := Open(Options{Dir: dir})
		if err == nil {
			err = e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

// TestNoDirectory: what cannot be a directory of a store is named: a file, and a directory that can only be read, which is
// not in use by another process.
func TestNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: file}); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "it is a file") {
		t.Errorf("a file: %v", err)
	}
	d := newDisk()
	o, hooked := d.options(t), newHookFS(d.fs)
	hooked.set(func(op errorfs.Op) error {
		if path.Base(op.Path) == "LOCK" {
			return &os.PathError{Op: "open", Path: op.Path, Err: syscall.EROFS}
		}
		return nil
	})
	o.fs = hooked
	if _, err := Open(o); !errors.Is(err, syscall.EROFS) || errors.Is(err, ErrLocked) {
		t.Errorf("read-only: %v", err)
	}
}
