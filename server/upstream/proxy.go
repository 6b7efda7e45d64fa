package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"redstalk/protocol/client"
	"redstalk/protocol/migrate"
	"redstalk/server/queue"
	"redstalk/storage/telemetry"
)

// Config says which old server is behind this one.
type Config struct {
	Addr string  // of the old server: HOST:PORT or unix:PATH
	Rate float64 // limit of the jobs per second that are migrated although nobody waits for them; 0: no limit
	Log  *slog.Logger

	pause time.Duration // for tests: used instead of pollEvery unless it is 0
}

const (
	// wantedMigrators is the number of migrators for jobs that somebody waits for, and
	// backgroundMigrators that for all other jobs.
	wantedMigrators     = 4
	backgroundMigrators = 2

	// pollEvery is how often the old server is polled while it has no jobs to migrate.
	pollEvery = 200 * time.Millisecond

	// retryEvery is how long after a failure the old server is tried again.
	retryEvery = time.Second

	// replyTimeout limits the time in which the old server must reply.
	replyTimeout = 10 * time.Second

	// maxWanted limits how many jobs of a tube are wanted at a time.
	maxWanted = 1000
)

// Proxy migrates the jobs of an old server to this one. Wanted may be called by any
// goroutine.
type Proxy struct {
	config   Config
	queue    *queue.Queue
	throttle telemetry.Throttle
	stop     context.CancelFunc
	ended    chan struct{}

	mu     sync.Mutex
	ready  map[string]bool // tubes that have ready jobs on the old server, as far as is known
	wanted map[string]int  // tubes, and how many of their jobs somebody waits for
	order  []string        // wanted tubes, each once
	wake   chan struct{}   // capacity 1: something is wanted
	empty  bool            // the operator was informed that nothing is left,
	less   uint64          // and that so many jobs have lost some tags
}

// New returns a Proxy, which does nothing before Start.
func New(c Config) *Proxy {
	if c.pause == 0 {
		c.pause = pollEvery
	}
	return &Proxy{
		config: c, throttle: telemetry.Throttle{Clock: time.Now}, ended: make(chan struct{}),
		ready: make(map[string]bool), wanted: make(map[string]int), wake: make(chan struct{}, 1),
	}
}

// Start begins to migrate jobs into a queue.
func (f *Proxy) Start(q *queue.Queue) {
	f.queue = q
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.ended)
		f.run(ctx)
	}()
}

// Stop ends that, after the jobs that are being migrated have arrived, or when ctx ends: then
// the old server has not answered. The queue must still be open.
func (f *Proxy) Stop(ctx context.Context) error {
	f.stop()
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wanted records that somebody wants a job of one of these tubes, and none is here.
func (f *Proxy) Wanted(tubes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range tubes {
		if !f.ready[name] || f.wanted[name] >= maxWanted {
			continue
		}
		if f.wanted[name]++; f.wanted[name] == 1 {
			f.order = append(f.order, name)
		}
		f.signal()
	}
}

// signal wakes a migrator for wanted jobs.
func (f *Proxy) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// next returns a tube of which a job is wanted; "" if there is none.
func (f *Proxy) next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.order) == 0 {
		return ""
	}
	name := f.order[0]
	f.order = f.order[1:]
	if f.wanted[name]--; f.wanted[name] > 0 {
		f.order = append(f.order, name)
	} else {
		delete(f.wanted, name)
	}
	if len(f.order) > 0 {
		f.signal()
	}
	return name
}

// setReady records whether a tube has ready jobs on the old server.
func (f *Proxy) setReady(name string, ready int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ready > 0 {
		f.ready[name] = true
	} else {
		delete(f.ready, name)
	}
}

// run migrates jobs until ctx ends, and starts again after every failure.
func (f *Proxy) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.migrateAll(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, migrate.ErrBusy):
			f.throttle.Warn(f.config.Log, "another process migrates the jobs of the old server", "addr", f.config.Addr)
		default:
			f.throttle.Warn(f.config.Log, "the jobs of the old server cannot be brought over now", "addr", f.config.Addr, "err", err.Error())
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		}
	}
}

// connect connects a migrator to the old server.
func (f *Proxy) connect() (*migrate.Migrator, error) {
	conn, err := client.Dial(f.config.Addr, replyTimeout)
	if err != nil {
		return nil, err
	}
	conn.Timeout = replyTimeout
	c, err := migrate.New(conn, f.config.Addr, newDestination(f.queue))
	if err != nil {
		conn.Close()
	}
	return c, err
}

// migrateAll migrates jobs until ctx ends or something fails.
func (f *Proxy) migrateAll(ctx context.Context) error {
	var migrators []*migrate.Migrator
	defer func() {
		for _, c := range migrators {
			c.Close()
		}
	}()
	for range wantedMigrators + backgroundMigrators {
		c, err := f.connect()
		if err != nil {
			return err
		}
		migrators = append(migrators, c)
	}
	if err := migrators[0].Lock(ctx); err != nil {
		return err
	}
	if _, err := migrators[0].Resume(ctx); err != nil {
		return err
	}
	if err := migrators[0].CheckBatches(); err != nil {
		return err
	}
	f.config.Log.Info("bringing over the jobs of the old server", "addr", f.config.Addr)
	return f.runMigrators(ctx, migrators[:backgroundMigrators], migrators[backgroundMigrators:])
}

// runMigrators makes some migrators migrate what is wanted, and the others all the rest.
func (f *Proxy) runMigrators(ctx context.Context, others, wanted []*migrate.Migrator) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, c := range wanted {
		all.Go(func() { stop(f.migrateWanted(ctx, c)) })
	}
	all.Go(func() { stop(f.migrateRest(ctx, others)) })
	all.Wait()
	return context.Cause(ctx)
}

// migrateWanted migrates jobs that somebody waits for.
func (f *Proxy) migrateWanted(ctx context.Context, c *migrate.Migrator) error {
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		for name := f.next(); name != "" && ctx.Err() == nil; name = f.next() {
			done, err := c.Next(ctx, name)
			if err != nil {
				return fmt.Errorf("tube %s: %w", name, err)
			}
			if done == migrate.None {
				f.setReady(name, 0)
			}
		}
	}
}

// migrateRest goes through all tubes repeatedly.
func (f *Proxy) migrateRest(ctx context.Context, migrators []*migrate.Migrator) error {
	moved := 0
	var mu sync.Mutex
	m := &migrate.Mover{Rate: f.config.Rate, OnTube: f.setReady, OnMigrated: func(string, migrate.State) {
		mu.Lock()
		defer mu.Unlock()
		moved++
	}}
	for {
		before := moved
		reserved, err := m.Pass(ctx, migrators)
		if err != nil {
			return err
		}
		if moved > before {
			continue
		}
		f.logEmpty(reserved, migrators)
		select {
		case <-time.After(f.config.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// logEmpty logs, once, that the old server has no jobs left, and how many of those that these migrators
// have moved came without some of their tags.
func (f *Proxy) logEmpty(reserved int, migrators []*migrate.Migrator) {
	f.mu.Lock()
	defer f.mu.Unlock()
	less := uint64(0)
	for _, c := range migrators {
		less += c.Less()
	}
	if less > f.less {
		f.config.Log.Warn("jobs have lost their key, which another job has, or the tube of which they are dead letters", "jobs", less)
	}
	f.less = less
	if reserved == 0 && !f.empty {
		f.config.Log.Warn("the old server has no jobs left: when no client uses it any more, stop it, and start this one without --upstream", "addr", f.config.Addr)
	}
	f.empty = reserved == 0
}
