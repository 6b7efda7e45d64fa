package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// DefaultConcurrency is the number of concurrent calls of a tube that does not set it.
	DefaultConcurrency = 32

	// DefaultTimeout is the timeout of a call that does not set one.
	DefaultTimeout = 10 * time.Second

	// DefaultTargetConcurrency and DefaultCalls limit the concurrent calls to one target, and in
	// total.
	DefaultTargetConcurrency = 128
	DefaultCalls             = 1024

	// DefaultNamedTubes is the number of tubes that are counted by name.
	DefaultNamedTubes = 1000

	// maxBodies limits the bodies of the jobs that are being called, in bytes.
	maxBodies = 256 << 20

	// fewCalls is how many concurrent calls are always allowed, regardless of the size of
	// their bodies.
	fewCalls = 8
)

// Config configures a Dispatcher. With the zero value nothing is sent anywhere.
type Config struct {
	Allow   *Allow         // where requests may be sent; nil: nowhere
	Secrets *Secrets       // sign webhooks; nil: no signatures
	CAs     *x509.CertPool // for the targets; nil: those of the system
	Proxy   bool           // use the proxies named by the environment

	Calls             int // concurrent calls; 0: DefaultCalls
	TargetConcurrency int // concurrent calls to one target; 0: DefaultTargetConcurrency

	// NamedTubes is the number of tubes that are counted by name; 0: DefaultNamedTubes.
	NamedTubes int

	Version  string        // of the program, for the User-Agent header; may be empty
	Resolver *net.Resolver // resolves the names of targets; nil: the default one
	Log      *slog.Logger  // receives messages for operators; nil: slog.Default

	// For tests: replacements of the network and of http.ProxyFromEnvironment.
	transport http.RoundTripper
	proxyOf   func(*http.Request) (*url.URL, error)
}

// Dispatcher makes the calls for the jobs of tubes that push, and of Sources. All methods
// are safe for concurrent use.
type Dispatcher struct {
	config  Config
	queue   *queue.Queue
	client  *client
	secrets atomic.Pointer[Secrets]

	calling context.Context // ends when calls must be cut off
	cutOff  context.CancelFunc

	wakeDispatch chan struct{} // capacity 1: there may be something to dispatch
	dispatchDone chan struct{}
	policies     policyReader
	cutLog       telemetry.Throttle // of answers that are no results

	mu            sync.Mutex // guards everything below, and all subscriptions and targets
	subscriptions map[string]*subscription
	targets       map[string]*target
	runnable      []*subscription // subscriptions that may have jobs and may take some, in the order of their turns
	finished      []finished
	leased        int    // jobs that are leased, or about to be
	bytes         int    // of the bodies of leased jobs
	running       int    // calls under way
	rest          counts // calls of tubes that are not counted by name
	named         int    // tubes that are counted by name
	closing       bool
	idle          chan struct{} // closed when closing is set and nothing is leased
}

// finished is a call that has ended and whose outcome must be written to the store.
type finished struct {
	job *Job
	op  storage.Op
}

// New starts a Dispatcher on a queue and becomes the queue's watcher. The queue must be
// closed after the Dispatcher.
func New(q *queue.Queue, config Config) *Dispatcher {
	if config.Calls == 0 {
		config.Calls = DefaultCalls
	}
	if config.TargetConcurrency == 0 {
		config.TargetConcurrency = DefaultTargetConcurrency
	}
	if config.NamedTubes == 0 {
		config.NamedTubes = DefaultNamedTubes
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	d := &Dispatcher{
		config: config, queue: q, client: newClient(&config),
		wakeDispatch: make(chan struct{}, 1), dispatchDone: make(chan struct{}), idle: make(chan struct{}),
		subscriptions: make(map[string]*subscription), targets: make(map[string]*target),
	}
	d.secrets.Store(config.Secrets)
	d.calling, d.cutOff = context.WithCancel(context.Background())
	d.policies.init(d)
	q.Watch(d)
	go d.runDispatch()
	go d.policies.run()
	return d
}

// SetSecrets sets the secrets that sign later calls; nil: no signatures.
func (d *Dispatcher) SetSecrets(s *Secrets) { d.secrets.Store(s) }

// errTaken is returned if a tube already has a source.
var errTaken = errors.New("the tube already has a source")

// Register makes a source call the jobs of its tubes, whatever the policies of the tubes say.
// remove ends the registration; calls that are under way continue.
func (d *Dispatcher) Register(s Source) (remove func(), err error) {
	source := s
	if source.Concurrency <= 0 {
		source.Concurrency = DefaultConcurrency
	}
	if source.Timeout <= 0 {
		source.Timeout = DefaultTimeout
	}
	if err := d.watch(+1, s.Tubes); err != nil {
		return nil, err
	}
	for i, name := range s.Tubes {
		added, replaced := d.addSubscription(newSubscription(name, &source))
		if !added {
			d.unregister(s.Tubes[:i])
			d.watch(-1, s.Tubes[i:])
			return nil, fmt.Errorf("%w: %s", errTaken, name)
		}
		if replaced {
			d.watch(-1, []string{name})
		}
	}
	return func() { d.unregister(s.Tubes) }, nil
}

func (d *Dispatcher) unregister(tubes []string) {
	for _, name := range tubes {
		d.removeSubscription(name, true)
	}
	d.watch(-1, tubes)
	d.policies.changed(tubes...) // their policies may push
}

// watch adds delta to the number of clients that watch the tubes. A watched tube exists, and a
// store that several instances share sends its wake-ups to this instance.
func (d *Dispatcher) watch(delta int, tubes []string) error {
	if len(tubes) == 0 {
		return nil
	}
	answers, err := d.queue.Do(context.Background(), storage.Op{Kind: storage.Ref, Tubes: tubes, Role: tube.Watching, Delta: delta})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return fmt.Errorf("watching the tubes that push: %w", err)
	}
	return nil
}

// WakeUp implements queue.Watcher.
func (d *Dispatcher) WakeUp(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	sub := d.subscriptions[name]
	if sub == nil {
		return false
	}
	sub.woken = true
	d.enqueue(sub)
	return sub.queued
}

// PolicyChanged implements queue.Watcher.
func (d *Dispatcher) PolicyChanged(name string) { d.policies.changed(name) }

// Close takes no more jobs, and waits for the calls that are under way. When ctx ends, it
// cuts them off; their jobs are given back.
func (d *Dispatcher) Close(ctx context.Context) error {
	d.queue.Watch(nil)
	d.mu.Lock()
	d.closing = true
	d.wake()
	d.mu.Unlock()
	d.policies.end()
	var err error
	select {
	case <-d.idle:
	case <-ctx.Done():
		err = ctx.Err()
		d.cutOff()
		select {
		case <-d.idle:
		case <-time.After(closeGrace): // a source or the store does not answer
		}
	}
	d.cutOff()
	return err
}

// closeGrace is how long Close waits for calls that it has cut off.
const closeGrace = time.Second
