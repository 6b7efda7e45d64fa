package zywaited

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"redstalk/server/gateway/zywaited/pb"
	"redstalk/server/webhook"
)

// Calls configures how tasks are called. The zero value gives the old program's defaults.
type Calls struct {
	Tries       int           // for each check; 0: 2
	Timeout     time.Duration // of one try; 0: 3 s
	Pause       time.Duration // twice this before the second try, then doubled each time; 0: 1 s
	MaxChecks   int           // how often a failed task is called again; 0: 8
	Concurrency int           // concurrent calls; 0: 1000
}

func (c *Calls) setDefaults() {
	for _, d := range []struct {
		to    *int
		value int
	}{{&c.Tries, 2}, {&c.MaxChecks, 8}, {&c.Concurrency, 1000}} {
		if *d.to <= 0 {
			*d.to = d.value
		}
	}
	if c.Timeout <= 0 {
		c.Timeout = 3 * time.Second
	}
	if c.Pause <= 0 {
		c.Pause = time.Second
	}
	c.Tries = min(c.Tries, maxTries)
}

// maxTries limits the duration of one call, since its pauses grow so fast.
const maxTries = 10

// maxDuration returns how long all tries of one check can take.
func (c *Calls) maxDuration() time.Duration {
	d := time.Duration(c.Tries) * c.Timeout
	for try := 1; try < c.Tries; try++ {
		d += c.Pause << try
	}
	return d
}

// ttr returns the TTR of tasks in seconds: the duration of a check, and a little more for
// the store. It is not shorter than the first wait of the schedule.
func (c *Calls) ttr() uint32 {
	return uint32(max(c.maxDuration()+5*time.Second, nextCheck(1)) / time.Second)
}

// nextCheck returns how long after its n-th check, from 1, a failed task is called again.
func nextCheck(n int) time.Duration {
	switch {
	case n <= 3:
		return 15 * time.Second << (max(n, 1) - 1)
	case n <= 6:
		return 15 * time.Minute << (n - 4)
	case n <= 9:
		return 4 * time.Hour * time.Duration(n-6)
	}
	return 24 * time.Hour
}

// Serve makes a dispatcher call the tasks, until remove is called.
func (s *Service) Serve(d *webhook.Dispatcher) (remove func(), err error) {
	c := &caller{calls: s.config.Calls, network: d}
	return c.register(d)
}

func (c *caller) register(d *webhook.Dispatcher) (remove func(), err error) {
	end, err := d.Register(webhook.Source{
		Tubes: []string{Tube}, Concurrency: c.calls.Concurrency, Timeout: c.calls.maxDuration() + time.Second, Call: c.call,
	})
	if err != nil {
		return nil, fmt.Errorf("having the tasks of zywaited called: %w", err)
	}
	return func() {
		end()
		c.conns.close()
	}, nil
}

// caller calls tasks.
type caller struct {
	calls   Calls
	network network
	conns   conns
}

// network is the part of a webhook.Dispatcher that sources use.
type network interface {
	Do(*http.Request) (*http.Response, error)
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Through(ctx context.Context, target string, call func(context.Context) error) error
}

var errChecked = errors.New("the task was called as often as it may be")

// call calls a task that is due. A check during which the target's circuit breaker is open
// has failed like any other: the schedule is the task's own.
func (c *caller) call(ctx context.Context, j *webhook.Job) webhook.Outcome {
	began := time.Now()
	if int(j.Failures) > c.calls.MaxChecks {
		return webhook.Outcome{Verdict: webhook.Park, Result: webhook.Gone, Err: errChecked}
	}
	var t task
	if err := json.Unmarshal(j.Body, &t); err != nil {
		return webhook.Outcome{Verdict: webhook.Park, Result: webhook.Gone, Err: errors.New("the job is no task")}
	}
	req := &pb.CallBackReq{Uid: j.Key, Name: t.Name, Url: t.url(), Args: t.Args}
	called := false
	err := c.network.Through(ctx, t.target(), func(ctx context.Context) error {
		called = true
		return c.callWithRetries(ctx, &t, req)
	})
	after := webhook.Outcome{Verdict: webhook.Later, Result: resultOf(err), Err: err, Target: t.target()}
	after.Delay = max(nextCheck(int(j.Failures)+1)-time.Since(began), time.Second)
	if answer, ok := errors.AsType[*answerError](err); ok {
		after.Reason = strings.ToValidUTF8(answer.text, "")
	}
	switch {
	case err == nil:
		return webhook.Outcome{Verdict: webhook.Done, Result: webhook.Delivered}
	case errors.Is(err, webhook.ErrBreakerOpen):
		after.Result, after.Err = webhook.Skipped, nil
	case !called: // the target was busy with other calls all the time
		return webhook.Outcome{Verdict: webhook.GiveBack, Result: webhook.Skipped}
	}
	return after
}

// callWithRetries calls a task until a call succeeds, with a pause before each further try.
func (c *caller) callWithRetries(ctx context.Context, t *task, req *pb.CallBackReq) (err error) {
	for try := range c.calls.Tries {
		if try > 0 {
			select {
			case <-time.After(c.calls.Pause << try):
			case <-ctx.Done():
				return err
			}
		}
		if err = c.callOnce(ctx, t, req); err == nil {
			return nil
		}
	}
	return err
}

func (c *caller) callOnce(ctx context.Context, t *task, req *pb.CallBackReq) error {
	ctx, cancel := context.WithTimeout(ctx, c.calls.Timeout)
	defer cancel()
	if schemaOf(t.Schema) == byGRPC {
		return c.sendGRPC(ctx, t, req)
	}
	return c.sendHTTP(ctx, req)
}
