package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Mover carries all jobs of a server over, tube by tube, with several carriers.
type Mover struct {
	// Connect makes a carrier: it is called once for each, and again for none.
	Connect func(ctx context.Context) (*Carrier, error)

	// Carriers is how many jobs may be on their way at once; 0 counts as 1.
	Carriers int

	// Rate is how many jobs are carried in a second at most; 0: as many as can be.
	Rate float64

	// Stay has Run wait for what workers have reserved there, and end only when nothing is left.
	Stay bool

	// Seen, if not nil, is called with each tube there is there, and how many ready jobs it has.
	Seen func(tube string, ready int)

	// Carried, if not nil, is called for each job that was carried, by several goroutines.
	Carried func(tube string, s State)

	limit    *rate.Limiter
	carriers []*Carrier
	moved    atomic.Uint64
}

// Left is what is left there when Run has ended.
type Left struct {
	Reserved int // by workers there
	Notes    int // of moves from other addresses, which have not ended
}

// stayPause is how long Run waits before it looks again at a server where nothing can be had.
const stayPause = 250 * time.Millisecond

// Run carries jobs until there are none that can be had, or until ctx ends. It ends as well with the
// first error; the job that was being carried then is seen to by the next Run. The number
// of jobs that it has carried is returned with every error.
func (m *Mover) Run(ctx context.Context) (moved uint64, left Left, err error) {
	defer m.close()
	if err := m.connect(ctx); err != nil {
		return m.moved.Load(), left, err
	}
	for {
		before := m.moved.Load()
		reserved, err := m.Pass(ctx, m.carriers)
		left.Reserved = reserved
		if err != nil || ctx.Err() != nil {
			return m.moved.Load(), left, errors.Join(err, ctx.Err())
		}
		if m.moved.Load() > before {
			continue
		}
		if reserved == 0 || !m.Stay {
			left.Notes, err = m.otherNotes(ctx)
			return m.moved.Load(), left, err
		}
		if err := pause(ctx, stayPause); err != nil {
			return m.moved.Load(), left, err
		}
	}
}

// connect makes the carriers, and has the first one see to what an earlier Run has left.
func (m *Mover) connect(ctx context.Context) error {
	m.carriers = nil
	for range max(m.Carriers, 1) {
		c, err := m.Connect(ctx)
		if err != nil {
			return err
		}
		m.carriers = append(m.carriers, c)
	}
	if err := m.carriers[0].Lock(ctx); err != nil {
		return err
	}
	n, err := m.carriers[0].Resume(ctx)
	m.moved.Add(uint64(n))
	return err
}

func (m *Mover) close() {
	for _, c := range m.carriers {
		c.Close()
	}
}

// otherNotes is how many notes there are that this move has nothing to do with.
func (m *Mover) otherNotes(ctx context.Context) (n int, err error) {
	notes, err := m.carriers[0].here.Notes(ctx)
	for i := range notes {
		if notes[i].From != m.carriers[0].from {
			n++
		}
	}
	return n, err
}

// Pass carries what can be had in each tube, with these carriers, of which one has the lock. It
// returns how many jobs workers have reserved there.
func (m *Mover) Pass(ctx context.Context, carriers []*Carrier) (reserved int, err error) {
	if m.limit == nil {
		m.limit = rate.NewLimiter(rate.Inf, 1)
		if m.Rate > 0 {
			m.limit.SetLimit(rate.Limit(m.Rate))
		}
	}
	old := carriers[0].there
	tubes, err := old.tubes()
	if err != nil {
		return 0, fmt.Errorf("asking the old server for its tubes: %w", err)
	}
	for _, tube := range tubes {
		ready, delayed, buried, held, paused, err := old.tubeStats(tube)
		if err != nil {
			return reserved, fmt.Errorf("asking the old server about tube %s: %w", tube, err)
		}
		reserved += held
		if m.Seen != nil {
			m.Seen(tube, ready)
		}
		if ready > 0 {
			err = m.ready(ctx, tube, paused, carriers)
		}
		if delayed > 0 && err == nil {
			err = m.drain(ctx, tube, Delayed, func(c *Carrier) (Outcome, error) { return c.Head(ctx, tube, Delayed) }, carriers[:1])
		}
		if buried > 0 && err == nil {
			err = m.drain(ctx, tube, Buried, func(c *Carrier) (Outcome, error) { return c.Head(ctx, tube, Buried) }, carriers[:1])
		}
		if err != nil {
			return reserved, fmt.Errorf("moving tube %s: %w", tube, err)
		}
	}
	return reserved, nil
}

// ready carries the ready jobs of a tube. Those of a paused one no reserve gets.
func (m *Mover) ready(ctx context.Context, tube string, paused bool, carriers []*Carrier) error {
	if paused {
		return m.drain(ctx, tube, Ready, func(c *Carrier) (Outcome, error) { return c.Head(ctx, tube, Ready) }, carriers[:1])
	}
	return m.drain(ctx, tube, Ready, func(c *Carrier) (Outcome, error) { return c.Next(ctx, tube) }, carriers)
}

// drain has carriers carry jobs until there are none. It returns the first error.
func (m *Mover) drain(ctx context.Context, tube string, s State, one func(*Carrier) (Outcome, error), with []*Carrier) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, c := range with {
		all.Go(func() {
			if err := m.each(ctx, tube, s, func() (Outcome, error) { return one(c) }); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// each carries jobs until there are none. What is begun when ctx ends is carried to its end.
func (m *Mover) each(ctx context.Context, tube string, s State, one func() (Outcome, error)) error {
	for lost := 0; lost < maxLost; {
		if err := m.limit.Wait(ctx); err != nil {
			return err
		}
		done, err := one()
		switch {
		case err != nil:
			return err
		case done == None:
			return nil
		case done == Lost:
			lost++
			continue
		}
		lost = 0
		m.moved.Add(1)
		if m.Carried != nil {
			m.Carried(tube, s)
		}
	}
	return nil
}

// maxLost is how often in a row somebody else may be faster before the next tube has its turn.
const maxLost = 100

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
