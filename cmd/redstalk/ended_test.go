package main

import (
	"strings"
	"sync"
	"testing"
	"time"
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
