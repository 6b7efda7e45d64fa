//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// TestDirectoryIsTaken: a server whose directory is removed ends with a
// line that reports that, and code 1, even without a put.
func TestDirectoryIsTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/jobs"
	p, addr := serve(t, "-p0", "-b", dir)
	dial(t, addr).ask("put 0 0 60 1\r\nx\r\n", "INSERTED 1")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	if code := p.code(t); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	if text := p.stderr.String(); strings.Count(text, "redstalkd: ") != 1 || !strings.Contains(text, dir+" has been removed or renamed") {
		t.Errorf("its last line:\n%s", text)
	}
}

// TestLockFileIsRemoved: a second process on the directory is still refused.
func TestLockFileIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/jobs"
	serve(t, "-p0", "-b", dir)
	for _, name := range []string{"/LOCK", "/tables/LOCK"} {
		if err := os.Remove(dir + name); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := run(t, command("-p0", "-b", dir)); code != exitLocked {
		t.Errorf("exit code %d, want %d: %s", code, exitLocked, stderr)
	}
}
