package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
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

	// patience is how long Redis may take to answer.
	patience = 5 * time.Second
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

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger

	// skew moves the clock, for tests.
	skew func() time.Duration
}

// Store is a storage.Store in Redis.
type Store struct {
	client   *goredis.Client
	instance string
	part     *partition
	mail     *mail
	log      *slog.Logger

	mu   sync.Mutex
	beat time.Time // when the last sign of life was asked for
}

// Open connects to Redis, checks that what is under the namespace can be
// served, and announces the instance.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	options, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	client := goredis.NewClient(options)
	if err := prepare(ctx, client, o.Namespace); err != nil {
		client.Close()
		return nil, fmt.Errorf("using Redis at %s: %w", options.Addr, err)
	}
	s := &Store{client: client, instance: newInstance(), log: o.Log}
	s.part = newPartition(client, o.Namespace, s.instance, 0, 1, o.Log)
	if o.skew != nil {
		s.part.skew = o.skew
	}
	s.part.listener = deaf{}
	go s.part.run()
	if err := s.giveSign(); err != nil {
		s.part.end()
		client.Close()
		return nil, fmt.Errorf("using Redis at %s: %w", options.Addr, err)
	}
	s.mail = newMail(client, s.part, o.Log)
	return s, nil
}

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
func parseURL(text string) (*goredis.Options, error) {
	options, err := goredis.ParseURL(text)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, fmt.Errorf("reading the URL of Redis: %w", err)
	}
	options.Protocol = 2
	options.MaxRetries = -1 // a batch sent twice is done twice
	options.ReadTimeout, options.WriteTimeout = patience, patience
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

// Do implements storage.Store.
func (s *Store) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		s.do(b)
	}
}

func (s *Store) do(b *storage.Batch) {
	if s.part.submit(&unit{batch: b}) {
		return
	}
	for i := range b.Ops {
		b.Ops[i].Answer = storage.Answer{Err: storage.ErrClosed}
	}
	b.Done()
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
	next := storage.Forever
	err := s.part.do(func(c *call) {
		c.add(func(r *reply) {
			r.found()
			if r.earliest >= 0 {
				next = r.earliest
			}
		}, "tick", tickLimit)
	})
	return min(next, beatEvery), err
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
	for finished := false; !finished && err == nil; {
		err = s.part.do(func(c *call) {
			c.add(func(r *reply) {
				r.found()
				finished = r.found()
			}, "resign", maxMoves)
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
