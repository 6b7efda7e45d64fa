package main

import (
	"os/exec"
	"strings"
	"testing"
)

// withDescriptors is command for a process that may open so many files.
func withDescriptors(limit string, args ...string) *exec.Cmd {
	cmd := command(args...)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n "$0"; exec "$@"`, limit, binary}, args...)
	return cmd
}

// TestFewDescriptors: the embedded engine works with as few file descriptors as the pages say, and with fewer it refuses to
// start.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	store := "embedded:" + t.TempDir()
	if code, _, stderr := run(t, withDescriptors("55", "-p0", "--store", store)); code != exitFailure || !strings.Contains(stderr, "may open 55 files, and the embedded engine needs 56") {
		t.Errorf("%d %s", code, stderr)
	}
	for _, command := range [][2]string{{"put 0 0 60 1\r\nx\r\n", "INSERTED 1"}, {"delete 1\r\n", "DELETED"}} {
		p := start(t, withDescriptors("56", "-V", "-p0", "--store", store))
		dial(t, p.serving(t)).ask(command[0], command[1])
		p.Kill()
	}
}
