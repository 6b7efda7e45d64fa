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
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// DefaultTimeout is how long an operation is held up while Redis fails.
	DefaultTimeout = 5 * time.Second

	// longestAttempt is how long Redis may take to answer a call before the
	// call is sent again.
	longestAttempt = time.Second
)

// DefaultNamespace begins every key unless Options say otherwise.
const DefaultNamespace = "redstalk"

// Options say where the jobs are.
type Options struct {
	// URL is redis://user:password@host:port/db, or unix:///path?db=N;
	// redis+sentinel://user:password@host:port,host:port/name/db, where name
	// is what the sentinels at these addresses call the primary; or
	// redis+cluster://user:password@host:port,host:port, some nodes of a
	// cluster. With rediss for redis it is TLS; then ca, cert, key and
	// server_name may be given as parameters: names of files in PEM, and the
	// name that the servers' certificates are to have. For sentinels that
	// want the same user and password, sentinel_auth is same.
	URL string

	// Namespace begins every key; empty means DefaultNamespace. Stores with
	// the same one on the same Redis share their jobs.
	Namespace string

	// Partitions is how many parts the tubes are divided into, at most
	// MaxPartitions; 0 means 1, and 16 on a cluster. It is the same for all
	// stores with the same namespace, for ever: an id tells its partition by
	// it.
	Partitions int

	// Timeout is how long an operation is held up while Redis fails, before it
	// is answered with storage.ErrUnavailable; 0 means DefaultTimeout.
	Timeout time.Duration

	// AllowEviction opens a store even if Redis deletes keys of its choice when
	// its memory is full, and so jobs.
	AllowEviction bool

	// MaxJobSize is how many bytes a job may have by the server's rules. If Redis takes less,
	// that is logged. 0: nobody knows.
	MaxJobSize int

	// WaitReplicas is how many replicas must have a change before it is
	// acknowledged. While there are fewer, operations are held up as while
	// Redis fails.
	WaitReplicas int

	// Version is that of the program, which other instances show; may be empty.
	Version string

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger

	kind kind // of what the URL names

	// inspectEvery is how often it is looked whether the settings of Redis are others; 0: as
	// usual. A short time is for tests.
	inspectEvery time.Duration

	// skew moves the clock, for tests.
	skew func() time.Duration

	// redisStep moves the clock of Redis only, for tests; nil: not at all.
	redisStep func() time.Duration

	// leaseSetFrom is how many jobs reserved together make a lease set; 0: as many
	// as usual. Small ones are for tests.
	leaseSetFrom int

	// budget is how many bytes of records a reply brings; 0: as many as usual.
	// A small one is for tests.
	budget int

	// largeFrom is from how many bytes on a record is a large one; 0: as usual. A
	// small one is for tests.
	largeFrom int

	// noBodyCache is an instance that caches no bodies, for tests.
	noBodyCache bool

	// tickPatience is how long a tick waits for its partitions; 0: as usual. A long
	// one is for tests that move the clock, and rely on all being done that is due.
	tickPatience time.Duration

	// watchFor is how long others are watched that may be alive; 0: as usual. A short one
	// is for tests.
	watchFor time.Duration
}

// Store is a storage.Store in Redis.
type Store struct {
	link          *link
	parts         []*partition
	stats         *storeStats
	wakeUpReaders []*wakeUpReader // of each partition
	keepalives    []*keepalive    // likewise
	log           *slog.Logger

	unwatch context.CancelFunc // ends watch
	watched chan struct{}      // closed when it has ended
}

// Open connects to Redis, checks that what is under the namespace can be
// served, and announces the instance.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if err := CheckNamespace(o.Namespace); err != nil {
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

// newStore sets up the partitions, whose servers are in these conditions.
func newStore(l *link, o Options, all []*capabilities) *Store {
	s, ids, lag := &Store{link: l, log: o.Log, stats: newStoreStats()}, &idOrder{}, &timerLag{log: o.Log}
	ticks, senders, complaints := &atomic.Int32{}, &atomic.Int32{}, &telemetry.Log{}
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

// ready checks that Redis and the namespace are fit to be used, and returns in what condition the
// server of each partition is.
func checkAndPrepare(ctx context.Context, l *link, o *Options) ([]*capabilities, error) {
	all, err := checkServers(ctx, l, o)
	if err != nil {
		return nil, err
	}
	node, err := l.node(ctx, keyPrefix(o.Namespace, 0))
	if err != nil {
		return nil, err
	}
	return all, prepare(ctx, node, *o)
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.largeFrom = cmp.Or(o.largeFrom, largeFrom)
	o.inspectEvery = cmp.Or(o.inspectEvery, inspectEvery)
	o.tickPatience = cmp.Or(o.tickPatience, tickPatience)
	o.watchFor = cmp.Or(o.watchFor, watchHeartbeatsFor)
	if o.skew == nil {
		o.skew = func() time.Duration { return 0 }
	}
	return o
}

// attempt is how long Redis may take to answer a call before it is sent again.
func (o Options) attempt() time.Duration { return min(longestAttempt, o.Timeout/2) }

func init() {
	// What go-redis would print by itself comes back as errors too.
	goredis.SetLogger(nopLogger{})
}

type nopLogger struct{}

func (nopLogger) Printf(context.Context, string, ...any) {}

// deaf is the listener until there is one.
type nopListener struct{}

func (nopListener) Ready(string) bool  { return true }
func (nopListener) Waiting(string) int { return 0 }
func (nopListener) Due(time.Duration)  {}

// Listen implements storage.Store.
func (s *Store) Listen(l storage.Listener) {
	for i, p := range s.parts {
		p.listen(l)
		s.wakeUpReaders[i].start()
	}
}

// Do implements storage.Store. If Redis has nothing to do, and there is one
// partition, it returns when the batches are done, or Redis has failed.
func (s *Store) Do(batches ...*storage.Batch) { s.DoPolling(nil, batches...) }

// DoGathering implements storage.Gatherer.
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
	s.parts[0].carryOut(poll, all...)
}

// searches returns whether a batch looks for a job in so many tubes that it takes
// several calls, or moves jobs to another tube.
func searches(b *storage.Batch) bool {
	for i := range b.Ops {
		if op := &b.Ops[i]; op.Kind == storage.Take && len(op.Tubes) > maxTubes || op.Kind == storage.MoveJobs {
			return true
		}
	}
	return false
}

// carryOut submits units, or says that the partition has ended.
func (p *partition) carryOut(poll func(read bool) int, units ...*unit) {
	if !p.submitPolling(poll, units...) {
		for _, u := range units {
			u.end(storage.ErrClosed)
		}
	}
}

// each does something with all partitions at once, and returns the first
// error.
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

// resign gives back everything that the instance has.
func (p *partition) resign() error {
	var err error
	var from atomic.Int64
	for from.Store(-1); from.Load() != reclaimed && err == nil; {
		err = p.do(func(c *call) { encodeResign(c, &from) })
	}
	return err
}

// end lets the partitions finish what they have to do.
func (s *Store) end() {
	s.each(func(p *partition) error {
		p.end()
		return nil
	})
}

// hangUp ends everything that talks to Redis.
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
