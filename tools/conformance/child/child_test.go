package child_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

func start(t *testing.T, script string) *child.Process {
	t.Helper()
	p, err := child.Start(exec.Command("/bin/sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// TestAwaitListener: the file of a unix socket exists before the server listens on it.
func TestAwaitListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	p, awaited := start(t, "exec sleep 60"), make(chan error, 1)
	go func() { awaited <- p.AwaitWithin(time.Minute, child.Accepts("unix", path)) }()
	select {
	case err := <-awaited:
		t.Fatalf("nobody listens yet, and it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	os.Remove(path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := <-awaited; err != nil {
		t.Error(err)
	}
}

func TestAwaitEnd(t *testing.T) {
	p := start(t, "echo no such flag >&2; exit 3")
	err := p.AwaitWithin(time.Minute, child.Accepts("tcp", "127.0.0.1:"+child.FreePort()))
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such flag") {
		t.Error(err)
	}
}

// TestStop: a process that ignores SIGTERM is killed.
func TestStop(t *testing.T) {
	for script, want := range map[string]string{
		"trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done": "exit status 7",
		"trap '' TERM; echo ready; while :; do sleep 0.01; done":       "signal: killed",
	} {
		p := start(t, script)
		if _, err := p.Stdout.Await(time.Minute, "ready"); err != nil {
			t.Fatal(err)
		}
		limit := time.Minute
		if strings.Contains(want, "killed") {
			limit = 50 * time.Millisecond
		}
		if p.Stop(limit); p.Cmd.ProcessState.String() != want {
			t.Errorf("%s: %v, want %s", script, p.Cmd.ProcessState, want)
		}
	}
}

func TestFreePortIsGivenOnce(t *testing.T) {
	given := make(map[string]bool)
	for range 300 {
		port := child.FreePort()
		if given[port] {
			t.Fatalf("port %s was given twice", port)
		}
		given[port] = true
	}
}
