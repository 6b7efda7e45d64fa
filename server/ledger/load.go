package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

const (
	// longTTR outlives every test, so that a reservation ends with its
	// connection.
	longTTR = 10 * time.Minute

	// shortTTR is that of a few jobs, so that some reservations run out.
	shortTTR = time.Second

	kickEvery = 10 * time.Millisecond
)

// Run puts the servers under load until ctx ends. It may be called again, and
// goes on where it was.
func (l *Ledger) Run(ctx context.Context) {
	var workers sync.WaitGroup
	begin := func(n int, work func(context.Context, *client, int)) {
		for i := range n {
			c := l.newClient()
			workers.Go(func() {
				defer c.retire()
				work(ctx, c, i)
			})
		}
	}
	begin(l.config.Producers, l.produce)
	begin(l.config.Consumers, l.consume)
	begin(l.config.Kickers, l.kick)
	workers.Wait()
}

// produce puts jobs.
func (l *Ledger) produce(ctx context.Context, c *client, producer int) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if !c.connect(ctx) {
			<-l.places
			return
		}
		end, err := c.put(producer)
		if end == refused {
			l.config.Refused(err)
		}
		if end != done {
			pause(ctx)
		}
	}
}

func (c *client) put(producer int) (outcome, error) {
	l := c.ledger
	e := l.begin(producer, l.config.MinBody+c.rng.IntN(l.config.MaxBody-l.config.MinBody+1))
	body, name := l.body(e), l.tubes[c.rng.IntN(len(l.tubes))]
	pri, delay, ttr := c.rng.Uint32N(100), time.Duration(0), longTTR
	if c.rng.IntN(20) == 0 {
		delay = time.Second
	}
	if c.rng.IntN(20) == 0 {
		ttr = shortTTR
	}
	var id uint64
	end, err := c.ask(0, func(conn *beanstalk.Conn) (err error) {
		id, err = beanstalk.NewTube(conn, name).Put(body, pri, delay, ttr)
		return err
	})
	l.inserted(e, id, end)
	return end, err
}

// consume reserves jobs and does with them what comes to mind.
func (l *Ledger) consume(ctx context.Context, c *client, _ int) {
	for c.connect(ctx) {
		wait := time.Duration(c.rng.IntN(2)) * time.Second
		id, e, end := c.reserve(ctx, wait)
		if end == done {
			c.dispose(id, e)
		} else {
			pause(ctx)
		}
	}
}

// reserve takes a job. The end of ctx cuts the connection rather than wait.
func (c *client) reserve(ctx context.Context, wait time.Duration) (id uint64, e *entry, end outcome) {
	defer context.AfterFunc(ctx, c.wire.interrupt)()
	var body []byte
	sent := c.ledger.sending()
	end, _ = c.ask(wait, func(conn *beanstalk.Conn) (err error) {
		id, body, err = beanstalk.NewTubeSet(conn, c.ledger.tubes...).Reserve(wait)
		return err
	})
	if end == done {
		e = c.ledger.sighted(id, body, sent)
	}
	return id, e, end
}

// dispose does something with a job that was reserved.
func (c *client) dispose(id uint64, e *entry) {
	switch n := c.rng.IntN(100); {
	case e == nil || n < 55:
		c.delete(id, e)
	case n < 60:
		if c.holding(func(conn *beanstalk.Conn) error { return conn.Touch(id) }) == done {
			c.delete(id, e)
		}
	case n < 80:
		c.holding(func(conn *beanstalk.Conn) error { return conn.Release(id, c.rng.Uint32N(100), 0) })
	case n < 85:
		c.holding(func(conn *beanstalk.Conn) error { return conn.Release(id, c.rng.Uint32N(100), time.Second) })
	case n < 98:
		if c.holding(func(conn *beanstalk.Conn) error { return conn.Bury(id, c.rng.Uint32N(100)) }) == done {
			c.ledger.lastBuried.Store(id)
		}
	case n < 99: // keeps it
	default:
		c.close()
	}
}

// holding carries out a command on a job that the client has reserved.
func (c *client) holding(exchange func(*beanstalk.Conn) error) outcome {
	end, _ := c.ask(0, exchange)
	if end == refused {
		c.ledger.overtaken()
	}
	return end
}

// delete deletes a job; e is nil if it is not in the books.
func (c *client) delete(id uint64, e *entry) {
	if e != nil {
		c.ledger.deleting(e)
	}
	end, _ := c.ask(0, func(conn *beanstalk.Conn) error { return conn.Delete(id) })
	if e != nil {
		c.ledger.deletion(e, end)
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
