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
	"redstalk/server/limits"
	"redstalk/server/metrics"
	"redstalk/server/queue"
	"redstalk/server/webhook"
	"redstalk/storage"
	"redstalk/storage/redact"
)

// storeLimit is how long closing the store may take: enough for one that has much to write.
const storeLimit = 10 * time.Second

// program is one run of Main as a server, after the settings are read.
type program struct {
	*settings
	log          *slog.Logger
	announce     *slog.Logger
	env          func(string) (string, bool)
	signals      <-chan os.Signal
	ready        func(net.Addr)
	open         func(context.Context, engine) (storage.Store, error)
	drain        drainSwitch
	activeGuards atomic.Pointer[guards] // nil until they are open
	sharedLimits *limits.Limits         // shared by all listeners; set by serve
	binlogLock   *os.File               // beanstalkd's, of a directory whose jobs were imported; held until the process ends

	observer   *metrics.Observer
	tasks      *taskService                       // of the gateway zywaited; nil: not wanted
	dispatcher atomic.Pointer[webhook.Dispatcher] // nil: nothing is pushed, or not yet
	runners    *runners                           // set by serveStore

	audit     *slog.Logger // of administrative acts; nil: not wanted, like the next two
	auditFile *auditFile
	auditSink *lineSink

	// storeLimit is how long shutdown waits for the store, after the grace
	// period of connections.
	storeLimit time.Duration
}

// run serves until it is stopped, and handles signals meanwhile.
func (p *program) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended, files := make(chan error, 1), p.watchedFiles()
	go func() { ended <- p.serve(ctx) }()
	checks := time.NewTicker(watchInterval)
	defer checks.Stop()
	for {
		select {
		case <-checks.C:
			for _, f := range files {
				f.check()
			}
		case err := <-ended:
			return err
		case sig := <-p.signals:
			switch {
			case sig == syscall.SIGUSR1:
				p.drain.set(true)
			case sig == syscall.SIGUSR2:
				p.drain.set(false)
			case sig == syscall.SIGHUP:
				for _, f := range files {
					f.wasRead()
				}
				p.reload()
			case ctx.Err() == nil:
				p.log.Info("ending", "signal", sig)
				stop()
			default:
				return failure(exitFailure, "ended at once by a second signal (%v)", sig)
			}
		}
	}
}

// reload reads the files again that are read again on SIGHUP, if there are any.
func (p *program) reload() {
	if p.pushes.secrets == "" && !p.guards.wanted() && p.auditPath == "" && !p.engine.hasCertificates() {
		p.log.Warn("ignoring SIGHUP: only the files of --access, --tls, --http-tls, --push-secrets and rediss:// are read again and that of --audit is opened again, and none is given")
		return
	}
	if p.auditFile != nil {
		p.auditFile.reopen()
	}
	p.act("reload")
	p.reloadPush()
	p.engine.checkCertificates()
	p.activeGuards.Load().reload(p.log)
}

// serve is the program from listening to shutdown, which begins when ctx is done.
func (p *program) serve(ctx context.Context) error {
	p.sharedLimits = p.newSharedLimits()
	l, err := p.listen(ctx)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer l.Close()
	p.log.Info("listening", "addr", l.Addr(), "version", Version, "pid", os.Getpid())
	listeners, err := p.listenHTTP(ctx)
	defer listeners.close()
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
	p.activeGuards.Store(g)
	if err := p.openAudit(); err != nil {
		return err
	}
	defer p.endAudit()
	p.warnUnprotected(g, l, listeners)
	if p.user != "" {
		if err := become(p.user); err != nil {
			return err
		}
	}
	served := make(chan error, 2+len(listeners))
	p.serveEarly(listeners, served)
	store, err := p.openStoreInBackground(ctx)
	if err != nil {
		p.observer.Ending()
		<-listeners.shutdown(ctx)
		return unlessStopped(ctx, err)
	}
	return p.serveStore(ctx, l, listeners, pushes, store, served)
}

// openStoreInBackground opens the store, after the import of a binlog at the first start. When ctx is
// done it returns without waiting any longer: then the process exits.
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

// openStore is the part of openStoreInBackground that runs on a goroutine of its own.
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

// unlessStopped returns err, or nil if the program was stopped meanwhile: then the error is part of that.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *program) serverConfig() server.Config {
	c := server.Config{
		QuoteStats: p.quoteStats, Log: p.log,
		Limits: p.sharedLimits, IdleTimeout: p.limits.idleTimeout, WriteTimeout: p.limits.writeTimeout,
		Access: p.activeGuards.Load().access, Audit: p.audit, AuthTimeout: p.guards.authTimeout, MaxUnauthenticated: p.guards.unauthenticated,
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = -1 // 0 asks the server for its default
	}
	return c
}

