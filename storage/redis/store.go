package redis

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Store is a storage.Store in Redis.
type Store struct {
	pool          *conn.Pool
	parts         []*partition
	stats         *storeStats
	wakeUpReaders []*wakeUpReader // of each partition
	keepalives    []*keepalive    // of each partition
	log           *slog.Logger

	unwatch context.CancelFunc // ends inspectPeriodically
	watched chan struct{}      // closed when that has ended
}

// CheckURL returns an error if a URL is malformed, or the files of certificates that it names cannot be used.
func CheckURL(url string) error {
	_, err := conn.Parse(url, time.Second)
	return err
}

// Open connects to Redis, checks that it and the namespace can be used, and registers the
// instance.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := schema.CheckNamespace(o.Namespace); err != nil {
		return nil, err
	}
	a, err := conn.Parse(o.URL, o.attempt())
	if err != nil {
		return nil, err
	}
	o.kind, o.Log = a.Kind(), a.Redactor().Logger(o.Log)
	a.SetLog(o.Log)
	if o.Partitions, err = partitionsFor(o.Partitions, a.Kind()); err != nil {
		return nil, err
	}
	pool := conn.NewPool(a, connections(o))
	all, err := checkAndPrepare(ctx, pool, &o)
	if err != nil {
		pool.Close()
		return nil, openError(a, err)
	}
	s := newStore(pool, o, all)
	if err := s.each(func(p *partition) error { return p.do(func(*call) {}) }); err != nil {
		s.closeConnections()
		s.end()
		return nil, openError(a, err)
	}
	return s, nil
}

// newStore sets up the partitions, with the capabilities of their servers.
func newStore(pool *conn.Pool, o Options, all []*capabilities) *Store {
	s, ids, lag := &Store{pool: pool, log: o.Log, stats: newStoreStats()}, &idOrder{}, &timerLag{log: o.Log}
	ticks, senders, complaints := &atomic.Int32{}, &atomic.Int32{}, &telemetry.Throttle{}
	for number := range o.Partitions {
		p := newPartition(pool, o, ids, lag, number)
		p.stats, p.ticks, p.senders, p.server.complaints = s.stats, ticks, senders, complaints
		p.server.capabilities.Store(all[number])
		p.warnOfSize(all[number])
		p.all = func(number int) *partition { return s.parts[number] }
		s.parts = append(s.parts, p)
		s.wakeUpReaders = append(s.wakeUpReaders, newWakeUpReader(p, pool))
		s.keepalives = append(s.keepalives, newKeepalive(p, pool))
		go p.work()
	}
	s.NameTubes(tube.DefaultNamed)
	var ctx context.Context
	ctx, s.unwatch = context.WithCancel(context.Background())
	s.watched = make(chan struct{})
	go s.inspectPeriodically(ctx)
	return s
}

// checkAndPrepare checks that Redis and the namespace can be used, and returns the capabilities
// of the server of each partition.
func checkAndPrepare(ctx context.Context, pool *conn.Pool, o *Options) ([]*capabilities, error) {
	all, err := checkServers(ctx, pool, o)
	if err != nil {
		return nil, err
	}
	node, err := pool.Node(ctx, schema.KeyPrefix(o.Namespace, 0))
	if err != nil {
		return nil, err
	}
	return all, prepare(ctx, node, *o)
}

// Listen implements storage.Store.
func (s *Store) Listen(l storage.Listener) {
	for i, p := range s.parts {
		p.listen(l)
		s.wakeUpReaders[i].start()
	}
}

// Do implements storage.Store. If Redis is idle and there is one partition, it returns when the
// batches are done, or Redis has failed.
func (s *Store) Do(batches ...*storage.Batch) { s.DoPolling(nil, batches...) }

// DoPolling implements storage.PollingStore.
func (s *Store) DoPolling(poll func(read bool) int, batches ...*storage.Batch) {
	if len(s.parts) > 1 || slices.ContainsFunc(batches, searches) {
		s.route(batches)
		return
	}
	units, all := make([]unit, len(batches)), make([]*unit, len(batches))
	for i, b := range batches {
		units[i].batch = b
		all[i] = &units[i]
	}
	s.parts[0].submitOrFail(poll, all...)
}

// searches returns whether a batch looks for a job in so many tubes that it takes several
// calls, or moves jobs to another tube.
func searches(b *storage.Batch) bool {
	for i := range b.Ops {
		if op := &b.Ops[i]; op.Kind == storage.Take && len(op.Tubes) > maxTubes || op.Kind == storage.MoveJobs {
			return true
		}
	}
	return false
}

// each calls do with all partitions concurrently, and returns the first error.
func (s *Store) each(do func(*partition) error) error {
	ended := make(chan error, len(s.parts))
	for _, p := range s.parts {
		go func() { ended <- do(p) }()
	}
	var first error
	for range s.parts {
		if err := <-ended; first == nil {
			first = err
		}
	}
	return first
}

// Close implements storage.Store.
func (s *Store) Close() error {
	err := s.each((*partition).resign)
	s.end()
	if closeErr := s.closeConnections(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("leaving Redis: %w", err)
	}
	return nil
}

// resign gives back everything that the instance holds.
func (p *partition) resign() error {
	var err error
	var from atomic.Int64
	for from.Store(-1); from.Load() != reclaimed && err == nil; {
		err = p.do(func(c *call) { encodeResign(c, &from) })
	}
	return err
}

// end lets the partitions finish their work.
func (s *Store) end() {
	s.each(func(p *partition) error {
		p.end()
		return nil
	})
}

// closeConnections ends everything that uses connections to Redis.
func (s *Store) closeConnections() error {
	s.unwatch()
	for _, m := range s.wakeUpReaders {
		m.cancel()
	}
	for _, k := range s.keepalives {
		k.cancel()
	}
	err := s.pool.Close()
	for _, m := range s.wakeUpReaders {
		m.wait()
	}
	for _, k := range s.keepalives {
		<-k.done
	}
	<-s.watched
	return err
}

// NameTubes implements storage.Reporter.
func (s *Store) NameTubes(n int) {
	room := tube.RoomFor(n)
	for _, p := range s.parts {
		p.flow.mu.Lock()
		p.flow.flows = tube.NewFlows(room)
		p.flow.mu.Unlock()
	}
}

// Report implements storage.Reporter.
func (s *Store) Report() storage.Report {
	e := s.stats
	r := storage.Report{
		Calls: e.calls.Read(), Operations: e.operations.Read(), Retries: e.retries.Load(), Replays: e.replays.Load(),
		Refusing: s.refusal(),
	}
	for _, p := range s.parts {
		p.flow.mu.Lock()
		r.Named = append(r.Named, p.flow.flows.Named()...)
		r.Rest.Add(&p.flow.flows.Rest)
		p.flow.mu.Unlock()
		if p.failing.Load() {
			r.Unavailable = storage.ErrUnavailable
		}
		if at := p.answered.Load(); at != 0 {
			r.SinceContact = max(r.SinceContact, time.Since(time.Unix(0, at)))
		}
	}
	return r
}

// Parts implements storage.Importer: they are the partitions.
func (s *Store) Parts() int { return len(s.parts) }

// PartOf implements storage.Importer.
func (s *Store) PartOf(tube string) int { return schema.PartitionOf(tube, len(s.parts)) }

// IDOf implements storage.Importer.
func (s *Store) IDOf(part int, number uint64) uint64 {
	return number*uint64(len(s.parts)) + uint64(part)
}
