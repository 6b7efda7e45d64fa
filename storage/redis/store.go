package redis

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// DefaultTimeout is how long an operation is held up while Redis fails.
	DefaultTimeout = 5 * time.Second

	// longestAttempt is how long Redis has to answer a call before it is sent again.
	longestAttempt = time.Second
)

// DefaultNamespace is the beginning of all keys if Options names no other.
const DefaultNamespace = "redstalk"

// Options say where the jobs are.
type Options struct {
	// URL is redis://user:password@host:port/db, or unix:///path?db=N;
	// redis+sentinel://user:password@host:port,host:port/name/db, with the addresses of
	// sentinels and their name for the primary; or
	// redis+cluster://user:password@host:port,host:port, some nodes of a cluster. With rediss
	// instead of redis TLS is used; then the parameters ca, cert, key (names of PEM files) and
	// server_name (the name that the servers' certificates must have) are allowed.
	// sentinel_auth=same means that the sentinels need the same user and password.
	URL string

	// Namespace is the beginning of all keys; empty means DefaultNamespace. Stores with the
	// same namespace on the same Redis share their jobs.
	Namespace string

	// Partitions is the number of parts into which the tubes are divided, at most
	// MaxPartitions; 0 means 1, and 16 on a cluster. It must be the same for all stores with
	// the same namespace, and never change, because an id determines its partition by it.
	Partitions int

	// Timeout is how long an operation is held up while Redis fails, before it
	// is answered with storage.ErrUnavailable; 0 means DefaultTimeout.
	Timeout time.Duration

	// AllowEviction opens a store even if Redis deletes arbitrary keys, and so jobs, when its
	// memory is full.
	AllowEviction bool

	// MaxJobSize is the server's limit of a job in bytes. If Redis accepts less, that is
	// logged. 0: unknown.
	MaxJobSize int

	// WaitReplicas is how many replicas must have a change before it is acknowledged. While
	// there are fewer, operations are held up as while Redis fails.
	WaitReplicas int

	// Version is the version of the program, which other instances show; can be empty.
	Version string

	// Log is for messages to the operator; nil means slog.Default.
	Log *slog.Logger

	kind kind // of the URL

	// inspectEvery is the interval of inspections of the settings of Redis; 0: the default.
	// Short for tests.
	inspectEvery time.Duration

	// skew moves the clock, for tests.
	skew func() time.Duration

	// redisStep moves only the clock of Redis, for tests; nil: not at all.
	redisStep func() time.Duration

	// leaseSetFrom is how many jobs reserved together make a lease set; 0: the default. Small
	// for tests.
	leaseSetFrom int

	// budget is how many bytes of records a reply returns; 0: the default. Small for tests.
	budget int

	// largeFrom is the size from which on a record is large; 0: the default. Small for tests.
	largeFrom int

	// noBodyCache disables the body cache, for tests.
	noBodyCache bool

	// tickPatience is how long a tick waits for its partitions; 0: the default. Long for tests
	// that move the clock and rely on everything due being done.
	tickPatience time.Duration

	// watchFor is how long instances are watched that may be alive; 0: the default. Short for
	// tests.
	watchFor time.Duration
}

// Store is a storage.Store in Redis.
type Store struct {
	link          *link
	parts         []*partition
	stats         *storeStats
	wakeUpReaders []*wakeUpReader // of each partition
	keepalives    []*keepalive    // of each partition
	log           *slog.Logger

	unwatch context.CancelFunc // ends inspectPeriodically
	watched chan struct{}      // closed when that has ended
}

// Open connects to Redis, checks that it and the namespace can be used, and registers the
// instance.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := schema.CheckNamespace(o.Namespace); err != nil {
		return nil, err
	}
	a, err := parseAddress(o)
	if err != nil {
		return nil, err
	}
	o.kind, o.Log = a.kind, a.redactLog(o.Log)
	if o.Partitions, err = partitionsFor(o.Partitions, a.kind); err != nil {
		return nil, err
	}
	l := newLink(a, o)
	all, err := checkAndPrepare(ctx, l, &o)
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("using Redis at %s: %w", a.where(), a.redactError(err))
	}
	s := newStore(l, o, all)
	if err := s.each(func(p *partition) error { return p.do(func(*call) {}) }); err != nil {
		s.closeConnections()
		s.end()
		return nil, fmt.Errorf("using Redis at %s: %w", a.where(), a.redactError(err))
	}
	return s, nil
}

// newStore sets up the partitions, with the capabilities of their servers.
func newStore(l *link, o Options, all []*capabilities) *Store {
	s, ids, lag := &Store{link: l, log: o.Log, stats: newStoreStats()}, &idOrder{}, &timerLag{log: o.Log}
	ticks, senders, complaints := &atomic.Int32{}, &atomic.Int32{}, &telemetry.Throttle{}
	for number := range o.Partitions {
		p := newPartition(l, o, ids, lag, number)
		p.stats, p.ticks, p.senders, p.server.complaints = s.stats, ticks, senders, complaints
		p.server.capabilities.Store(all[number])
		p.warnOfSize(all[number])
		p.all = func(number int) *partition { return s.parts[number] }
		s.parts = append(s.parts, p)
		s.wakeUpReaders = append(s.wakeUpReaders, newWakeUpReader(p, l))
		s.keepalives = append(s.keepalives, newKeepalive(p, l))
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
func checkAndPrepare(ctx context.Context, l *link, o *Options) ([]*capabilities, error) {
	all, err := checkServers(ctx, l, o)
	if err != nil {
		return nil, err
	}
	node, err := l.node(ctx, schema.KeyPrefix(o.Namespace, 0))
	if err != nil {
		return nil, err
	}
	return all, prepare(ctx, node, *o)
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.largeFrom = cmp.Or(o.largeFrom, schema.LargeFrom)
	o.inspectEvery = cmp.Or(o.inspectEvery, inspectEvery)
	o.tickPatience = cmp.Or(o.tickPatience, tickPatience)
	o.watchFor = cmp.Or(o.watchFor, watchHeartbeatsFor)
	if o.skew == nil {
		o.skew = func() time.Duration { return 0 }
	}
	return o
}

// attempt returns how long Redis has to answer a call before it is sent again.
func (o Options) attempt() time.Duration { return min(longestAttempt, o.Timeout/2) }

func init() {
	// What go-redis would log is also returned as errors.
	goredis.SetLogger(nopLogger{})
}

type nopLogger struct{}

func (nopLogger) Printf(context.Context, string, ...any) {}

// nopListener is the listener until Listen is called.
type nopListener struct{}

func (nopListener) WakeUp(string) bool { return true }
func (nopListener) Waiting(string) int { return 0 }
func (nopListener) Due(time.Duration)  {}

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

// submitOrFail submits units. If the partition has ended they end with ErrClosed.
func (p *partition) submitOrFail(poll func(read bool) int, units ...*unit) {
	if !p.submitPolling(poll, units...) {
		for _, u := range units {
			u.end(storage.ErrClosed)
		}
	}
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
	err := s.link.Close()
	for _, m := range s.wakeUpReaders {
		m.wait()
	}
	for _, k := range s.keepalives {
		<-k.done
	}
	<-s.watched
	return err
}
