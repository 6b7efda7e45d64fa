package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/clients/go/client"
)

// A Worker takes jobs and calls handlers.
type Worker struct {
	client *client.Client
	config Config
}

// New returns a worker that uses a client, which the caller closes after [Worker.Run] has returned.
func New(c *client.Client, config Config) *Worker {
	config.setDefaults()
	return &Worker{client: c, config: config}
}

// Run takes jobs and calls the handlers of mux until the context ends or a signal comes. While no server
// is available, or it refuses the worker, that is logged and tried again. If the client is closed, Run shuts down and returns
// [client.ErrClosed]; if the server refuses a schedule, the error says which.
//
// Then it takes no more jobs, tells the handlers by [Job.Stopping], waits for them, and returns nil. After ShutdownTimeout, or a second
// signal, it ends their contexts. A second later it gives back the jobs whose handlers have still not returned, and
// returns an error with their number. Jobs that are given back are ready at once, and have not failed. (Only a redstalk without
// the capability reason counts a failure, and applies the retry waits of the job.)
func (w *Worker) Run(ctx context.Context, mux *Mux) error {
	handlers, err := mux.wrapped()
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	r := &run{
		Worker: w, handlers: handlers,
		free: make(chan struct{}, w.config.Concurrency), settling: make(chan struct{}, w.config.Concurrency), held: map[*lease]struct{}{},
		broken: make(chan error, w.config.Concurrency+1),
	}
	weights := w.config.Tubes
	if weights == nil {
		weights = map[string]int{}
		for tube := range r.handlers {
			weights[tube] = 1
		}
	}
	if err := r.check(weights); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	r.picker = newPicker(weights, w.config.StrictPriority)
	return r.serve(ctx)
}

// A run is one call of Run.
type run struct {
	*Worker
	handlers map[string]Handler
	picker   *picker
	free     chan struct{} // has an element for each handler that could be running
	settling chan struct{} // has an element for each job whose handler has returned, and that is being settled

	broken chan error // receives why the worker cannot work, once from each fetcher and from the setter of schedules

	stopping <-chan struct{} // closed when the worker is told to stop

	abort context.Context // the parent of all handlers' contexts
	ended context.Context // ends when Run returns

	reasons atomic.Bool // the server sends the retry waits with the job

	mu      sync.Mutex
	held    map[*lease]struct{} // jobs that are not settled yet
	running sync.WaitGroup      // fetchers and handlers
}

// check finds errors in the configuration.
func (r *run) check(weights map[string]int) error {
	if len(weights) == 0 {
		return errors.New("no tubes")
	}
	for tube, weight := range weights {
		if r.handlers[tube] == nil {
			return fmt.Errorf("tube %s has no handler", tube)
		}
		if weight <= 0 {
			return fmt.Errorf("tube %s has the weight %d", tube, weight)
		}
	}
	for name, p := range r.config.Schedules {
		if p.When.Tube != "" {
			return fmt.Errorf("schedule %s: its tube is that of Job, not of When", name)
		}
	}
	return nil
}

// serve runs the fetchers until shutdown, and then shuts down.
func (r *run) serve(ctx context.Context) error {
	abort, abortNow := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abortNow(nil)
	ended, end := context.WithCancel(context.Background())
	defer end()
	r.abort, r.ended = abort, ended
	for range r.config.Concurrency {
		r.free <- struct{}{}
	}
	signals := make(chan os.Signal, 2)
	if len(r.config.Signals) > 0 {
		signal.Notify(signals, r.config.Signals...)
		defer signal.Stop(signals)
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	r.stopping = fetching.Done()
	r.running.Go(func() { r.fetch(fetching) })
	r.running.Go(func() { r.setSchedules(fetching) })
	var broken error
	select {
	case <-ctx.Done():
	case s := <-signals:
		r.config.Logger.Info("shutting down", "signal", s)
	case broken = <-r.broken:
		broken = fmt.Errorf("worker: %w", broken)
	}
	stop()
	return errors.Join(broken, r.shutdown(abortNow, signals))
}

// The last time that handlers have to return after their contexts have ended.
const lastSecond = time.Second

// shutdown waits for the handlers, then ends their contexts, then gives back what is left.
func (r *run) shutdown(abort context.CancelCauseFunc, signals <-chan os.Signal) error {
	returned := make(chan struct{})
	go func() {
		r.running.Wait()
		close(returned)
	}()
	limit := time.NewTimer(r.config.ShutdownTimeout)
	defer limit.Stop()
	select {
	case <-returned:
		return nil
	case <-limit.C:
	case s := <-signals:
		r.config.Logger.Info("giving back jobs", "signal", s)
	}
	abort(ErrShutdown)
	limit.Reset(lastSecond)
	select {
	case <-returned:
		return nil
	case <-limit.C:
	}
	if n := r.giveBackAll(); n > 0 {
		return fmt.Errorf("worker: %d handlers did not return; their jobs were given back", n)
	}
	return nil
}

// giveBackAll gives back the jobs whose handlers have not returned, and returns their number.
func (r *run) giveBackAll() int {
	r.mu.Lock()
	left := slices.Collect(maps.Keys(r.held))
	r.mu.Unlock()
	var all sync.WaitGroup
	n := 0
	for _, l := range left {
		if l.claim() {
			n++
			all.Go(func() { r.giveBack(l) })
		}
	}
	all.Wait()
	return n
}
