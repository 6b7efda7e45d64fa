package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWatchedFile: a file is reread once it has changed and stayed the same for one interval; not while it is missing, and
// not if it was read anyway.
func TestWatchedFile(t *testing.T) {
	t.Parallel()
	path, reads := filepath.Join(t.TempDir(), "f"), 0
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	f := &watchedFile{path: path, reread: func() { reads++ }}
	f.wasRead()
	check := func(want int) {
		t.Helper()
		if f.check(); reads != want {
			t.Fatalf("read %d times, want %d", reads, want)
		}
	}
	check(0)
	write("half")
	check(0)
	write("the whole")
	check(0)
	check(1)
	check(1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check(1)
	check(1)
	write("it is there again")
	check(1)
	check(2)
	write("read because of a signal")
	f.wasRead()
	check(2)
	check(2)
}

// TestWatchedAttributes: a file is reread also if it only became readable, or has another content with the same size and time.
func TestWatchedAttributes(t *testing.T) {
	t.Parallel()
	path, reads := filepath.Join(t.TempDir(), "f"), 0
	at := time.Now().Add(-time.Hour)
	write := func(text string) {
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	f := &watchedFile{path: path, reread: func() { reads++ }}
	f.wasRead()
	for i, change := range []func() error{
		func() error { return os.Chmod(path, 0o640) },
		func() error { write("b"); return nil },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		f.check()
		if f.check(); reads != i+1 {
			t.Errorf("after change %d: read %d times", i, reads)
		}
	}
}

// TestMountedUsers: users in a volume that Kubernetes replaces as a whole, by a symbolic link, are read without a signal.
func TestMountedUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	hash := hashed(t, "open5esame", "--cost", "4")
	if err := errors.Join(os.Mkdir(at("..1"), 0o700), os.Mkdir(at("..2"), 0o700), os.Symlink("..1", at("..data")), os.Symlink("..data/users.yml", at("users.yml"))); err != nil {
		t.Fatal(err)
	}
	userFile(t, at("..1/users.yml"), [4]string{"app", hash, "*", "put"}, [4]string{"gone", hash, "*", "put"})
	userFile(t, at("..2/users.yml"), [4]string{"app", hash, "*", "put"})
	p := start(t, command("-V", "-p0", "--access", at("users.yml")))
	c := dial(t, p.serving(t))
	c.ask("auth gone open5esame\r\n", "AUTHENTICATED")
	if err := errors.Join(os.Symlink("..2", at("..new")), os.Rename(at("..new"), at("..data"))); err != nil {
		t.Fatal(err)
	}
	p.stderr.await(t, "(the users were read again)")
	if line, err := c.conn.Line(); err == nil {
		t.Errorf("who is gone got %q", line)
	}
}
