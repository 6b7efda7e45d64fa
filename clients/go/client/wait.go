package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// This file waits for the ends of jobs. A wait-job that blocks has a connection for itself, so the waits of a client take turns on
// a few such connections, the lanes. In between each one asks again, without blocking, over the connections that all calls share.

// lanes is how many waits of a client can block at a time.
const lanes = 4

// waits is what the waits of a client share.
type waits struct {
	count atomic.Int64 // that are under way
	lanes chan *link   // those that are free
}

const (
	longestBlock = 30   // seconds; 1 while there are more waits than lanes
	asksASecond  = 2000 // of all waits of a client that do not block
	firstAsk     = 5 * time.Millisecond
	longestAsk   = time.Second
)

// Wait waits until a job has ended that was put with [Keep], or whose tube has a policy with keep, and returns what became of it. A
// job that was buried has not ended, but Wait returns it as [Parked], since it does not go on by itself.
//
// Any number of goroutines can wait, for any number of jobs: a client needs four connections more for that. A wait goes on when
// connections are lost and servers restart. Its error is [ErrNotKept], [ErrNotFound] if there is neither the job nor its record,
// [ErrUnavailable], or that of the context.
func (c *Client) Wait(ctx context.Context, id uint64) (*Ended, error) {
	c.waits.count.Add(1)
	defer c.waits.count.Add(-1)
	for pause := firstAsk; ; pause = min(2*pause, longestAsk) {
		ended, err := c.askEnd(ctx, id)
		if ended != nil || err != nil {
			return ended, err
		}
		if ended, err = c.awaitEnd(ctx, id, pause); ended != nil || err != nil {
			return ended, err
		}
	}
}

// askEnd asks whether a job has ended; neither a record nor an error: it has not, or that is not known.
func (c *Client) askEnd(ctx context.Context, id uint64) (ended *Ended, err error) {
	r := waitJob(id, 0, &ended)
	err = c.do(ctx, r)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, fmt.Errorf("wait-job: %w", context.Cause(ctx))
	case uncertain(err):
		return nil, nil
	}
	return ended, err
}

// awaitEnd waits for a time, or until a lane is free, and then for the end of the job there.
func (c *Client) awaitEnd(ctx context.Context, id uint64, pause time.Duration) (*Ended, error) {
	pause = max(pause, time.Duration(c.waits.count.Load())*time.Second/asksASecond)
	timer := time.NewTimer(pause/2 + rand.N(pause/2))
	defer timer.Stop()
	free := c.waits.lanes
	if blockFor(ctx) == 0 {
		free = nil
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait-job: %w", context.Cause(ctx))
	case lane := <-free:
		defer func() { free <- lane }()
		return c.block(ctx, lane, id)
	}
	return nil, nil
}

// blockFor returns for how many seconds a wait can block.
func blockFor(ctx context.Context) int {
	if end, ok := ctx.Deadline(); ok {
		return min(int(time.Until(end)/time.Second), longestBlock)
	}
	return longestBlock
}

// block waits for the end of a job on a lane. What goes wrong there shows again when the wait asks.
func (c *Client) block(ctx context.Context, lane *link, id uint64) (ended *Ended, err error) {
	seconds := blockFor(ctx)
	if c.waits.count.Load() > lanes {
		seconds = min(seconds, 1)
	}
	conn, err := lane.conn(ctx, new(time.Time))
	if err != nil {
		return nil, nil
	}
	err = conn.request(ctx, waitJob(id, seconds, &ended))
	if ctx.Err() != nil && err != nil {
		conn.fail(errAbandoned) // the next wait of the lane would be held up
	}
	if err != nil {
		return nil, nil
	}
	return ended, nil
}

// waitJob returns the request that sets ended if the job has ended.
func waitJob(id uint64, seconds int, ended **Ended) *request {
	f := new(funcs)
	f.call = func(conn *conn) (*call, error) {
		if err := conn.caps.need(Results, "results"); err != nil {
			return nil, err
		}
		call := lineCall(fmt.Sprintf("wait-job %d %d", id, seconds))
		call.wait = time.Duration(seconds) * time.Second
		return call, nil
	}
	f.reply = func(r *Reply) (err error) {
		switch r.Word {
		case "TIMED_OUT":
		case "ENDED":
			*ended, err = readEnded(r)
		default:
			err = r.fail()
		}
		return err
	}
	return &request{name: "wait-job", repeat: true, command: f}
}

// Decode reads the result, which is JSON, into *v. If the job was not done, the error is an [*EndedError].
func (e *Ended) Decode(v any) error {
	if e.How != Done {
		return &EndedError{e}
	}
	if len(e.Result) == 0 {
		return errNoResult
	}
	return json.Unmarshal(e.Result, v)
}

var errNoResult = errors.New("the job has no result")

// An EndedError says that a job has ended otherwise than done.
type EndedError struct{ *Ended }

func (e *EndedError) Error() string {
	text := fmt.Sprintf("job %d is %s", e.ID, e.How)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}
