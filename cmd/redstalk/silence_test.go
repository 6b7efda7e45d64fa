package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"redstalk/storage/redis/redistest"
	"redstalk/tools/conformance/child"
)

// TestSilence: while the store does not answer, redstalk says so, before and after it has given up.
func TestSilence(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	_, addr := child.Serve(t, exec.Command(redstalkd, "--store", redis.URL()))
	redis.Stop()
	defer redis.Continue()
	got := runIn(t.Context(), "", "stats", "--server", addr, "--timeout", "2500ms")
	said := strings.Split(strings.TrimSpace(got.err), "\n")
	if got.code != exitServer || len(said) != 2 || !strings.HasPrefix(said[0], "redstalk: connected to "+addr+", but no reply for 2s: its store") ||
		!strings.HasPrefix(said[1], "redstalk: asking for stats: no reply within 2.5s: its store") {
		t.Errorf("%d %q", got.code, said)
	}
	if got = runIn(t.Context(), "", "stats", "--server", addr, "--timeout", "2500ms", "--quiet"); strings.Count(got.err, "\n") != 1 {
		t.Errorf("with --quiet: %q", got.err)
	}
}

// TestSilentOldServer: move-from says that the server from which it moves does not answer.
func TestSilentOldServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	got := runIn(t.Context(), "", "move-from", silent.Addr().String(), "--timeout", "2500ms")
	if want := "redstalk: connected to " + silent.Addr().String() + ", but no reply for 2s"; got.code != exitServer || !strings.HasPrefix(got.err, want) {
		t.Errorf("%d %q", got.code, got.err)
	}
}
