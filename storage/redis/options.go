package redis

import (
	"cmp"
	"log/slog"
	"time"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

const (
	// DefaultTimeout is how long an operation is held up while Redis fails.
	DefaultTimeout = 5 * time.Second

	// longestAttempt is how long Redis has to answer a call before it is sent again.
	longestAttempt = time.Second
)

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

	// Namespace is the beginning of all keys; empty means schema.DefaultNamespace. Stores with the
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

	// HistoryBytes is the bound of the records of ended jobs, in bytes, see tube.Ended.Bytes. Each partition has its share. 0 means
	// tube.DefaultHistoryBytes; negative: there are no records. It should be the same for all stores with the same namespace: that of
	// the last heartbeat applies.
	HistoryBytes int64

	// Version is the version of the program, which other instances show; can be empty.
	Version string

	// Log is for messages to the operator; nil means slog.Default.
	Log *slog.Logger

	kind conn.Kind // of the URL

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
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, schema.DefaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.largeFrom = cmp.Or(o.largeFrom, schema.LargeFrom)
	o.inspectEvery = cmp.Or(o.inspectEvery, inspectEvery)
	o.tickPatience = cmp.Or(o.tickPatience, tickPatience)
	if o.skew == nil {
		o.skew = func() time.Duration { return 0 }
	}
	return o
}

// historyBytes returns the bound of the records of ended jobs.
func (o Options) historyBytes() int64 {
	return max(cmp.Or(o.HistoryBytes, tube.DefaultHistoryBytes), 0)
}

// attempt returns how long Redis has to answer a call before it is sent again.
func (o Options) attempt() time.Duration { return min(longestAttempt, o.Timeout/2) }

// connections returns how many connections an instance can need to one server: each partition
// has one that waits for wake-ups, makes one call at a time, and can send a heartbeat beside it.
// A single partition on a single server needs no more than go-redis allows.
func connections(o Options) int {
	if o.kind == conn.Single && o.Partitions == 1 {
		return 0
	}
	return 3*o.Partitions + 8
}

const (
	// maxTubes limits the tubes in which one operation looks for jobs, or which it lists.
	maxTubes = 1000

	// maxMoves limits the jobs that a single operation moves in one call.
	maxMoves = 250

	// maxTogether limits the jobs of one Redis command: Lua passes a few thousand arguments at
	// most.
	maxTogether = 250
)
