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

// Mover moves all jobs of a server, tube by tube, with several Migrators.
type Mover struct {
	// Connect creates a Migrator. It is called once for each.
	Connect func(ctx context.Context) (*Migrator, error)

	// Migrators is how many jobs can be moved at the same time; 0 counts as 1.
	Migrators int

	// Rate is the largest number of jobs per second; 0: no limit.
	Rate float64

	// WaitReserved makes Run wait for jobs that workers of the source have reserved, and end
	// only when nothing is left.
	WaitReserved bool

	// OnTube, if not nil, is called for each tube of the source, with its number of ready jobs.
	OnTube func(tube string, ready int)

	// OnMigrated, if not nil, is called for each job that was moved, by several goroutines.
	OnMigrated func(tube string, s State)

	limit     *rate.Limiter
	migrators []*Migrator
	moved     atomic.Uint64
}

// Left is what is left on the source when Run has ended.
type Left struct {
	Reserved int // by workers of the source
	Notes    int // of moves from other addresses, which have not ended

	// Less is how many jobs were moved without some of their tags, see Copy.Less, or without the tube
	// of which they are dead letters.
	Less uint64
}

// waitPause is how long Run waits before it checks again a server that has no available jobs.
const waitPause = 250 * time.Millisecond

// Run moves jobs until none is available any more, or until ctx ends. It also ends with the first
// error; the next Run completes the job that was being moved then. The number of jobs that it has
// moved is returned with every error too.
func (m *Mover) Run(ctx context.Context) (moved uint64, left Left, err error) {
	defer m.close()
	defer func() {
		for _, c := range m.migrators {
			left.Less += c.Less()
		}
	}()
	if err := m.connect(ctx); err != nil {
		return m.moved.Load(), left, err
	}
	for {
		before := m.moved.Load()
		reserved, err := m.Pass(ctx, m.migrators)
		left.Reserved = reserved
		if err != nil || ctx.Err() != nil {
			return m.moved.Load(), left, errors.Join(err, ctx.Err())
		}
		if m.moved.Load() > before {
			continue
		}
		if reserved == 0 || !m.WaitReserved {
			left.Notes, err = m.otherNotes(ctx)
			return m.moved.Load(), left, err
		}
		if err := pause(ctx, waitPause); err != nil {
			return m.moved.Load(), left, err
		}
	}
}

// connect creates the Migrators, completes with the first one what an earlier Run has left, and refuses to begin while batches
// are under way.
func (m *Mover) connect(ctx context.Context) error {
	m.migrators = nil
	for range max(m.Migrators, 1) {
		c, err := m.Connect(ctx)
		if err != nil {
			return err
		}
		m.migrators = append(m.migrators, c)
	}
	if err := m.migrators[0].Lock(ctx); err != nil {
		return err
	}
	n, err := m.migrators[0].Resume(ctx)
	m.moved.Add(uint64(n))
	if err != nil {
		return err
	}
	return m.migrators[0].CheckBatches()
}

func (m *Mover) close() {
	for _, c := range m.migrators {
		c.Close()
	}
}

// otherNotes returns the number of notes of other moves.
func (m *Mover) otherNotes(ctx context.Context) (n int, err error) {
	notes, err := m.migrators[0].target.Notes(ctx)
	for i := range notes {
		if notes[i].From != m.migrators[0].from {
			n++
		}
	}
	return n, err
}

// Pass moves the available jobs of each tube, with these Migrators, of which one must have the
// lock. It returns how many jobs workers of the source have reserved.
func (m *Mover) Pass(ctx context.Context, migrators []*Migrator) (reserved int, err error) {
	if m.limit == nil {
		m.limit = rate.NewLimiter(rate.Inf, 1)
		if m.Rate > 0 {
			m.limit.SetLimit(rate.Limit(m.Rate))
		}
	}
	old := migrators[0].source
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
		if m.OnTube != nil {
			m.OnTube(tube, ready)
		}
		if ready > 0 {
			err = m.moveReady(ctx, tube, paused, migrators)
		}
		if delayed > 0 && err == nil {
			err = m.moveAll(ctx, tube, Delayed, func(c *Migrator) (Outcome, error) { return c.Head(ctx, tube, Delayed) }, migrators[:1])
		}
		if buried > 0 && err == nil {
			err = m.moveAll(ctx, tube, Buried, func(c *Migrator) (Outcome, error) { return c.Head(ctx, tube, Buried) }, migrators[:1])
		}
		if err != nil {
			return reserved, fmt.Errorf("moving tube %s: %w", tube, err)
		}
	}
	return reserved, nil
}

// moveReady moves the ready jobs of a tube. A reserve gets no jobs of a paused tube, so they are peeked.
func (m *Mover) moveReady(ctx context.Context, tube string, paused bool, migrators []*Migrator) error {
	if paused {
		return m.moveAll(ctx, tube, Ready, func(c *Migrator) (Outcome, error) { return c.Head(ctx, tube, Ready) }, migrators[:1])
	}
	return m.moveAll(ctx, tube, Ready, func(c *Migrator) (Outcome, error) { return c.Next(ctx, tube) }, migrators)
}

// moveAll moves jobs with several Migrators until there are none. It returns the first error.
func (m *Mover) moveAll(ctx context.Context, tube string, s State, moveOne func(*Migrator) (Outcome, error), with []*Migrator) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, c := range with {
		all.Go(func() {
			if err := m.moveEach(ctx, tube, s, func() (Outcome, error) { return moveOne(c) }); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// moveEach moves jobs until there are none. A job whose move has begun when ctx ends is completed.
func (m *Mover) moveEach(ctx context.Context, tube string, s State, moveOne func() (Outcome, error)) error {
	for lost := 0; lost < maxLost; {
		if err := m.limit.Wait(ctx); err != nil {
			return err
		}
		done, err := moveOne()
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
		if m.OnMigrated != nil {
			m.OnMigrated(tube, s)
		}
	}
	return nil
}

// maxLost is how often in a row workers can be faster before the next tube gets its turn.
const maxLost = 100

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
