package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/tools/redistest"
)

// TestFsck: a job that has lost its place is found, and given it back.
func TestFsck(t *testing.T) {
	redis := redistest.Start(t)
	p, addr := serve(t, "-p0", "--store", redis.URL())
	dial(t, addr).ask("put 0 0 60 1\r\nx\r\n", "INSERTED 1")
	fsck := func(code int, says string, args ...string) {
		t.Helper()
		got, stdout, stderr := run(t, command(append([]string{"fsck"}, args...)...))
		if got != code || !strings.Contains(stdout+stderr, says) {
			t.Errorf("%q: code %d, want %d; %s%s, want %s", args, got, code, stdout, stderr, says)
		}
	}
	store := []string{"--store", redis.URL()}
	fsck(0, "1 jobs, 0 faults\n", store...)
	fsck(5, "instances of redstalk are running", append(store, "--repair")...)
	p.signal(t, syscall.SIGTERM)
	p.code(t)
	redis.Client(t).Del(context.Background(), "redstalk:{0}:ready:default")
	fsck(4, "{0} job 0000000000000001: by its record it should be in ready:default, and it is nowhere\n", store...)
	fsck(0, "1 jobs, 1 faults\n", append(store, "--repair")...)
	fsck(0, "1 jobs, 0 faults\n", store...)
	fsck(5, "fsck is for jobs in Redis or in a directory, and --store is memory:")
	_, addr = serve(t, append(store, "-p0")...)
	dial(t, addr).ask("reserve\r\n", "RESERVED 1 1", "x")
}

// TestProgress: one line is written again, not too often, and taken away.
func TestProgress(t *testing.T) {
	var out strings.Builder
	now := time.Now()
	p := &progress{to: &out, now: func() time.Time { return now }}
	p.clear()
	for n := range 5 {
		p.show("jobs", n)
		now = now.Add(progressEvery / 2)
	}
	p.clear()
	p.clear()
	const line = "\r\033[K"
	if want := line + "processing jobs: 0" + line + "processing jobs: 2" + line + "processing jobs: 4" + line; out.String() != want {
		t.Errorf("got  %q\nwant %q", out.String(), want)
	}
	none := newProgress(&out)
	out.Reset()
	none.show("jobs", 1)
	none.clear()
	if out.Len() > 0 {
		t.Errorf("without a terminal: %q", out.String())
	}
}

// TestFsckDirectory: the directory of a stopped server is checked and repaired with the same lines and exit codes; that of a running one is not.
func TestFsckDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	store := []string{"--store", "embedded:" + dir}
	p, addr := serve(t, append(store, "-p0")...)
	dial(t, addr).ask("put 0 0 60 1\r\nx\r\n", "INSERTED 1")
	fsck := func(code int, says string, args ...string) {
		t.Helper()
		got, stdout, stderr := run(t, command(append(append([]string{"fsck"}, store...), args...)...))
		if got != code || !strings.HasSuffix(stdout+stderr, says) {
			t.Errorf("%q: code %d, want %d; %s%s, want %s", args, got, code, stdout, stderr, says)
		}
	}
	const inUse = "another process uses the directory: resource temporarily unavailable\n"
	fsck(10, inUse)
	fsck(10, inUse, "--repair")
	p.signal(t, syscall.SIGTERM)
	p.code(t)
	fsck(0, "1 jobs, 0 faults\n")
	write := func(key, value string) {
		t.Helper()
		db, err := pebble.Open(filepath.Join(dir, "tables"), &pebble.Options{DisableWAL: true, FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Set([]byte(key), []byte(value), pebble.NoSync), db.Flush(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write("y\x03old", strings.Repeat("\x00", 15)+"\x01"+strings.Repeat("\x00", 8))
	const fault = `tube "old", cold jobs that are delayed: there are 0 with 0 bytes, and 0 with 1 bytes were counted`
	fsck(4, fault+"\n1 jobs, 1 faults\nredstalkd: there are faults; say fsck --repair\n")
	fsck(0, fault+": the count is set\n1 jobs, 1 faults\n", "--repair")
	fsck(0, "1 jobs, 0 faults\n", "--repair")
	write("Z", "")
	fsck(4, "the row 5a is of an unknown kind\nbecause of these faults it was not checked whether a server could start\n"+
		"0 jobs, 1 faults\nredstalkd: 1 faults cannot be repaired\n", "--repair")
	fsck(5, "fsck is for jobs in Redis or in a directory, and --store is memory:\n", "--store", "memory:")
	fsck(1, "no such file or directory\n", "--store", "embedded:"+dir+".none")
	_, addr = serve(t, append(store, "-p0")...)
	dial(t, addr).ask("reserve\r\n", "RESERVED 1 1", "x")
}

// quiet is a logger of Pebble.
type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
