package client

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// A Job is a job that a [Consumer] has reserved. Its methods can be called from any
// goroutine.
//
// Each returns [ErrNotFound] if the job is no longer reserved by this value: its TTR is over, or
// somebody has deleted it. A job with a lease is finished over the connections of the client. Then
// a command whose reply is lost is sent again; [ErrNotFound] can mean that the first one
// was carried out. Without a lease, the job goes back when its connection is lost.
type Job struct {
	ID       uint64
	Body     []byte
	Lease    string    // a token that grows with each delivery; empty with beanstalkd
	Reserved time.Time // when its reserve was sent; its TTR started then or later

	client *Client
	conn   *conn

	mu    sync.Mutex
	stats *Stats // nil before they were asked for
	saved []byte // the last checkpoint that was saved by this value; nil: none was
}

// Lost is closed when the connection ends to which the job belongs; nil for a job with a
// lease, which does not belong to one.
func (j *Job) Lost() <-chan struct{} {
	if j.Lease != "" {
		return nil
	}
	return j.conn.dead
}

// Delete deletes the job: it is done.
func (j *Job) Delete(ctx context.Context) error { return j.finish(ctx, "delete", "", "DELETED") }

// MaxResult is the longest result in bytes.
const MaxResult = 64 << 10

// Finish deletes the job with a result for those who wait for its end: it is done. If nothing is kept of the job, it is
// [ErrNotKept], and nothing happens.
func (j *Job) Finish(ctx context.Context, result []byte) error {
	if len(result) > MaxResult {
		return fmt.Errorf("finish: a result of %d bytes: %w", len(result), ErrTooBig)
	}
	if result == nil {
		result = noBody
	}
	return j.settle(ctx, settling{verb: "finish", args: fmt.Sprintf(" %d", len(result)), word: "FINISHED", body: result, needs: Results})
}

// Touch starts the TTR of the job again.
func (j *Job) Touch(ctx context.Context) error { return j.finish(ctx, "touch", "", "TOUCHED") }

// A FinishOption says more about why a job is released or buried. Servers without the capability reason get the command without it.
type FinishOption func(*finishOptions)

type finishOptions struct {
	reason    string
	noFailure bool
}

// Reason says why the job has failed. The server keeps the first 512 bytes until the next failure.
func Reason(text string) FinishOption {
	return func(o *finishOptions) { o.reason = beginning(text, maxReason) }
}

// NoFailure makes a release count neither as a failure nor as a delivery, so that it uses up none of the retries of the job.
func NoFailure() FinishOption { return func(o *finishOptions) { o.noFailure = true } }

// tagsOf returns the options as tags.
func tagsOf(opts []FinishOption) string {
	var o finishOptions
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case o.noFailure:
		return " failure:no"
	case o.reason != "":
		return " reason:" + quote(o.reason)
	}
	return ""
}

// Release gives the job back, with the priority that it has. It is ready again
// after the delay, in whole seconds rounded up. That is a failure: without a delay the server's retry waits apply, if
// there are any.
func (j *Job) Release(ctx context.Context, delay time.Duration, opts ...FinishOption) error {
	s, err := j.Stats(ctx)
	if err != nil {
		return err
	}
	return j.finish(ctx, "release", fmt.Sprintf(" %d %d", s.Priority, seconds(delay)), "RELEASED", opts...)
}

// Bury sets the job aside until it is kicked.
func (j *Job) Bury(ctx context.Context, opts ...FinishOption) error {
	s, err := j.Stats(ctx)
	if err != nil {
		return err
	}
	return j.finish(ctx, "bury", fmt.Sprintf(" %d", s.Priority), "BURIED", opts...)
}

// GiveBack makes the job ready again at once, which is no failure. Without a lease the connection of the job is closed, and
// all other jobs on it go back as well. With a lease it is a release with [NoFailure].
func (j *Job) GiveBack(ctx context.Context) error {
	if j.Lease != "" {
		return j.Release(ctx, 0, NoFailure())
	}
	j.conn.fail(errAbandoned)
	return nil
}

// finish settles the job by a command without a body.
func (j *Job) finish(ctx context.Context, verb, args, word string, opts ...FinishOption) error {
	return j.settle(ctx, settling{verb: verb, args: args, word: word, tags: tagsOf(opts), tagged: Reasons})
}

// A settling is a command about a reservation.
type settling struct {
	verb, args, word string
	tags             string
	tagged           Capability // without which the tags are left out
	body             []byte     // nil for none
	needs            Capability // empty for none
}

// settle sends a command about the reservation.
func (j *Job) settle(ctx context.Context, s settling) error {
	f := new(funcs)
	f.reply = func(reply *Reply) error { return reply.expect(s.word) }
	start := s.verb + " " + strconv.FormatUint(j.ID, 10)
	if j.Lease != "" {
		start = s.verb + "-lease " + strconv.FormatUint(j.ID, 10) + " " + j.Lease
	}
	f.call = func(conn *conn) (*call, error) {
		switch {
		case s.needs != "" && !conn.caps.has(s.needs):
			return nil, &UnsupportedError{Feature: string(s.needs)}
		case j.Lease != "" && !conn.caps.has(Leases):
			return nil, &UnsupportedError{Feature: "leases"}
		}
		line := start + s.args
		if conn.caps.has(s.tagged) {
			line += s.tags
		}
		call := lineCall(line)
		call.body = s.body
		return call, nil
	}
	r := request{name: s.verb, changes: true, repeat: j.Lease != "", command: f}
	if j.Lease == "" {
		if err := j.conn.request(ctx, &r); err != nil {
			return r.explain(err)
		}
		return nil
	}
	return j.client.do(ctx, &r)
}

// Stats returns what the server knew about the job when it was first asked, or when it
// delivered the job if it says so then. [Client.JobStats] asks again.
func (j *Job) Stats(ctx context.Context) (*Stats, error) {
	if s := j.Known(); s != nil {
		return s, nil
	}
	s, err := j.client.JobStats(ctx, j.ID)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats = s
	return s, nil
}

// Known returns what the server has said about the job so far, without asking; nil if nothing.
func (j *Job) Known() *Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}
