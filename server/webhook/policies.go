package webhook

import (
	"context"
	"slices"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// pollEvery is how often the policy reader checks whether there is something to do, and
	// aloneEvery how often it lists the policies if no other instance can set one.
	pollEvery  = 2 * time.Second
	aloneEvery = time.Minute

	// perPolicy limits the cost of listing for a store that several instances share: the
	// interval is at least this long for each policy.
	perPolicy = time.Millisecond

	// readAtOnce is how many policies one call reads, and reread how many known policies are
	// read again in each poll.
	readAtOnce = 500
	reread     = 500

	// Tubes without a known job are polled from time to time, in case a wake-up was lost: a
	// tenth of all tubes each time, within these limits. After the store has failed,
	// sweptFast tubes are polled each time, until all have been polled once.
	sweptLeast = 16
	sweptMost  = 1000
	sweptFast  = 10_000
)

// policyReader keeps track of the tubes whose policies push. Only its goroutine adds and
// removes the subscriptions of policies.
type policyReader struct {
	d         *Dispatcher
	ctx       context.Context
	cancel    context.CancelFunc
	wakeUp    chan struct{} // capacity 1
	ended     chan struct{}
	refused   telemetry.Throttle
	instances int // instances that share the store, as far as is known; at least 1

	mu   sync.Mutex
	todo map[string]bool // tubes whose policies must be read
	fast bool            // the store has failed since all tubes were last asked for jobs

	// The rest belongs to run.
	names  []string // of tubes with policies, sorted, as last listed
	listed time.Time
	next   int      // in names: the policy that is read again next
	swept  []string // tubes that are asked for jobs next
}

func (f *policyReader) init(d *Dispatcher) {
	f.d, f.wakeUp, f.ended, f.todo, f.instances = d, make(chan struct{}, 1), make(chan struct{}), make(map[string]bool), 1
	f.ctx, f.cancel = context.WithCancel(context.Background())
}

func (f *policyReader) end() {
	f.cancel()
	<-f.ended
}

// changed makes the policies of tubes be read again soon.
func (f *policyReader) changed(names ...string) {
	f.mu.Lock()
	for _, name := range names {
		f.todo[name] = true
	}
	f.mu.Unlock()
	select {
	case f.wakeUp <- struct{}{}:
	default:
	}
}

// storeFailed records that wake-ups may have been lost.
func (f *policyReader) storeFailed() {
	f.mu.Lock()
	f.fast = true
	f.mu.Unlock()
}

func (f *policyReader) run() {
	defer close(f.ended)
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	f.poll()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.wakeUp:
			f.readChanged()
		case <-ticker.C:
			f.readChanged()
			f.poll()
			f.sweep()
		}
	}
}

// poll lists the policies, if it is time for that, and otherwise reads some of them again.
func (f *policyReader) poll() {
	if f.d.config.Allow == nil {
		return
	}
	every := max(pollEvery, time.Duration(len(f.names))*perPolicy)
	if f.instances == 0 {
		every = aloneEvery
	}
	if f.listed.IsZero() || time.Since(f.listed) >= every {
		f.list()
	} else if f.instances > 0 {
		f.rereadSome()
	}
}

// list lists the policies. It reads new ones, and removes the subscriptions of policies that
// are gone.
func (f *policyReader) list() {
	names, err := f.d.queue.Policies(f.ctx)
	if err != nil {
		f.d.config.Log.Debug("listing the policies failed", "err", err)
		return
	}
	f.countInstances()
	old := f.names
	f.names, f.listed = names, time.Now()
	var fresh []string
	for _, name := range names {
		if _, known := slices.BinarySearch(old, name); !known {
			fresh = append(fresh, name)
		}
	}
	f.read(fresh)
	for _, name := range f.d.pushing() {
		if _, ok := slices.BinarySearch(names, name); !ok {
			f.changed(name) // it may have been set since
		}
	}
}

// countInstances records how many instances share the store: 0 if the store cannot be
// shared.
func (f *policyReader) countInstances() {
	s, err := f.d.queue.Stats(f.ctx)
	if err != nil {
		return
	}
	f.instances = int(s.Instances)
}

// rereadSome reads some policies again: other instances may have set them.
func (f *policyReader) rereadSome() {
	if f.next >= len(f.names) {
		f.next = 0
	}
	some := f.names[f.next:min(f.next+reread, len(f.names))]
	f.next += len(some)
	f.read(some)
}

// readChanged reads the policies that were passed to changed.
func (f *policyReader) readChanged() {
	f.mu.Lock()
	names := make([]string, 0, len(f.todo))
	for name := range f.todo {
		names = append(names, name)
	}
	clear(f.todo)
	f.mu.Unlock()
	f.read(names)
}

// read reads policies and updates the subscriptions. Policies that could not be read are tried
// again.
func (f *policyReader) read(names []string) {
	for some := range slices.Chunk(names, readAtOnce) {
		ops := make([]storage.Op, len(some))
		for i, name := range some {
			ops[i] = storage.Op{Kind: storage.GetPolicy, Tube: name}
		}
		answers, err := f.d.queue.Do(f.ctx, ops...)
		if err != nil {
			answers = failed(len(ops), err)
		}
		f.apply(some, answers)
	}
}

// apply updates the subscriptions from policies.
func (f *policyReader) apply(names []string, answers []storage.Answer) {
	var added []*subscription
	var removed, again []string
	for i, name := range names {
		a := &answers[i]
		var p tube.Push
		switch {
		case a.Err != nil:
			again = append(again, name)
			continue
		case !a.NotFound:
			p = a.Result.Policy.Push
		}
		sub, dropped := f.d.applyPolicy(name, p)
		if sub != nil {
			added = append(added, sub)
		}
		if dropped {
			removed = append(removed, name)
		}
	}
	f.addSubscriptions(added, again)
	if err := f.d.watch(-1, removed); err != nil {
		f.d.config.Log.Debug("leaving tubes that do not push any more failed", "err", err)
	}
}

// addSubscriptions watches the tubes of subscriptions, and adds these. Those that failed are
// tried again at the next poll.
func (f *policyReader) addSubscriptions(added []*subscription, again []string) {
	var names []string
	for _, sub := range added {
		names = append(names, sub.name)
	}
	if err := f.d.watch(+1, names); err != nil {
		again = append(again, names...)
		added = nil
	}
	for _, sub := range added {
		if added, _ := f.d.addSubscription(sub); !added {
			f.d.watch(-1, []string{sub.name})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range again {
		f.todo[name] = true
	}
}

// sweep polls some of the tubes without a known job.
func (f *policyReader) sweep() {
	d := f.d
	f.mu.Lock()
	fast := f.fast
	f.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(f.swept) == 0 {
		for name := range d.subscriptions {
			f.swept = append(f.swept, name)
		}
	}
	n := min(max(len(d.subscriptions)/10, sweptLeast), sweptMost)
	if fast {
		n = sweptFast
	}
	n = min(n, len(f.swept))
	for _, name := range f.swept[:n] {
		if sub := d.subscriptions[name]; sub != nil && !sub.backlog {
			d.enqueue(sub)
		}
	}
	if f.swept = f.swept[n:]; len(f.swept) == 0 && fast {
		f.mu.Lock()
		f.fast = false
		f.mu.Unlock()
	}
}
