package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/worker"
)

// Producers put a job, wait for its reply and then this long; a handler takes as long.
const (
	producers = 4
	pause     = 20 * time.Millisecond
)

// outcome is what a client has met: testdata/load.py prints the same.
type outcome struct {
	Puts    int      // acknowledged
	Lost    int      // of those, never handled
	Twice   int      // handled more than once
	Longest float64  // of a put, in seconds
	Errors  []string // that an application sees
}

// load is a client that puts jobs and handles them; ended makes it stop, and returns what happened.
type load struct {
	name  string
	ended func() outcome
}

// ledger is what a client of Go has done so far.
type ledger struct {
	mu           sync.Mutex
	outcome      outcome
	acknowledged map[string]bool
	handled      map[string]int
}

func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcome.Errors = append(l.outcome.Errors, fmt.Sprintf(format, args...))
}

// goLoad starts the client of Go.
func goLoad(t *testing.T, addresses string) load {
	t.Helper()
	l := &ledger{acknowledged: make(map[string]bool), handled: make(map[string]int)}
	ctx, stopWorker := context.WithCancel(t.Context())
	c := client.New(addresses)
	mux := worker.NewMux()
	mux.Handle("go", func(_ context.Context, job *worker.Job) error {
		time.Sleep(pause)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.handled[string(job.Body)]++
		return nil
	})
	tellError := func(job *worker.Job, err error, then worker.Outcome) { l.fail("job %d: %v: %s", job.ID, err, then) }
	var working, producing sync.WaitGroup
	working.Go(func() {
		if err := worker.New(c, worker.Config{OnError: tellError}).Run(ctx, mux); err != nil {
			l.fail("the worker: %v", err)
		}
	})
	ending := make(chan struct{})
	for number := range producers {
		producing.Go(func() { l.produce(ctx, c, number, ending) })
	}
	return load{"Go", func() outcome {
		close(ending)
		producing.Wait()
		for until := time.Now().Add(20 * time.Second); l.missing() > 0 && time.Now().Before(until); {
			time.Sleep(50 * time.Millisecond)
		}
		stopWorker()
		working.Wait()
		c.Close()
		l.outcome.Lost = l.missing()
		return l.outcome
	}}
}

// produce puts jobs until it is told to end.
func (l *ledger) produce(ctx context.Context, c *client.Client, number int, ending <-chan struct{}) {
	for count := 0; ; count++ {
		select {
		case <-ending:
			return
		case <-time.After(pause):
		}
		body, began := fmt.Sprintf("%d-%d", number, count), time.Now()
		_, err := c.Put(ctx, "go", []byte(body))
		took := time.Since(began).Seconds()
		if err != nil {
			l.fail("put after %.1f s: %v", took, err)
			continue
		}
		l.mu.Lock()
		l.acknowledged[body] = true
		l.outcome.Puts++
		l.outcome.Longest = max(l.outcome.Longest, took)
		l.mu.Unlock()
	}
}

// missing counts acknowledged jobs that were not handled yet, and those that were more than once.
func (l *ledger) missing() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcome.Twice = 0
	for _, times := range l.handled {
		if times > 1 {
			l.outcome.Twice++
		}
	}
	for body := range l.acknowledged {
		if l.handled[body] == 0 {
			n++
		}
	}
	return n
}

// pythonLoad starts a client of Python, with a tube of its own.
func pythonLoad(t *testing.T, name, addresses string) load {
	t.Helper()
	cmd := exec.Command("python3", "testdata/load.py", addresses, strings.ReplaceAll(name, " ", "-"))
	cmd.Env = append(cmd.Environ(), "PYTHONPATH=../../../clients/python")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting Python: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "started\n" {
		t.Fatalf("Python says %q, %v: %s", line, err, stderr.String())
	}
	return load{name, func() outcome {
		in.Close()
		text, err := io.ReadAll(lines)
		var got outcome
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err == nil {
			err = cmd.Wait()
		}
		if err != nil {
			t.Errorf("%s: %v: %q %s", name, err, text, stderr.String())
		}
		return got
	}}
}
