package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// TestWakeInPartitions: a put on one instance wakes a reserve that waits on
// another for tubes of several partitions, at once.
func TestWakeInPartitions(t *testing.T) {
	redis := redistest.Start(t)
	args := []string{"-p0", "--store", redis.URL(), "--partitions", "16"}
	_, addrA := serve(t, args...)
	_, addrB := serve(t, args...)
	a, b, watcher := dial(t, addrA), dial(t, addrB), dial(t, addrB)
	const tubes = 6
	for i := range tubes {
		b.ask(fmt.Sprintf("watch tube%d\r\n", i), fmt.Sprint("WATCHING ", i+2))
	}
	var took []time.Duration
	for i := range 60 {
		b.send("reserve\r\n")
		watcher.awaitFigure("stats", "current-waiting", "1")
		begun := time.Now()
		a.ask(fmt.Sprintf("use tube%d\r\n", i%tubes), fmt.Sprint("USING tube", i%tubes))
		a.send("put 0 0 60 1\r\nx\r\n")
		for _, c := range []*client{a, b} {
			if line := c.line(); !strings.HasPrefix(line, "INSERTED ") && !strings.HasPrefix(line, "RESERVED ") {
				t.Fatal(line)
			}
		}
		took = append(took, time.Since(begun))
		b.line()
	}
	wantSoon(t, took)
}

// TestInstanceKilledInPartitions: what an instance held in several partitions is
// ready again soon after it was killed, and a waiter elsewhere gets it.
func TestInstanceKilledInPartitions(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	args := []string{"-p0", "--store", redis.URL(), "--partitions", "16"}
	_, addrA := serve(t, args...)
	killed, addrB := serve(t, args...)
	a, b := dial(t, addrA), dial(t, addrB)
	const tubes = 5
	for i := range tubes {
		for _, c := range []*client{a, b} {
			c.ask(fmt.Sprintf("watch tube%d\r\n", i), fmt.Sprint("WATCHING ", i+2))
		}
		b.ask(fmt.Sprintf("use tube%d\r\n", i), fmt.Sprint("USING tube", i))
		b.send("put 0 0 600 1\r\nx\r\nreserve\r\n")
		for _, want := range []string{"INSERTED ", "RESERVED ", "x"} {
			if line := b.line(); !strings.HasPrefix(line, want) {
				t.Fatalf("%q, want %q", line, want)
			}
		}
	}
	a.awaitFigure("stats", "current-jobs-reserved", fmt.Sprint(tubes))
	begun, watch := time.Now(), startWatch()
	killed.signal(t, syscall.SIGKILL)
	for range tubes {
		a.send("reserve\r\n")
		if line := a.line(); !strings.HasPrefix(line, "RESERVED ") {
			t.Fatal(line)
		}
		a.line()
	}
	t.Logf("all was handed out again %v after its instance was killed", time.Since(begun))
	if took := watch.took(); took > 6*time.Second {
		t.Errorf("it took %v", took)
	}
	if line := a.figure("stats", "current-tubes"); line != fmt.Sprint(tubes+1) {
		t.Errorf("there are %s tubes, want %d", line, tubes+1)
	}
}
