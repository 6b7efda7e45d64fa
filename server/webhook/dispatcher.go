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
	"redstalk/tube"
)

const (
	// DefaultConcurrency is how many calls at a time a tube has that does not say it.
	DefaultConcurrency = 32

	// DefaultTimeout is how long a call may take that does not say it.
	DefaultTimeout = 10 * time.Second

	// DefaultTargetConcurrency and DefaultCalls bound the calls at a time to one target,
	// and over all.
	DefaultTargetConcurrency = 128
	DefaultCalls             = 1024

	// DefaultNamedTubes is how many tubes are counted by name.
	DefaultNamedTubes = 1000

	// maxBodies bounds the bodies of jobs that are called, in bytes.
	maxBodies = 256 << 20

	// fewCalls is how many calls at a time there may be however large the bodies are.
	fewCalls = 8
)

// Config says how a Dispatcher behaves. The zero value sends nothing anywhere.
type Config struct {
	Allow   *Allow         // where anything may be sent; nil: nowhere
	Secrets *Secrets       // that sign webhooks; nil: they are not signed
	CAs     *x509.CertPool // of the targets; nil: those of the system
	Proxy   bool           // use the proxies that the environment names

	Calls             int // at a time; 0: DefaultCalls
	TargetConcurrency int // calls to one target at a time; 0: DefaultTargetConcurrency

	// NamedTubes is how many tubes are counted by name; 0: DefaultNamedTubes.
	NamedTubes int

	Version  string        // of the program, for the header user-agent; may be empty
	Resolver *net.Resolver // looks up the names of targets; nil: the usual one
	Log      *slog.Logger  // gets what an operator should know; nil: slog.Default

	// For tests: in place of the network, and of http.ProxyFromEnvironment.
	transport http.RoundTripper
	proxyOf   func(*http.Request) (*url.URL, error)
}

// Dispatcher calls the jobs of tubes that push, and those of Sources. All methods may be
// called from any goroutine.
type Dispatcher struct {
	config  Config
	queue   *queue.Queue
	client  *client
	secrets atomic.Pointer[Secrets]

	calling context.Context // ends when calls are to be cut off
	cutOff  context.CancelFunc

	wakeRound  chan struct{} // capacity 1: there may be something for a dispatch batch
	roundsDone chan struct{}
	follower   follower

	mu       sync.Mutex // guards everything below, and all outlets and targets
	outlets  map[string]*outlet
	targets  map[string]*target
	due      []*outlet // that may have jobs and may take some, in the order of their turns
	finished []finished
	leased   int    // jobs that are leased, or about to be
	bytes    int    // of the bodies of those that are leased
	running  int    // calls
	rest     counts // of calls of tubes that are not counted by name
	named    int    // tubes that are
	closing  bool
	idle     chan struct{} // closed when closing is set and nothing is leased
}

// finished is a call that has ended, and is to be told to the store.
type finished struct {
	job *Job
	op  storage.Op
}

// New starts a Dispatcher on a queue, whose watcher it becomes. The queue must be closed after
// the Dispatcher.
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
		wakeRound: make(chan struct{}, 1), roundsDone: make(chan struct{}), idle: make(chan struct{}),
		outlets: make(map[string]*outlet), targets: make(map[string]*target),
	}
	d.secrets.Store(config.Secrets)
	d.calling, d.cutOff = context.WithCancel(context.Background())
	d.follower.init(d)
	q.Watch(d)
	go d.rounds()
	go d.follower.run()
	return d
}

// SetSecrets has later calls signed with other secrets; nil: with none.
func (d *Dispatcher) SetSecrets(s *Secrets) { d.secrets.Store(s) }

// errTaken: a tube is in two sources.
var errTaken = errors.New("the tube has a source already")

// Register has the jobs of tubes called by a source, whatever the policies of the tubes say.
// remove ends that; calls that are under way go on.
func (d *Dispatcher) Register(s Source) (remove func(), err error) {
	its := s
	if its.Concurrency <= 0 {
		its.Concurrency = DefaultConcurrency
	}
	if its.Timeout <= 0 {
		its.Timeout = DefaultTimeout
	}
	if err := d.attend(+1, s.Tubes); err != nil {
		return nil, err
	}
	for i, name := range s.Tubes {
		added, replaced := d.addOutlet(newOutlet(name, &its))
		if !added {
			d.unregister(s.Tubes[:i])
			d.attend(-1, s.Tubes[i:])
			return nil, fmt.Errorf("%w: %s", errTaken, name)
		}
		if replaced {
			d.attend(-1, []string{name})
		}
	}
	return func() { d.unregister(s.Tubes) }, nil
}

func (d *Dispatcher) unregister(tubes []string) {
	for _, name := range tubes {
		d.removeOutlet(name, true)
	}
	d.attend(-1, tubes)
	d.follower.changed(tubes...) // their policies may push
}

// attend tells the store that so many more attend tubes: they exist then, and a store that
// several instances share goes on to tell this one of jobs.
func (d *Dispatcher) attend(delta int, tubes []string) error {
	if len(tubes) == 0 {
		return nil
	}
	answers, err := d.queue.Do(context.Background(), storage.Op{Kind: storage.Ref, Tubes: tubes, Role: tube.Watching, Delta: delta})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		return fmt.Errorf("attending the tubes that push: %w", err)
	}
	return nil
}

// Ready implements queue.Watcher.
func (d *Dispatcher) Ready(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.outlets[name]
	if o == nil {
		return false
	}
	o.hinted = true
	d.want(o)
	return o.queued
}

// PolicyChanged implements queue.Watcher.
func (d *Dispatcher) PolicyChanged(name string) { d.follower.changed(name) }

// Close takes no more jobs, and waits for the calls that are under way. When ctx ends it cuts
// them off; their jobs are given back.
func (d *Dispatcher) Close(ctx context.Context) error {
	d.queue.Watch(nil)
	d.mu.Lock()
	d.closing = true
	d.wake()
	d.mu.Unlock()
	d.follower.end()
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
