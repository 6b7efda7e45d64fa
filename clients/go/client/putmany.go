package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A NewJob is a job for [Client.PutMany].
type NewJob struct {
	Tube    string
	Body    []byte
	Options []PutOption
}

// Stats returns what the server would say about the job with its first delivery. It is for tests without a server; what is wrong with the job is an error.
func (j NewJob) Stats() (*Stats, error) {
	var p put
	if err := p.set(j.Tube, j.Body, j.Options); err != nil {
		return nil, err
	}
	s := &Stats{Tube: j.Tube, State: "reserved", Priority: p.pri, TTR: max(p.ttr, time.Second), Deliveries: 1}
	for _, t := range p.tags {
		switch t.name {
		case "key":
			s.Key = t.value
		case "group":
			s.Group = unquote(t.value)
		case "batch":
			s.Batch = t.value
		case "trace":
			s.Trace = t.value
		case "retry":
			s.Retry = t.value
		case "meta":
			if s.Meta == nil {
				s.Meta = map[string]string{}
			}
			name, value, _ := strings.Cut(t.value, "=")
			s.Meta[name] = unquote(value)
		}
	}
	return s, nil
}

// A PutResult is what [Client.Put] would have returned for a job.
type PutResult struct {
	Receipt
	Err error
}

// PutMany puts any number of jobs. They are sent without waiting for each reply, and in their order, over one
// connection at a time; a job that has to be sent again can come later than others.
//
// Each job has a result, with the same index, since some can fail while others are put. The
// error is nil if all were put; otherwise it counts the failures and is the first of them.
func (c *Client) PutMany(ctx context.Context, jobs []NewJob) ([]PutResult, error) {
	results := make([]PutResult, 0, len(jobs))
	group := make([]manyPut, min(len(jobs), maxGroup))
	for len(jobs) > 0 {
		n := groupSize(jobs)
		results = c.putGroup(ctx, jobs[:n], group[:n], results)
		jobs = jobs[n:]
	}
	return results, failures(results)
}

// The most jobs that are sent before the first reply is awaited, and when their bodies have so many bytes.
const (
	maxGroup      = 1000
	maxGroupBytes = 256 << 10
)

func groupSize(jobs []NewJob) (n int) {
	for bytes := 0; n < min(len(jobs), maxGroup) && bytes < maxGroupBytes; n++ {
		bytes += len(jobs[n].Body)
	}
	return n
}

// A manyPut is one put of a group.
type manyPut struct {
	put
	call *call // nil if it was not sent
	err  error
}

// putGroup puts the jobs of a group, and appends their results.
func (c *Client) putGroup(ctx context.Context, jobs []NewJob, group []manyPut, results []PutResult) []PutResult {
	left := make([]*manyPut, 0, len(group))
	for i := range group {
		p := &group[i]
		if p.err = p.set(jobs[i].Tube, jobs[i].Body, jobs[i].Options); p.err == nil {
			left = append(left, p)
		}
	}
	var state attempts
	for len(left) > 0 {
		c.tryGroup(ctx, left, &state)
		if left = slices.DeleteFunc(left, func(p *manyPut) bool { return p.err == nil || !state.allow(ctx, &p.request, p.err) }); len(left) == 0 {
			break
		}
		if sleep(ctx, pause(state.lost)) != nil {
			break
		}
	}
	for i := range group {
		p := &group[i]
		result := PutResult{Receipt: p.receipt}
		if p.err != nil {
			result.Err = p.explain(p.err)
		}
		results = append(results, result)
	}
	return results
}

// tryGroup sends puts once, and sets their errors.
func (c *Client) tryGroup(ctx context.Context, group []*manyPut, state *attempts) {
	link := c.link()
	conn, err := link.conn(ctx, &state.limit)
	if err == nil {
		err = conn.sendGroup(ctx, group)
	}
	lost := false
	for _, p := range group {
		switch {
		case err != nil:
			p.err = err
		case p.call != nil:
			if p.err = conn.await(ctx, p.call); p.err == nil {
				if p.err = p.end(p.call); p.err == nil {
					conn.accepts.Store(true)
				}
			}
		}
		if p.err != nil && errors.Is(p.err, ErrDraining) && link.leave(conn) {
			p.err = &notSentError{p.err}
		}
		lost = lost || uncertain(p.err)
	}
	if lost {
		state.noteLost()
	}
}

// sendGroup sends the puts of a group that the server supports. Others get an error.
func (c *conn) sendGroup(ctx context.Context, group []*manyPut) error {
	calls := make([]*call, 0, len(group))
	for _, p := range group {
		if p.call, p.err = p.build(c); p.err == nil {
			calls = append(calls, p.call)
		}
	}
	return c.send(ctx, calls...)
}

// failures returns an error if some puts have failed.
func failures(results []PutResult) error {
	n, first := 0, error(nil)
	for i := range results {
		if err := results[i].Err; err != nil {
			if n++; first == nil {
				first = err
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d jobs: %w", n, len(results), first)
}
