package webhook

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// lookEvery is how often the follower looks whether there is something to do, and
	// aloneEvery how often it lists the policies where no other instance can set one.
	lookEvery  = 2 * time.Second
	aloneEvery = time.Minute

	// perPolicy bounds what listing costs a store that several instances share: with so
	// many policies, so much longer than lookEvery.
	perPolicy = time.Millisecond

	// readAtOnce is how many policies are read with one call, and reread how many of those
	// that are known each time the follower looks.
	readAtOnce = 500
	reread     = 500

	// A tube that has no job is asked for one now and then, in case a wake-up was lost: of
	// many tubes a tenth, but between these numbers each time. After the store has failed
	// it is sweptFast of them, until all were asked.
	sweptLeast = 16
	sweptMost  = 1000
	sweptFast  = 10_000
)

// follower knows which tubes push by their policies. Its goroutine alone makes and removes
// outlets of policies.
type follower struct {
	d         *Dispatcher
	ctx       context.Context
	cancel    context.CancelFunc
	wakeUp    chan struct{} // capacity 1
	ended     chan struct{}
	refused   telemetry.Log
	instances int // that share the store, as far as is known; at least 1

	mu   sync.Mutex
	todo map[string]bool // whose policies are to be read
	fast bool            // the store has failed since all tubes were asked for jobs

	// The rest belongs to run.
	names  []string // of tubes with policies, sorted, as listed last
	listed time.Time
	next   int      // in names: whose policy is read again next
	swept  []string // tubes that are asked for jobs next
}

func (f *follower) init(d *Dispatcher) {
	f.d, f.wakeUp, f.ended, f.todo, f.instances = d, make(chan struct{}, 1), make(chan struct{}), make(map[string]bool), 1
	f.ctx, f.cancel = context.WithCancel(context.Background())
}

func (f *follower) end() {
	f.cancel()
	<-f.ended
}

// changed has the policies of tubes read soon.
func (f *follower) changed(names ...string) {
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
func (f *follower) storeFailed() {
	f.mu.Lock()
	f.fast = true
	f.mu.Unlock()
}

func (f *follower) run() {
	defer close(f.ended)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	f.look()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-f.wakeUp:
			f.readChanged()
		case <-look.C:
			f.readChanged()
			f.look()
			f.sweep()
		}
	}
}

// look lists the policies, if it is time for that, and reads some of them again.
func (f *follower) look() {
	if f.d.config.Allow == nil {
		return
	}
	every := max(lookEvery, time.Duration(len(f.names))*perPolicy)
	if f.instances == 0 {
		every = aloneEvery
	}
	if f.listed.IsZero() || time.Since(f.listed) >= every {
		f.list()
	} else if f.instances > 0 {
		f.rereadSome()
	}
}

// list lists the policies. New ones are read, and outlets of those that are gone are removed.
func (f *follower) list() {
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

// countInstances notes how many instances share the store; 0 if none can.
func (f *follower) countInstances() {
	s, err := f.d.queue.Stats(f.ctx)
	if err != nil {
		return
	}
	if n := int(s.Instances); n != f.instances {
		f.instances = n
		f.d.shareRates(n)
	}
}

// pushing returns the names of the tubes that push by their policies.
func (d *Dispatcher) pushing() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, o := range d.outlets {
		if o.url != nil {
			names = append(names, name)
		}
	}
	return names
}

// rereadSome reads some policies again: other instances may have set them.
func (f *follower) rereadSome() {
	if f.next >= len(f.names) {
		f.next = 0
	}
	some := f.names[f.next:min(f.next+reread, len(f.names))]
	f.next += len(some)
	f.read(some)
}

// readChanged reads the policies of which changed was told.
func (f *follower) readChanged() {
	f.mu.Lock()
	names := make([]string, 0, len(f.todo))
	for name := range f.todo {
		names = append(names, name)
	}
	clear(f.todo)
	f.mu.Unlock()
	f.read(names)
}

// read reads policies, and has outlets be as they say. What the store fails to do is tried
// again.
func (f *follower) read(names []string) {
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

// apply has outlets be as policies say.
func (f *follower) apply(names []string, answers []storage.Answer) {
	var made []*outlet
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
		o, dropped := f.d.follow(name, p)
		if o != nil {
			made = append(made, o)
		}
		if dropped {
			removed = append(removed, name)
		}
	}
	f.begin(made, again)
	if err := f.d.attend(-1, removed); err != nil {
		f.d.config.Log.Debug("leaving tubes that do not push any more failed", "err", err)
	}
}

// begin attends the tubes of outlets, and puts these to use. Those that failed are tried again
// when the follower looks the next time.
func (f *follower) begin(made []*outlet, again []string) {
	var names []string
	for _, o := range made {
		names = append(names, o.name)
	}
	if err := f.d.attend(+1, names); err != nil {
		again = append(again, names...)
		made = nil
	}
	for _, o := range made {
		f.d.setRate(o, f.instances)
		if added, _ := f.d.addOutlet(o); !added {
			f.d.attend(-1, []string{o.name})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range again {
		f.todo[name] = true
	}
}

// follow returns an outlet that is to be put to use for a policy, nil if none is, and whether
// there was one that has to go, which is out of use then.
func (d *Dispatcher) follow(name string, p tube.Push) (made *outlet, removed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.outlets[name]
	if old != nil && (old.source != nil || old.policy == p) {
		old.stale = false
		return nil, false
	}
	var kept *counts // by the next one
	u, err := url.Parse(p.URL)
	pushes := p.URL != "" && err == nil && d.config.Allow != nil && d.config.Allow.URL(p.URL)
	if old != nil {
		if pushes {
			kept, old.counts = old.counts, nil
		}
		d.retire(old)
	}
	if p.URL != "" && !pushes {
		d.follower.refused.Warn(d.config.Log, "a tube does not push, because its policy leads where --push-allow does not", "tube", name)
	}
	if !pushes {
		return nil, old != nil
	}
	return &outlet{name: name, url: u, policy: p, appetite: 1, counts: kept}, old != nil
}

// setRate gives an outlet the part of its rate that one of so many instances has.
func (d *Dispatcher) setRate(o *outlet, instances int) {
	if o.policy.Rate > 0 {
		o.bucket = newBucket(float64(o.policy.Rate)/float64(max(instances, 1)), o.policy.RateEvery)
	}
}

// shareRates divides the rates of policies among so many instances.
func (d *Dispatcher) shareRates(instances int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.outlets {
		if o.url != nil {
			d.setRate(o, instances)
		}
	}
}

// sweep asks some tubes for jobs that have none as far as is known.
func (f *follower) sweep() {
	d := f.d
	f.mu.Lock()
	fast := f.fast
	f.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(f.swept) == 0 {
		for name := range d.outlets {
			f.swept = append(f.swept, name)
		}
	}
	n := min(max(len(d.outlets)/10, sweptLeast), sweptMost)
	if fast {
		n = sweptFast
	}
	n = min(n, len(f.swept))
	for _, name := range f.swept[:n] {
		if o := d.outlets[name]; o != nil && !o.hungry {
			d.want(o)
		}
	}
	if f.swept = f.swept[n:]; len(f.swept) == 0 && fast {
		f.mu.Lock()
		f.fast = false
		f.mu.Unlock()
	}
}
