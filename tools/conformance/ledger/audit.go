package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	auditors   = 4   // connections of an audit
	peekBatch  = 100 // jobs that a connection peeks at with one packet
	drainBatch = 50  // jobs that a connection takes out with one packet
)

// Check peeks at every job that may exist, and at every one that was
// deleted since the last audit, without changes; then the load can continue. The
// error is that of Report, or says that ctx was done before there was an answer.
func (l *Ledger) Check(ctx context.Context) error {
	return l.conclude(l.check(ctx, func(e *entry) bool { return !e.verified }))
}

// Drain checks every job that ever existed, takes out and deletes every job, and
// checks again. A job that it has not found counts as lost, so no command may still be
// in progress, for example in a server that is slow or cut off.
func (l *Ledger) Drain(ctx context.Context) error {
	everything := func(*entry) bool { return true }
	if err := l.check(ctx, everything); err != nil {
		return l.conclude(err)
	}
	if err := l.drain(ctx); err != nil {
		return l.conclude(err)
	}
	if err := l.check(ctx, everything); err != nil {
		return l.conclude(err)
	}
	l.mu.Lock()
	for _, e := range l.entries {
		e.refused = e.refused || e.id == 0
	}
	l.mu.Unlock()
	return l.conclude(nil)
}

func (l *Ledger) conclude(err error) error {
	if err != nil {
		return fmt.Errorf("the audit came to no end: %w; so far: %v", err, l.Report())
	}
	return l.Report().Err()
}

// check peeks at the chosen jobs that have an id, and compares the number of all jobs.
func (l *Ledger) check(ctx context.Context, chosen func(*entry) bool) error {
	var jobs []*entry
	l.mu.Lock()
	for _, e := range l.ids {
		if e.id != 0 && e.key == "" && chosen(e) {
			jobs = append(jobs, e)
		}
	}
	l.mu.Unlock()
	share := (len(jobs) + auditors - 1) / auditors
	l.audit(func(c *client, number int) {
		mine := jobs[min(number*share, len(jobs)):min((number+1)*share, len(jobs))]
		for some := range slices.Chunk(mine, peekBatch) {
			for len(some) > 0 && c.connect(ctx) {
				if some = c.peekAll(some); len(some) > 0 {
					pause(ctx)
				}
			}
		}
	})
	l.checkKeyed(ctx, chosen)
	if ctx.Err() == nil {
		l.recount(ctx)
	}
	return ctx.Err()
}

// audit runs work on several connections concurrently.
func (l *Ledger) audit(work func(c *client, number int)) {
	var group sync.WaitGroup
	for i := range auditors {
		c := l.newClient()
		group.Go(func() {
			defer c.retire()
			work(c, i)
		})
	}
	group.Wait()
}

// peekAll checks some jobs, and returns those for which there was no answer.
func (c *client) peekAll(some []*entry) (left []*entry) {
	var requests []request
	sent := c.ledger.sending()
	for _, e := range some {
		requests = append(requests, request{text: fmt.Sprintf("peek %d\r\n", e.id), want: "FOUND", settle: func(r reply) {
			switch r.end {
			case done:
				c.ledger.seen(e.id, r.body, sent)
			case refused:
				c.ledger.missing(e)
			default:
				left = append(left, e)
			}
		}})
	}
	c.exchange(requests, nil)
	return left
}

// missing checks whether a job that does not exist should.
func (l *Ledger) missing(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.gone == 0 && e.open == 0 {
		l.fault(&l.report.Lost, "%v is not there, and no delete was sent", e)
	}
	e.verified = true
	l.markGone(e)
}

// recount compares the number of jobs on the stats pages with the ledger. It retries while jobs can be
// moving from one tube to another.
func (l *Ledger) recount(ctx context.Context) {
	for limit := time.Now().Add(l.config.Settle); ; sleep(ctx, settlePause) {
		reported, ok := l.live(ctx)
		if !ok || l.compareCount(reported, len(l.keyed) == 0 || time.Now().After(limit)) {
			return
		}
	}
}

// compareCount reports whether the number of jobs is possible. If it is not, and last is set, that is a fault.
func (l *Ledger) compareCount(reported int, last bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sure, perhaps := 0, 0
	for _, e := range l.entries {
		switch {
		case e.id != 0 && e.gone == 0:
			sure++
		case e.id == 0 && !e.refused:
			perhaps++
		}
	}
	l.report.Live = sure
	wrong := reported < sure || reported > sure+perhaps
	if wrong && last {
		l.fault(&l.report.Miscounted, "the pages count %d jobs, there are %d and perhaps %d more", reported, sure, perhaps)
	}
	return !wrong || last
}

