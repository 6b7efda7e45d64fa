package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

// endings returns handlers that end in all ways.
func endings(c *client.Client, failed, nothing error) map[string]worker.Handler {
	fail := func(context.Context, *worker.Job) error { return failed }
	return map[string]worker.Handler{
		"done":     func(context.Context, *worker.Job) error { return nil },
		"snooze":   func(context.Context, *worker.Job) error { return worker.Snooze(time.Hour) },
		"later":    fail,
		"listed":   fail,
		"last":     fail,
		"last-exp": fail,
		"nil":      func(context.Context, *worker.Job) error { return nothing },
		"skip":     func(context.Context, *worker.Job) error { return worker.Skip(failed) },
		"panic":    func(context.Context, *worker.Job) error { panic("panic") },
		"exit":     func(context.Context, *worker.Job) error { runtime.Goexit(); return nil },
		"timeout": func(ctx context.Context, job *worker.Job) error {
			job.SetTimeout(time.Millisecond)
			<-ctx.Done()
			return ctx.Err()
		},
		"deleted": func(ctx context.Context, job *worker.Job) error {
			return errors.Join(c.DeleteKey(ctx, job.Tube, "deleted"), job.Checkpoint(ctx, 1))
		},
	}
}

// TestOnError: each failure is told with what becomes of the job. What is no failure is not told, and whatever the hook does harms nothing.
func TestOnError(t *testing.T) {
	c := client.New(testserver.Memory(t).Addr())
	defer c.Close()
	failed := errors.New("failed")
	var nothing error = (*client.EndedError)(nil) // its text cannot be had
	results := endings(c, failed, nothing)
	want := map[string]string{
		"later": "retried: failed", "listed": "retried: failed", "last": "exhausted: failed", "last-exp": "exhausted: failed", "nil": "retried: typed nil",
		"skip": "buried: skipped: failed", "panic": "retried: panic: panic", "exit": "retried: the handler called runtime.Goexit", "timeout": "retried: timeout: context canceled",
	}
	told := make(chan [2]string, 2*len(results))
	config := worker.Config{OnError: func(job *worker.Job, err error, then worker.Outcome) {
		text := "typed nil"
		if err != nothing {
			text = err.Error()
		}
		told <- [2]string{string(job.Body), fmt.Sprintf("%s: %s", then, text)}
		if string(job.Body) == "later" {
			runtime.Goexit()
		}
		panic(err)
	}}
	start(t, c, config, handle("jobs", func(ctx context.Context, job *worker.Job) error { return results[string(job.Body)](ctx, job) }))
	options := map[string][]client.PutOption{
		"listed": {client.Retry(time.Hour, time.Hour)}, "last": {client.Retry(0)}, "last-exp": {client.RetryExp(time.Millisecond, time.Second, 2)}, "deleted": {client.Key("deleted")},
	}
	ids := map[string]uint64{}
	for body := range results {
		ids[body] = put(t, c, "jobs", body, options[body]...)
	}
	for len(want) > 0 {
		got := receive(t, told, fmt.Sprint(want))
		if strings.HasPrefix(got[0], "last") && got[1] == "retried: failed" {
			continue
		}
		if want[got[0]] == "" || !strings.HasPrefix(got[1], want[got[0]]) {
			t.Errorf("%q, want %q", got, want[got[0]])
		}
		delete(want, got[0])
	}
	for _, exhausted := range []string{"last", "last-exp"} {
		awaitState(t, c, ids[exhausted], "buried")
	}
	awaitState(t, c, ids["listed"], "delayed")
}

// TestLostIsTold: the failure of a job that is no longer held is told, also if its handler returns nil.
func TestLostIsTold(t *testing.T) {
	s := redstalktest.Start(t)
	c := client.New(s.Addr)
	defer c.Close()
	told := make(chan worker.Outcome, 1)
	config := worker.Config{OnError: func(job *worker.Job, err error, then worker.Outcome) {
		if !errors.Is(err, worker.ErrLeaseLost) {
			t.Error(err)
		}
		told <- then
	}}
	put(t, c, "jobs", "x", client.TTR(time.Second))
	start(t, c, config, handle("jobs", func(ctx context.Context, job *worker.Job) error {
		s.Freeze()
		<-ctx.Done()
		s.Thaw()
		return nil
	}))
	if then := receive(t, told, "the failure"); then != worker.Lost {
		t.Error(then)
	}
}
