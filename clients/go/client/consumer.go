package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Consumer reserves jobs on a connection of its own. Package worker is built on it; use it
// directly if you want to control each job yourself. Only one goroutine at a time can reserve.
//
// With redstalk, each job comes with a lease: it belongs to its [Job] value, not to the
// connection, and survives the end of it. With beanstalkd, jobs belong to the connection, and go
// back when it ends.
type Consumer struct {
	client *Client
	link   link
	tubes  []string
}

// The most jobs of one [Consumer.ReserveBatch].
const MaxBatch = 100

// Consume returns a consumer of these tubes; of default, if there are none. It connects with the first
// reserve.
func (c *Client) Consume(tubes ...string) *Consumer {
	s := &Consumer{client: c, link: link{client: c}}
	s.Watch(tubes...)
	return s
}

// Watch sets the tubes of later reserves.
func (s *Consumer) Watch(tubes ...string) {
	if s.tubes = tubes; len(tubes) == 0 {
		s.tubes = []string{defaultTube}
	}
}

// Reserve waits until a job is ready and reserves it. It waits up to the given time, in whole seconds
// rounded up, and then returns [ErrNoJob].
//
// If the context ends first, Reserve returns at once. A job that arrives meanwhile is given
// back in the background.
func (s *Consumer) Reserve(ctx context.Context, wait time.Duration) (*Job, error) {
	jobs, err := s.ReserveBatch(ctx, 1, wait)
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("reserve: %w", ErrNoJob)
	}
	if err != nil {
		return nil, err
	}
	return jobs[0], nil
}

// ReserveBatch reserves the jobs that are ready, at least one and at most limit or [MaxBatch]. If there is
// none, it waits for one, as Reserve does, and then returns no job and no error.
func (s *Consumer) ReserveBatch(ctx context.Context, limit int, wait time.Duration) ([]*Job, error) {
	conn, err := s.link.conn(ctx, new(time.Time))
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	calls, err := s.calls(conn, max(min(limit, MaxBatch), 1), seconds(wait))
	sent := time.Now()
	if err == nil {
		err = conn.send(ctx, calls...)
	}
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	var jobs []*Job
	for i, call := range calls {
		if err = conn.await(ctx, call); err == nil {
			jobs, err = s.take(conn, call, jobs, sent)
		}
		if err != nil {
			s.abandon(conn, calls[i:], sent)
			break
		}
	}
	if len(jobs) > 0 { // an error comes again, if it stays
		return jobs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	if calls[len(calls)-1].reply.Word == "DEADLINE_SOON" {
		return nil, fmt.Errorf("reserve: %w", ErrDeadlineSoon)
	}
	return nil, nil
}

// calls returns the commands that reserve up to n jobs: first those that make the connection watch
// the consumer's tubes.
func (s *Consumer) calls(conn *conn, n int, wait int64) ([]*call, error) {
	var all []*call
	for _, tube := range s.tubes {
		if err := checkTube(tube); err != nil {
			return nil, err
		}
		if !slices.Contains(conn.watched, tube) {
			all = append(all, lineCall("watch "+tube))
		}
	}
	for _, tube := range conn.watched {
		if !slices.Contains(s.tubes, tube) {
			all = append(all, lineCall("ignore "+tube))
		}
	}
	conn.watched = slices.Clone(s.tubes)
	switch {
	case conn.caps.has(Info):
		all = append(all, lineCall(fmt.Sprintf("reserve-batch %d %d lease info", n, wait)))
	case conn.caps.has(Leases):
		all = append(all, lineCall(fmt.Sprintf("reserve-lease %d", wait)))
		for range n - 1 {
			all = append(all, lineCall("reserve-lease 0"))
		}
	default:
		all = append(all, lineCall(fmt.Sprintf("reserve-with-timeout %d", wait)))
	}
	for _, call := range all {
		call.wait = time.Duration(wait) * time.Second
	}
	return all, nil
}

// take appends the jobs of a reply to a command sent at a time.
func (s *Consumer) take(conn *conn, call *call, jobs []*Job, sent time.Time) ([]*Job, error) {
	switch reply := &call.reply; reply.Word {
	case "RESERVED", "LEASED", "RESERVED_BATCH":
		var info []byte
		var stats *Stats
		for _, d := range reply.jobs {
			if !bytes.Equal(d.info, info) { // mostly all are equal, and reading one takes longer than the rest
				info = d.info
				stats, _ = parseInfo(info)
			}
			jobs = append(jobs, s.client.job(conn, d, sent, stats))
		}
	case "TIMED_OUT", "WATCHING", "DEADLINE_SOON":
	default:
		return jobs, reply.fail()
	}
	return jobs, nil
}

// job makes the job of a delivery. stats, if not nil, is what its info says.
func (c *Client) job(conn *conn, d delivery, sent time.Time, stats *Stats) *Job {
	j := &Job{ID: d.id, Body: d.body, Lease: d.lease, Reserved: sent, client: c, conn: conn}
	if stats != nil {
		own := *stats
		own.ID, own.Meta = d.id, maps.Clone(stats.Meta)
		j.stats = &own
	}
	return j
}

// drainTime is how long an abandoned connection has to deliver what is on its way.
const drainTime = time.Second

// abandon gives up a connection in the middle of a reserve: calls have no reply yet. In the background it
// ends the wait, and gives back the jobs that arrive nevertheless.
func (s *Consumer) abandon(conn *conn, calls []*call, sent time.Time) {
	s.link.live.Store(nil)
	if !s.client.spawn(func() { s.drain(conn, calls, sent) }) {
		conn.fail(ErrClosed)
	}
}

func (s *Consumer) drain(conn *conn, calls []*call, sent time.Time) {
	ctx, stop := context.WithTimeout(context.Background(), drainTime)
	defer stop()
	defer conn.fail(errAbandoned)
	conn.finish()
	var jobs []*Job
	for _, call := range calls {
		if conn.await(ctx, call) != nil {
			break
		}
		jobs, _ = s.take(conn, call, jobs, sent)
	}
	for _, job := range jobs {
		if job.Lease != "" { // others go back with the connection
			job.GiveBack(ctx)
		}
	}
}

var errAbandoned = errors.New("the reserve was given up")

// Close closes the connection. With beanstalkd, the jobs that were reserved on it go back.
func (s *Consumer) Close() {
	if conn := s.link.live.Swap(nil); conn != nil {
		conn.fail(errAbandoned)
	}
}
