package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"redstalk/storage"
)

const (
	// beatEvery is how often an instance gives a sign of life.
	beatEvery = time.Second

	// silence is how long an instance may give none before the others give
	// back what it has reserved.
	silence = 3 * time.Second

	// tickLimit bounds how many due things one tick does in Redis.
	tickLimit = 250

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
	// URL is redis://user:password@host:port/db, rediss:// for TLS, or
	// unix:///path?db=N.
	URL string

	// Namespace begins every key; empty means DefaultNamespace. Stores with
	// the same one on the same Redis share their jobs.
	Namespace string

	// Timeout is how long an operation is held up while Redis fails, before it
	// is answered with storage.ErrUnavailable; 0 means DefaultTimeout.
	Timeout time.Duration

	// AllowEviction opens a store even if Redis deletes keys of its choice when
	// its memory is full, and so jobs.
	AllowEviction bool

	// WaitReplicas is how many replicas must have a change before it is
	// acknowledged. While there are fewer, operations are held up as while
	// Redis fails.
	WaitReplicas int

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger

	// skew moves the clock, for tests.
	skew func() time.Duration
}

// Store is a storage.Store in Redis.
type Store struct {
	client goredis.UniversalClient
	part   *partition
	mail   *mail
	log    *slog.Logger

	mu   sync.Mutex
	beat time.Time // when the last sign of life was asked for
}

// Open connects to Redis, checks that what is under the namespace can be
// served, and announces the instance.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	options, err := parseURL(o)
	if err != nil {
		return nil, err
	}
	client := goredis.NewClient(options)
	if err := ready(ctx, client, o); err != nil {
		client.Close()
		return nil, fmt.Errorf("using Redis at %s: %w", options.Addr, err)
	}
	s := &Store{client: client, log: o.Log, part: newPartition(client, o, 0, 1)}
	go s.part.run()
	if err := s.giveSign(); err != nil {
		s.part.end()
		client.Close()
		return nil, fmt.Errorf("using Redis at %s: %w", options.Addr, err)
	}
	s.mail = newMail(client, s.part, o.Log)
	return s, nil
}

// ready checks that Redis and the namespace are fit to be used.
func ready(ctx context.Context, client goredis.UniversalClient, o Options) error {
	if err := guard(ctx, client, o); err != nil {
		return err
	}
	return prepare(ctx, client, o.Namespace)
}

func (o Options) withDefaults() Options {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.skew == nil {
		o.skew = func() time.Duration { return 0 }
	}
	return o
}

// attempt is how long Redis may take to answer a call before it is sent again.
func (o Options) attempt() time.Duration { return min(longestAttempt, o.Timeout/2) }

func init() {
	// What go-redis would print by itself comes back as errors too.
	goredis.SetLogger(quiet{})
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// deaf is the listener until there is one.
type deaf struct{}

func (deaf) Ready(string) bool  { return true }
func (deaf) Waiting(string) int { return 0 }
func (deaf) Due(time.Duration)  {}

// parseURL reads a URL; its errors do not repeat the URL, which may hold a
// password.
func parseURL(o Options) (*goredis.Options, error) {
	options, err := goredis.ParseURL(o.URL)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, fmt.Errorf("reading the URL of Redis: %w", err)
	}
	options.Protocol = 2
	options.MaxRetries = -1 // the partition does that, see trouble.go
	if err := checkUser(options); err != nil {
		return nil, err
	}
	limit := o.attempt()
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = limit, limit, limit
	options.DialerRetries = 1
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return options, nil
}

// Redact returns the URL without its password, for logs.
func Redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(not a URL)"
	}
	return u.Redacted()
}

// newInstance makes up a name of 8 characters.
func newInstance() string { return rand.Text()[:8] }

// Listen implements storage.Store.
func (s *Store) Listen(l storage.Listener) {
	s.part.listen(l)
	s.mail.start()
}

// Do implements storage.Store. If Redis has nothing to do, it returns when the
// batches are done, or Redis has failed.
func (s *Store) Do(batches ...*storage.Batch) {
	units, all := make([]unit, len(batches)), make([]*unit, len(batches))
	for i, b := range batches {
		units[i].batch = b
		all[i] = &units[i]
	}
	if !s.part.submit(all...) {
		for _, u := range all {
			u.end(storage.ErrClosed)
		}
	}
}

// Tick implements storage.Store. It also gives the sign of life when that is
// due; the time until then bounds what it returns.
func (s *Store) Tick() (time.Duration, error) {
	s.mu.Lock()
	beat := s.part.now().Sub(s.beat) >= beatEvery
	s.mu.Unlock()
	if beat {
		if err := s.giveSign(); err != nil {
			return 0, err
		}
	}
	var next atomic.Int64 // the answer may come after do has returned with an error
	next.Store(int64(beatEvery))
	err := s.part.do(func(c *call) {
		s.part.encodeTick(c, func(in time.Duration) { next.Store(int64(in)) })
	})
	return min(time.Duration(next.Load()), beatEvery), err
}

func (s *Store) giveSign() error {
	s.mu.Lock()
	s.beat = s.part.now()
	s.mu.Unlock()
	return s.part.do(s.part.encodeBeat)
}

// Close implements storage.Store.
func (s *Store) Close() error {
	var err error
	var finished atomic.Bool
	for !finished.Load() && err == nil {
		err = s.part.do(func(c *call) {
			c.add(func(r *reply) { finished.Store(r.found()) }, "resign", maxMoves)
		})
	}
	s.part.end()
	if closeErr := s.hangUp(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("leaving Redis: %w", err)
	}
	return nil
}

// hangUp ends everything that talks to Redis.
func (s *Store) hangUp() error {
	s.mail.cancel()
	err := s.client.Close()
	s.mail.wait()
	return err
}
