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

// Config says which server is behind this one.
type Config struct {
	Addr string  // of the old server: HOST:PORT or unix:PATH
	Rate float64 // how many jobs a second come over that nobody waits for, at most; 0: as many as can be
	Log  *slog.Logger

	pause time.Duration // for tests: used instead of lookEvery unless it is 0
}

const (
	// wantedCarriers and otherCarriers are how many carriers bring jobs that somebody waits for, and
	// others.
	wantedCarriers = 4
	otherCarriers  = 2

	// lookEvery is how often the old server is looked at when there is nothing to be had.
	lookEvery = 200 * time.Millisecond

	// tryEvery is how often it is tried again when it has failed.
	tryEvery = time.Second

	// patience bounds what the old server may take for an answer.
	patience = 10 * time.Second

	// mostWanted is how many jobs of a tube may be wanted at a time.
	mostWanted = 1000
)

// Front brings the jobs of an old server over. Wanted may be called from any goroutine.
type Front struct {
	config Config
	queue  *queue.Queue
	said   telemetry.Log
	stop   context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	ready  map[string]bool // tubes that have ready jobs there, as far as is known
	wanted map[string]int  // tubes, and how many jobs of theirs somebody waits for
	order  []string        // wanted tubes, each once
	more   chan struct{}   // has one when something is wanted
	empty  bool            // the operator was told that there is nothing left
}

// New returns a Front, which does nothing before Start.
func New(c Config) *Front {
	if c.pause == 0 {
		c.pause = lookEvery
	}
	return &Front{
		config: c, said: telemetry.Log{Clock: time.Now}, ended: make(chan struct{}),
		ready: make(map[string]bool), wanted: make(map[string]int), more: make(chan struct{}, 1),
	}
}

// Start begins to bring jobs into a queue.
func (f *Front) Start(q *queue.Queue) {
	f.queue = q
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.ended)
		f.run(ctx)
	}()
}

// Stop ends that, when the jobs are here that are being carried. The queue must still be open.
func (f *Front) Stop() {
	f.stop()
	<-f.ended
}

// Wanted records that somebody would have a job of one of these tubes, and there is none here.
func (f *Front) Wanted(tubes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range tubes {
		if !f.ready[name] || f.wanted[name] >= mostWanted {
			continue
		}
		if f.wanted[name]++; f.wanted[name] == 1 {
			f.order = append(f.order, name)
		}
		f.call()
	}
}

// call has a carrier look at what is wanted.
func (f *Front) call() {
	select {
	case f.more <- struct{}{}:
	default:
	}
}

// next returns a tube of which a job is wanted; "" if there is none.
func (f *Front) next() string {
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
		f.call()
	}
	return name
}

// note notes whether a tube has ready jobs there.
func (f *Front) note(name string, ready int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ready > 0 {
		f.ready[name] = true
	} else {
		delete(f.ready, name)
	}
}

// run brings jobs until ctx ends, and begins anew whenever something has failed.
func (f *Front) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.carryAll(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, migrate.ErrBusy):
			f.said.Warn(f.config.Log, "another process brings over the jobs of the server behind", "addr", f.config.Addr)
		default:
			f.said.Warn(f.config.Log, "the jobs of the server behind cannot be brought over now", "addr", f.config.Addr, "err", err.Error())
		}
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
		}
	}
}

// connect makes a carrier.
func (f *Front) connect() (*migrate.Carrier, error) {
	conn, err := client.Dial(f.config.Addr, patience)
	if err != nil {
		return nil, err
	}
	conn.Patience = patience
	c, err := migrate.New(conn, f.config.Addr, newHere(f.queue))
	if err != nil {
		conn.Close()
	}
	return c, err
}

// carryAll brings jobs until ctx ends or something fails.
func (f *Front) carryAll(ctx context.Context) error {
	var carriers []*migrate.Carrier
	defer func() {
		for _, c := range carriers {
			c.Close()
		}
	}()
	for range wantedCarriers + otherCarriers {
		c, err := f.connect()
		if err != nil {
			return err
		}
		carriers = append(carriers, c)
	}
	if err := carriers[0].Lock(ctx); err != nil {
		return err
	}
	if _, err := carriers[0].Resume(ctx); err != nil {
		return err
	}
	f.config.Log.Info("bringing over the jobs of the server behind", "addr", f.config.Addr)
	return f.work(ctx, carriers[:otherCarriers], carriers[otherCarriers:])
}

// work has some carriers bring what is wanted, and the others all the rest.
func (f *Front) work(ctx context.Context, others, wanted []*migrate.Carrier) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	for _, c := range wanted {
		all.Go(func() { stop(f.bringWanted(ctx, c)) })
	}
	all.Go(func() { stop(f.bringOthers(ctx, others)) })
	all.Wait()
	return context.Cause(ctx)
}

// bringWanted brings jobs that somebody waits for.
func (f *Front) bringWanted(ctx context.Context, c *migrate.Carrier) error {
	for {
		select {
		case <-f.more:
		case <-ctx.Done():
			return ctx.Err()
		}
		for name := f.next(); name != "" && ctx.Err() == nil; name = f.next() {
			done, err := c.Next(ctx, name)
			if err != nil {
				return fmt.Errorf("tube %s: %w", name, err)
			}
			if done == migrate.None {
				f.note(name, 0)
			}
		}
	}
}

// bringOthers goes through all tubes, again and again.
func (f *Front) bringOthers(ctx context.Context, carriers []*migrate.Carrier) error {
	moved := 0
	var mu sync.Mutex
	m := &migrate.Mover{Rate: f.config.Rate, Seen: f.note, Carried: func(string, migrate.State) {
		mu.Lock()
		defer mu.Unlock()
		moved++
	}}
	for {
		before := moved
		reserved, err := m.Pass(ctx, carriers)
		if err != nil {
			return err
		}
		if moved > before {
			continue
		}
		f.tellEmpty(reserved)
		select {
		case <-time.After(f.config.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tellEmpty tells the operator, once, that nothing is left.
func (f *Front) tellEmpty(reserved int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reserved == 0 && !f.empty {
		f.config.Log.Warn("the server behind has no jobs left: when no client uses it any more, it can be stopped, and this one started without --behind", "addr", f.config.Addr)
	}
	f.empty = reserved == 0
}
