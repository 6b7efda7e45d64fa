package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"redstalk/server"
	"redstalk/server/gateway/zywaited"
	"redstalk/server/limits"
	"redstalk/server/metrics"
	"redstalk/server/queue"
	"redstalk/server/webhook"
	"redstalk/storage"
)

// storeLimit is long enough for a store that has much to write.
const storeLimit = 10 * time.Second

// program is one run of Main, when it is known what is wanted.
type program struct {
	*settings
	log     *slog.Logger
	env     func(string) (string, bool)
	signals <-chan os.Signal
	ready   func(net.Addr)
	open    func(context.Context, engine) (storage.Store, error)
	drain   drainSwitch
	guard   atomic.Pointer[guards] // nil until they are there
	bounds  *limits.Bounds         // of all doors together; from serve on

	observer   *metrics.Observer
	tasks      *zywaited.Service                  // nil: not wanted
	dispatcher atomic.Pointer[webhook.Dispatcher] // nil: nothing is pushed, or not yet

	// storeLimit bounds how long the end waits for the store, after the grace
	// period of connections is over.
	storeLimit time.Duration
}

// run serves until it is told to end, and minds the signals meanwhile.
func (p *program) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case sig := <-p.signals:
			switch {
			case sig == syscall.SIGUSR1:
				p.drain.set(true)
			case sig == syscall.SIGUSR2:
				p.drain.set(false)
			case sig == syscall.SIGHUP:
				p.reloadPush()
				p.guard.Load().reload(p.log)
			case ctx.Err() == nil:
				p.log.Info("ending", "signal", sig)
				stop()
			default:
				return failure(exitFailure, "ended at once by a second signal (%v)", sig)
			}
		}
	}
}

