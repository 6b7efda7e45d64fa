package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

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
	fsck(5, "fsck is for jobs in Redis, and --store is memory:")
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