// allTubes are the tubes of all kinds of clients.
func (l *Ledger) allTubes() []string { return slices.Concat(l.tubes, l.keyed) }

// live returns the number of jobs in the tubes; false if ctx is done.
func (l *Ledger) live(ctx context.Context) (n int, ok bool) {
	c := l.newClient()
	defer c.retire()
	for _, name := range l.allTubes() {
		jobs, end := 0, unknown
		for end == unknown {
			if !c.connect(ctx) {
				return 0, false
			}
			if jobs, end = c.statsTube(name); end == unknown {
				pause(ctx)
			}
		}
		n += jobs
	}
	return n, true
}

// drain empties the tubes. Jobs that are held by an instance that is not yet declared
// dead become ready later than others.
func (l *Ledger) drain(ctx context.Context) error {
	tubes := l.allTubes()
	vain := make([]int, len(tubes))
	for {
		n, ok := l.live(ctx)
		switch {
		case !ok:
			return ctx.Err()
		case n == 0:
			return nil
		}
		l.audit(func(c *client, number int) {
			for i := number; i < len(tubes); i += auditors {
				c.kickAll(ctx, tubes[i])
				vain[i] = c.empty(ctx, tubes[i], vain[i])
			}
		})
		if l.Report().Stuck > 0 {
			return errStuck
		}
		pause(ctx)
	}
}

// errStuck ends a Drain that would have no end.
var errStuck = errors.New("there are jobs that nobody gets")

// kickAll kicks the buried jobs of a tube and then the delayed ones.
func (c *client) kickAll(ctx context.Context, name string) {
	for c.connect(ctx) {
		switch n, end := c.kickTube(name, 1000); {
		case end == unknown:
			pause(ctx)
		case n == 0:
			return
		}
	}
}

// empty deletes the ready jobs of a tube. If it has limits, and jobs, it waits for the first one; it
// returns how many times it has waited in vain, with those before that.
func (c *client) empty(ctx context.Context, name string, vain int) int {
	if c.ledger.config.GroupLimit == 0 || !slices.Contains(c.ledger.keyed, name) {
		c.deleteAll(ctx, name, 0)
		return 0
	}
	n, end := 0, unknown
	if c.connect(ctx) {
		n, end = c.statsTube(name)
	}
	if end != done || n == 0 || c.deleteAll(ctx, name, longestWait) {
		return 0
	}
	if vain++; vain > 1 && c.connect(ctx) {
		if n, end = c.statsTube(name); end == done && n > 0 {
			c.ledger.stuck(name, n)
		}
	}
	return vain
}

// deleteAll deletes the ready jobs of a tube, many with one packet, and waits for the first one. It closes
// the connection, which watches only that tube. It returns whether there could have been a job.
func (c *client) deleteAll(ctx context.Context, name string, wait time.Duration) (any bool) {
	defer c.close()
	c.close()
	for c.connect(ctx) {
		requests := []request{
			{text: fmt.Sprintf("watch %s\r\n", name), want: "WATCHING", settle: none},
			{text: "ignore default\r\n", want: "WATCHING", settle: none},
		}
		var got []func() request
		unsure := false
		sent, since := c.ledger.sending(), time.Now()
		for range drainBatch {
			text := fmt.Sprintf("reserve-with-timeout %d\r\n", int(wait.Seconds()))
			requests = append(requests, request{text: text, want: "RESERVED", wait: wait, settle: func(r reply) {
				unsure = unsure || r.end == unknown
				if r.end == done {
					got = append(got, c.toDelete(r, name, sent, since))
				}
			}})
			wait = 0
		}
		c.exchange(requests, nil)
		any = any || unsure || len(got) > 0
		switch {
		case len(got) > 0 && c.conn != nil:
			var deletes []request
			for _, command := range got {
				deletes = append(deletes, command())
			}
			c.exchange(deletes, nil)
		case len(got) > 0 || unsure:
			pause(ctx)
		case len(got) == 0:
			return any
		}
	}
	return true
}

// toDelete checks a job that was delivered, records that it is about
// to be deleted, and returns the command.
func (c *client) toDelete(r reply, name string, sent uint64, since time.Time) func() request {
	text := fmt.Sprintf("delete %d\r\n", r.id)
	e := c.ledger.seen(r.id, r.body, sent)
	if e == nil {
		return func() request { return request{text: text, want: "DELETED", settle: none} }
	}
	c.handedOut(e, sent, &hold{addr: c.at, since: since, tube: name})
	return func() request {
		h := c.giveUp(e)
		c.ledger.deleting(e)
		return request{text: text, want: "DELETED", settle: func(r reply) { c.ledger.deletion(e, h, r.end) }}
	}
}