// serve is the program from listening to the end, which ctx brings about.
func (p *program) serve(ctx context.Context) error {
	p.bounds = p.newBounds()
	l, err := p.listen(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer l.Close()
	p.log.Info("listening", "addr", l.Addr(), "version", Version, "pid", os.Getpid())
	doors, err := p.listenHTTP(ctx)
	defer doors.close()
	if err != nil {
		return unlessStopped(ctx, err)
	}
	pushes, err := p.pushConfig()
	if err != nil {
		return err
	}
	g, err := p.openGuards(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer g.close()
	p.guard.Store(g)
	p.warnUnprotected(l)
	if p.user != "" {
		if err := become(p.user); err != nil {
			return err
		}
	}
	served := make(chan error, 2+len(doors))
	p.serveEarly(doors, served)
	store, err := p.openStoreInBackground(ctx)
	if err != nil {
		p.observer.Ending()
		<-doors.shutdown(ctx)
		return unlessStopped(ctx, err)
	}
	return p.serveStore(ctx, l, doors, pushes, store, served)
}

// filledStore opens the store, after what moves in at its first start has done so. It gives up
// waiting for that when ctx ends: then the process does, too.
func (p *program) openStoreInBackground(ctx context.Context) (storage.Store, error) {
	type opened struct {
		store storage.Store
		err   error
	}
	done := make(chan opened, 1)
	go func() {
		store, err := retryWhileTaken(ctx, p.settings, func() (storage.Store, error) { return p.openStore(ctx) })
		done <- opened{store, err}
	}()
	select {
	case o := <-done:
		return o.store, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// openStore is filledStore on the goroutine that may have to be given up.
func (p *program) openStore(ctx context.Context) (storage.Store, error) {
	if err := p.importAtStart(ctx); err != nil {
		return nil, err
	}
	store, err := p.open(ctx, p.engine)
	if err != nil {
		return nil, describe(p.engine, err)
	}
	return store, nil
}

// endedEarly is err, unless the program was told to end: then it has.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *program) serverConfig() server.Config {
	c := server.Config{
		QuoteStats: p.quoteStats, Log: p.log,
		Bounds: p.bounds, IdleTimeout: p.limits.idleTimeout, WriteTimeout: p.limits.writeTimeout,
		Access: p.guard.Load().access, AuthTimeout: p.guards.authTimeout, MaxUnauthenticated: p.guards.unauthenticated,
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = -1 // 0 asks the server for its default
	}
	return c
}

// descriptors is how many file descriptors this process may have; 0 if that
// cannot be told.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}

// newBounds returns what all doors share.
func (p *program) newBounds() *limits.Bounds {
	connections := p.limits.connections
	if connections == autoConnections {
		calls := 0
		if p.pushes.allow != nil {
			calls = webhook.DefaultCalls
		}
		connections = connectionsFor(descriptors(), calls)
	}
	return limits.New(connections, p.limits.unread, p.limits.incoming)
}

// connectionsFor is how many connections leave enough of so many descriptors
// to everything else, of which so many pushes are a part.
func connectionsFor(descriptors uint64, pushes int) int {
	others := uint64(128 + pushes)
	if descriptors > math.MaxInt32 {
		return 0
	}
	return int(descriptors - min(others, descriptors/2))
}

// serveStore serves what is in a store. The error that ends a door comes by served.
func (p *program) serveStore(ctx context.Context, l net.Listener, doors httpListeners, pushes webhook.Config, store storage.Store, served chan error) error {
	old := p.newMigrator()
	q := queue.New(store, queue.Config{
		MaxJobSize: p.maxJobSize, Version: Version, NamedTubes: p.metrics.namedTubes(), Log: p.log, MayPush: p.mayPush(),
		Wanted: old.wanted(),
	})
	p.startPushing(q, pushes)
	old.start(q)
	if err := p.startTasks(q); err != nil {
		return errors.Join(err, p.shutdown(server.New(q, p.serverConfig()), doors, q, store, old))
	}
	s := server.New(q, p.serverConfig())
	go func() { served <- s.Serve(l) }()
	if g := p.guard.Load(); g.listener != nil {
		go func() { served <- s.ServeTLS(g.listener, g.tls.Config()) }()
		p.log.Info("serving", "door", "tls", "addr", g.listener.Addr())
	}
	p.serveHTTP(doors, q, served)
	p.observer.Serving(q) // when all doors are open
	p.log.Info("serving", "addr", l.Addr(), "store", redact(p.engine.url))
	p.ready(l.Addr())
	p.notify("READY=1")

	var err error
	for running := true; running; {
		select {
		case <-p.drain.changed:
			p.applyDrain(q)
		case err = <-served:
			err = failure(exitFailure, "accepting connections: %w", err)
			running = false
		case <-ctx.Done():
			running = false
		}
	}
	p.notify("STOPPING=1")
	return errors.Join(err, p.shutdown(s, doors, q, store, old))
}

// applyDrain has puts refused, or not, as the last signal says.
func (p *program) applyDrain(q *queue.Queue) {
	if p.drain.on.Load() {
		q.Drain()
		p.log.Info("draining: every put is refused from now on")
	} else {
		q.Undrain()
		p.log.Info("not draining: puts are accepted from now on")
	}
}

// drainSwitch is what signals want of draining. It may be turned before there is a
// queue.
type drainSwitch struct {
	on      atomic.Bool
	changed chan struct{} // holds one when on was set since it was last read
}

func (d *drainSwitch) set(on bool) {
	d.on.Store(on)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// end stops the doors, the queue and then the store. It gives up on a store that does
// not answer.
func (p *program) shutdown(s *server.Server, doors httpListeners, q *queue.Queue, store storage.Store, old *migrator) error {
	p.observer.Ending()
	if e, ok := store.(interface{ Ending() }); ok {
		e.Ending() // for whenFree of the next process
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.grace)
		defer cancel()
		httpEnded, pushEnded := doors.shutdown(ctx), p.stopPushing(ctx)
		if err := errors.Join(s.Shutdown(ctx), <-httpEnded); err != nil {
			p.log.Warn("connections were cut off at the end of the grace period", "grace", p.grace)
		}
		<-pushEnded
		old.stop()
		if err := q.Close(ctx); err != nil {
			p.log.Warn("the store is still busy at the end", "err", err)
		}
		done <- store.Close()
	}()
	limit := time.NewTimer(p.grace + p.storeLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		if err != nil {
			return failure(exitFailure, "closing the store %s: %w", redact(p.engine.url), redactError(p.engine.url, err))
		}
		p.log.Info("ended")
		return nil
	case <-limit.C:
		return failure(exitFailure, "connections or the store did not come to an end in %v", p.grace+p.storeLimit)
	}
}
