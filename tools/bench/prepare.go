package main

import (
	"fmt"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// A fixture is the jobs and tubes that a run makes in addition to its load, and
// deletes at the end.
type fixture struct {
	target
	prefix string   // of every tube's name
	ids    []uint64 // jobs to delete by id
	put    int64    // jobs put by the fixture itself
}

// tubePrefix begins the names of all tubes.
const tubePrefix = "stalkbench-"

// newFixture names tubes after the time, so that no two runs on a server share
// one.
func newFixture(t target) *fixture {
	now := time.Now()
	return &fixture{target: t, prefix: fmt.Sprintf("%s%x-%x", tubePrefix, now.Unix(), now.Nanosecond())}
}

// tube names the i-th tube under load.
func (s *fixture) tube(i int) string { return fmt.Sprintf("%s-%d", s.prefix, i) }

// batchJobs and batchBytes limit one write of preparing and cleaning.
const (
	batchJobs  = 500
	batchBytes = 256 << 10
)

// prepare puts the idle tubes' jobs and the backlog.
func (s *fixture) prepare(l *load, body []byte) error {
	if l.IdleTubes == 0 && l.Backlog == 0 {
		return nil
	}
	c, err := s.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	idle := func(out []byte, i int) []byte {
		return appendPut(fmt.Appendf(out, "use %s-idle-%d\r\n", s.prefix, i), 0, body)
	}
	if err := s.putAll(c, l.IdleTubes, 2, idle); err != nil {
		return fmt.Errorf("putting a job into each idle tube: %w", err)
	}
	for i := range l.Tubes {
		n, tube := l.Backlog, s.prefix+"-backlog"
		if l.BacklogSame {
			n, tube = share(l.Backlog, l.Tubes, i), s.tube(i)
		} else if i > 0 {
			break
		}
		if err := c.UseOnly(tube); err != nil {
			return err
		}
		plain := func(out []byte, _ int) []byte { return appendPut(out, 0, body) }
		if err := s.putAll(c, n, 1, plain); err != nil {
			return fmt.Errorf("putting the backlog: %w", err)
		}
	}
	return nil
}

// share returns the i-th part of n cut into parts that differ by one at most.
func share(n, parts, i int) int { return n*(i+1)/parts - n*i/parts }

// putAll puts n jobs in batches. each appends the commands for one job, which have
// the given number of replies.
func (s *fixture) putAll(c *client.Conn, n, replies int, each func(out []byte, i int) []byte) error {
	take := func(reply *client.Reply) error {
		switch reply.Word {
		case client.Using:
		case client.Inserted:
			s.ids = append(s.ids, reply.ID)
			s.put++
		default:
			return reply.Unexpected()
		}
		return nil
	}
	var out []byte
	for i := 0; i < n; {
		out = out[:0]
		first := i
		for i < n && i-first < batchJobs && len(out) < batchBytes {
			out = each(out, i)
			i++
		}
		if err := c.Ask(out, (i-first)*replies, take); err != nil {
			return err
		}
	}
	return nil
}

// cleaners is the number of connections that delete jobs concurrently.
const cleaners = 4

// deleteAll deletes the fixture's jobs and returns how many existed.
func (s *fixture) deleteAll() (int64, error) {
	var group sync.WaitGroup
	counts, errs := make([]int64, cleaners), make([]error, cleaners)
	for i := range cleaners {
		from, to := len(s.ids)*i/cleaners, len(s.ids)*(i+1)/cleaners
		if from == to {
			continue
		}
		group.Go(func() {
			counts[i], errs[i] = s.deleteIDs(s.ids[from:to])
		})
	}
	group.Wait()
	var sum int64
	for i := range cleaners {
		if errs[i] != nil {
			return sum, fmt.Errorf("deleting jobs: %w", errs[i])
		}
		sum += counts[i]
	}
	return sum, nil
}

// deleteIDs deletes jobs by id on a new connection.
func (s *fixture) deleteIDs(ids []uint64) (int64, error) {
	c, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return deleteOn(c, ids)
}

// deleteOn deletes jobs by id and returns how many existed.
func deleteOn(c *client.Conn, ids []uint64) (int64, error) {
	var deleted int64
	take := func(reply *client.Reply) error {
		switch reply.Word {
		case client.Deleted:
			deleted++
		case client.NotFound:
		default:
			return reply.Unexpected()
		}
		return nil
	}
	var out []byte
	for len(ids) > 0 {
		n := min(len(ids), batchJobs)
		out = out[:0]
		for _, id := range ids[:n] {
			out = client.AppendDelete(out, id)
		}
		if err := c.Ask(out, n, take); err != nil {
			return deleted, err
		}
		ids = ids[n:]
	}
	return deleted, nil
}

// drain deletes every job of the first tubes under load, including delayed
// ones, and returns how many there were.
func (s *fixture) drain(tubes int) (int64, error) {
	var sum int64
	for i := range tubes {
		n, err := s.drainTube(s.tube(i))
		sum += n
		if err != nil {
			return sum, fmt.Errorf("draining a tube: %w", err)
		}
	}
	return sum, nil
}

// drainTube kicks delayed jobs, then reserves and deletes until a whole
// batch of reserves gets no job.
func (s *fixture) drainTube(tube string) (int64, error) {
	c, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.UseOnly(tube); err != nil {
		return 0, err
	}
	if err := c.Ask([]byte("kick 1000000000\r\n"), 1, client.Expect(client.Kicked)); err != nil {
		return 0, err
	}
	var reserves []byte
	const batch = 100
	for range batch {
		reserves = append(reserves, "reserve-with-timeout 0\r\n"...)
	}
	var sum int64
	var ids []uint64
	take := func(reply *client.Reply) error {
		switch reply.Word {
		case client.Reserved:
			ids = append(ids, reply.ID)
		case client.TimedOut, client.DeadlineSoon: // of a job taken just before, if its TTR is short
		default:
			return reply.Unexpected()
		}
		return nil
	}
	for {
		ids = ids[:0]
		if err := c.Ask(reserves, batch, take); err != nil || len(ids) == 0 {
			return sum, err
		}
		n, err := deleteOn(c, ids)
		if sum += n; err != nil {
			return sum, err
		}
	}
}