// descriptors is the limit of file descriptors of this process; 0 if it is
// unknown.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Cur)
}

// newSharedLimits returns the limits that all listeners share.
func (p *program) newSharedLimits() *limits.Limits {
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

// reservedDescriptors is how many descriptors connections leave, or half of them if there are fewer.
const reservedDescriptors = 128

// connectionsFor returns how many connections leave enough of the descriptors
// for everything else, which includes the given number of concurrent pushes.
func connectionsFor(descriptors uint64, pushes int) int {
	others := uint64(reservedDescriptors + pushes)
	if descriptors > math.MaxInt32 {
		return 0
	}
	return int(descriptors - min(others, descriptors/2))
}

// serveStore serves the jobs of a store. The error that ends a listener comes from served.
func (p *program) serveStore(ctx context.Context, l net.Listener, listeners httpListeners, pushes webhook.Config, store storage.Store, served chan error) error {
	through, endTracing, err := p.openTracing()
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer endTracing()
	old := p.newMigrator()
	q := queue.New(store, queue.Config{
		MaxJobSize: p.maxJobSize, Version: Version, NamedTubes: p.metrics.namedTubes(), Log: p.log, MayPush: p.mayPush(),
		Wanted: old.wanted(), Through: through,
	})
	p.runners = p.newRunners(q)
	p.startPushing(q, pushes)
	old.start(q)
	if err := p.startTasks(q); err != nil {
		return errors.Join(err, p.shutdown(server.New(q, p.serverConfig()), listeners, q, store, old))
	}
	config := p.serverConfig()
	config.Schedules, config.Batches = p.runners.schedules, p.runners.batches
	s := server.New(q, config)
	go func() { served <- s.Serve(l) }()
	if g := p.activeGuards.Load(); g.listener != nil {
		go func() { served <- s.ServeTLS(g.listener, g.tls.Config()) }()
		p.log.Info("serving", "listener", "tls", "addr", g.listener.Addr())
	}
	p.serveHTTP(listeners, q, served)
	p.runners.start()
	p.observer.Serving(q) // when all listeners serve
	p.announce.Info("serving", append([]any{"addr", l.Addr(), "version", Version}, p.engine.describe()...)...)
	p.ready(l.Addr())
	p.notify("READY=1")

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
	return errors.Join(err, p.shutdown(s, listeners, q, store, old))
}

// applyDrain starts or ends drain mode, as the last signal says.
func (p *program) applyDrain(q *queue.Queue) {
	if p.drain.on.Load() {
		q.Drain()
		p.log.Info("draining: every put is refused from now on")
		p.act("drain")
	} else {
		q.Undrain()
		p.log.Info("not draining: puts are accepted from now on")
		p.act("undrain")
	}
}

// drainSwitch is the drain mode that signals ask for. It can be set before there is a
// queue.
type drainSwitch struct {
	on      atomic.Bool
	changed chan struct{} // has an element if on was set since it was last read
}

func (d *drainSwitch) set(on bool) {
	d.on.Store(on)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// shutdown stops the listeners, the queue and then the store. It does not wait longer than the
// limit for a store that does not answer.
func (p *program) shutdown(s *server.Server, listeners httpListeners, q *queue.Queue, store storage.Store, old *migrator) error {
	p.observer.Ending()
	if e, ok := store.(interface{ Ending() }); ok {
		e.Ending() // makes retryWhileTaken of the next process wait longer
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), p.grace)
		defer cancel()
		httpEnded, pushEnded := listeners.shutdown(ctx), p.stopPushing(ctx)
		if err := errors.Join(s.Shutdown(ctx), <-httpEnded); err != nil {
			p.log.Warn("connections were cut off at the end of the grace period", "grace", p.grace)
		}
		<-pushEnded
		p.runners.stop()
		if err := old.stop(ctx); err != nil {
			p.log.Warn("the server of --upstream has not answered by the end of the grace period", "grace", p.grace)
		}
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
			return failure(exitFailure, "closing the store %s: %w", redact.URL(p.engine.url), redact.Error(p.engine.url, err))
		}
		p.log.Info("ended")
		return nil
	case <-limit.C:
		return failure(exitFailure, "connections or the store did not come to an end in %v", p.grace+p.storeLimit)
	}
}
