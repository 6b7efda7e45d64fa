package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

const (
	// longTTR is longer than every test, so that a reservation ends with its
	// connection.
	longTTR = 10 * time.Minute

	// shortTTR is the TTR of a few jobs, so that some reservations expire.
	shortTTR = time.Second

	// mediumTTR is the TTR of a few jobs whose holders freeze: it ends
	// meanwhile.
	mediumTTR = 4 * time.Second

	kickEvery = 10 * time.Millisecond
)

// Run puts the servers under load until ctx is done. It can be called again, and then
// continues.
func (l *Ledger) Run(ctx context.Context) {
	var workers sync.WaitGroup
	start := func(n int, work func(context.Context, *client, int)) {
		for i := range n {
			c := l.newClient()
			workers.Go(func() {
				defer c.retire()
				work(ctx, c, i)
			})
		}
	}
	l.setLimits(ctx)
	start(l.config.Producers, l.produce)
	start(l.config.Consumers, l.consume)
	start(l.config.Kickers, l.kick)
	start(l.config.Bursters, l.burst)
	start(l.config.Leasers, l.lease)
	workers.Wait()
}

// produce puts jobs.
func (l *Ledger) produce(ctx context.Context, c *client, producer int) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !c.connect(ctx) {
			<-l.slots
			return
		}
		end, err := c.put(producer)
		if end == refused {
			l.config.Refused(err)
		}
		if end != done {
			pause(ctx)
		} else if l.config.Pace > 0 {
			sleep(ctx, l.config.Pace)
		}
	}
}

func (c *client) put(producer int) (outcome, error) {
	l := c.ledger
	pri, delay, ttr := c.jobTimes()
	e := l.begin(producer, c.bodySize(producer), ttr)
	body, name := l.body(e), l.tubes[c.rng.IntN(len(l.tubes))]
	var id uint64
	end, err := c.ask(0, func(conn *beanstalk.Conn) (err error) {
		id, err = beanstalk.NewTube(conn, name).Put(body, pri, delay, ttr)
		return err
	})
	l.inserted(e, id, end)
	return end, err
}

// jobTimes draws the delay and TTR of a job.
func (c *client) jobTimes() (pri uint32, delay, ttr time.Duration) {
	pri, ttr = c.rng.Uint32N(100), longTTR
	if c.rng.IntN(20) == 0 {
		delay = time.Second
	}
	switch n := c.rng.IntN(40); {
	case n < 2:
		ttr = shortTTR
	case n < 4 && c.ledger.config.MaxFreeze > 0:
		ttr = mediumTTR
	}
	return pri, delay, ttr
}

// bodySize draws the size of the next body of a producer, without its first line.
func (c *client) bodySize(producer int) int {
	config := &c.ledger.config
	usual := config.MinBody + c.rng.IntN(config.MaxBody-config.MinBody+1)
	if config.LargestBody == 0 {
		return usual
	}
	most := config.LargestBody - c.ledger.headSize(producer)
	switch n := c.rng.IntN(1000); {
	case n < 2:
		return most
	case n < 12:
		return min(most, usual+c.rng.IntN(64<<10))
	}
	return min(most, usual)
}

// consume reserves jobs and does random things with them.
func (l *Ledger) consume(ctx context.Context, c *client, _ int) {
	nap := l.newNap(c.rng)
	for c.connect(ctx) {
		wait := time.Duration(c.rng.IntN(2)) * time.Second
		id, e, end := c.reserve(ctx, wait)
		if end != done {
			pause(ctx)
			continue
		}
		if c.ledger.config.Hold > 0 {
			sleep(ctx, time.Duration(c.rng.Int64N(int64(c.ledger.config.Hold))))
		}
		if nap.due() {
			nap.take(ctx, l)
		}
		c.dispose(id, e)
		if len(c.unfinished) > 0 && c.rng.IntN(50) == 0 {
			oldest := c.unfinished[0]
			c.unfinished = c.unfinished[1:]
			c.delete(oldest.id, oldest)
		}
	}
}

