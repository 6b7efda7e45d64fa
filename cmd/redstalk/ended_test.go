package main

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// TestResultOfCommand: what the command of reserve --exec prints is the result of its job, if a record of that is kept.
func TestResultOfCommand(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	run := on(t, addr)
	run("put", "-t", "e", "--keep", "1h", "one")
	run("put", "-t", "e", "two")
	run("put", "-t", "e", "--keep", "1h", "three")
	if got := run("reserve", "-t", "e", "--exec", "tr a-z A-Z"); got != "ONETWOTHREE" {
		t.Errorf("%q", got)
	}
	if got := run("ended", "e", "--json"); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"how":"done"`) || !strings.Contains(got, `"result":"ONE"`) {
		t.Error(got)
	}
}

// TestPutAndWait: put --wait prints the result of the job.
func TestPutAndWait(t *testing.T) {
	t.Parallel()
	addr := ours(t)
	var worker sync.WaitGroup
	worker.Go(func() { on(t, addr)("reserve", "-t", "e", "--wait", "1m", "--count", "1", "--exec", "tr a-z A-Z") })
	if got := on(t, addr)("put", "-t", "e", "--wait", "1m", "ping"); got != "PING" {
		t.Errorf("%q", got)
	}
	worker.Wait()
	begun := time.Now()
	if got := runIn(t.Context(), "", "put", "-t", "e", "--wait", "1s", "ping", "-s", addr); got.code != exitNothing || got.out != "" || time.Since(begun) < time.Second {
		t.Errorf("%+v", got)
	}
}

// TestWaitOverRestart: a wait goes on when the server is killed and starts again.
func TestWaitOverRestart(t *testing.T) {
	t.Parallel()
	store := "embedded:" + t.TempDir()
	server, addr := child.Serve(t, exec.Command(redstalkd, "--store", store))
	var out, said buffer
	var waiter sync.WaitGroup
	waiter.Go(func() {
		args := []string{"redstalk", "put", "-t", "e", "--wait", "forever", "ping", "-s", addr}
		if code := run(t.Context(), stdio{strings.NewReader(""), &out, &said}, args); code != 0 || out.String() != "PING" {
			t.Errorf("exit code %d, %q: %s", code, out.String(), said.String())
		}
	})
	await(t, "the put", func() bool { return strings.Contains(said.String(), "waiting for job") })
	server.Kill()
	await(t, "another try", func() bool { return strings.Contains(said.String(), "connecting again") })
	again, err := child.Start(exec.Command(redstalkd, "--store", store, "-l", addr))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	await(t, "the server", func() bool {
		return runIn(t.Context(), "", "reserve", "-t", "e", "--count", "1", "--exec", "tr a-z A-Z", "-s", addr).code == 0
	})
	waiter.Wait()
}