// reserve reserves a job. When ctx is done, it closes the connection rather than wait.
func (c *client) reserve(ctx context.Context, wait time.Duration) (id uint64, e *entry, end outcome) {
	own := c.wire
	defer context.AfterFunc(ctx, func() {
		c.releaseAll(true)
		own.interrupt()
	})()
	var body []byte
	sent, since := c.ledger.sending(), time.Now()
	end, _ = c.ask(wait, func(conn *beanstalk.Conn) (err error) {
		id, body, err = beanstalk.NewTubeSet(conn, c.ledger.tubes...).Reserve(wait)
		return err
	})
	if end == done {
		e = c.ledger.seen(id, body, sent)
		c.handedOut(e, sent, &hold{addr: c.at, since: since})
	}
	return id, e, end
}

// dispose does something with a job that was reserved.
func (c *client) dispose(id uint64, e *entry) {
	release := func(conn *beanstalk.Conn, delay time.Duration) error {
		return conn.Release(id, c.rng.Uint32N(100), delay)
	}
	switch n := c.rng.IntN(100); {
	case e == nil || n < 55:
		c.delete(id, e)
	case n < 60:
		if c.touch(id, e) == done {
			c.delete(id, e)
		}
	case n < 80:
		c.without(e, func(conn *beanstalk.Conn) error { return release(conn, 0) })
	case n < 85:
		c.without(e, func(conn *beanstalk.Conn) error { return release(conn, time.Second) })
	case n < 98:
		if c.without(e, func(conn *beanstalk.Conn) error { return conn.Bury(id, c.rng.Uint32N(100)) }) == done {
			c.ledger.lastBuried.Store(id)
		}
	case n < 99: // keeps it for a while
		c.unfinished = append(c.unfinished, e)
	default:
		c.close()
	}
}

// without executes a command that gives up a job that the client has
// reserved.
func (c *client) without(e *entry, exchange func(*beanstalk.Conn) error) outcome {
	return c.holding(e, c.giveUp(e), exchange)
}

// touch restarts the TTR of a job.
func (c *client) touch(id uint64, e *entry) outcome {
	c.ledger.mu.Lock()
	h := c.holds[e]
	c.ledger.mu.Unlock()
	return c.holding(e, h, func(conn *beanstalk.Conn) error { return conn.Touch(id) })
}

// holding executes a command that only the holder may send. h is the client's
// reservation.
func (c *client) holding(e *entry, h *hold, exchange func(*beanstalk.Conn) error) outcome {
	end, _ := c.ask(0, exchange)
	if end == refused {
		c.ledger.denied(e, h)
	}
	return end
}

// delete deletes a job; e is nil if it is not in the ledger.
func (c *client) delete(id uint64, e *entry) {
	var h *hold
	if e != nil {
		h = c.giveUp(e)
		c.ledger.deleting(e)
	}
	end, _ := c.ask(0, func(conn *beanstalk.Conn) error { return conn.Delete(id) })
	if e != nil {
		c.ledger.deletion(e, h, end)
	}
}

// kick kicks buried jobs now and then: some, or one.
func (l *Ledger) kick(ctx context.Context, c *client, _ int) {
	now := time.NewTicker(kickEvery)
	defer now.Stop()
	for c.connect(ctx) {
		if id := l.lastBuried.Swap(0); id != 0 && c.rng.IntN(2) == 0 {
			c.ask(0, func(conn *beanstalk.Conn) error { return conn.KickJob(id) })
		} else {
			c.kickTube(l.tubes[c.rng.IntN(len(l.tubes))], 1+c.rng.IntN(20))
		}
		select {
		case <-now.C:
		case <-ctx.Done():
		}
	}
}

func (c *client) kickTube(name string, bound int) (n int, end outcome) {
	end, _ = c.ask(0, func(conn *beanstalk.Conn) (err error) {
		n, err = beanstalk.NewTube(conn, name).Kick(bound)
		return err
	})
	return n, end
}
