package redis

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/storage/storetest"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// twoInstances is two stores on one Redis that look like one, as storetest.Engine.TwoInstances
// describes it. What has no holder is carried out by either.
type twoInstances struct {
	stores [2]*Store
	mu     sync.Mutex // guards random and holder
	random *rand.Rand
	holder int // the store that got a reservation last, which alone can have some
}

func (p *twoInstances) Listen(l storage.Listener) {
	for _, s := range p.stores {
		s.Listen(l)
	}
}

func (p *twoInstances) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		p.publishIDs()
		p.stores[p.instance(b.Ops)].Do(b)
	}
}

// instance returns which store carries out these operations: that of their holder, if any has one.
// References to tubes are all in the first one, which shows them at once.
func (p *twoInstances) instance(ops []storage.Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.random.IntN(2)
	for i := range ops {
		op := &ops[i]
		of := op.Kind == storage.Take || op.Kind == storage.Move || op.Kind == storage.ReleaseAll
		switch {
		case op.Kind == storage.Ref, op.Kind == storage.TubeStats:
			return 0
		case of && op.Holder != tube.LeaseHolder:
			at = int(op.Holder % 2)
		}
		if op.Holder != tube.LeaseHolder && (op.Kind == storage.Take || op.Move == tube.ReserveJob) {
			p.holder = at
		}
	}
	return at
}

// publishIDs makes each instance know the ids that the other has assigned, as a heartbeat does.
func (p *twoInstances) publishIDs() {
	a, b := p.stores[0].parts[0].ids.order, p.stores[1].parts[0].ids.order
	a.saw(b.last.Load())
	b.saw(a.last.Load())
}

// Tick ticks first where there can be reservations. No instance is declared dead, because no
// real time has passed.
func (p *twoInstances) Tick() (next time.Duration, err error) {
	for _, s := range p.stores {
		err := s.each(func(p *partition) error {
			return p.do(func(*call) { p.heartbeat.doubt(p.clock.now()) })
		})
		if err != nil {
			return 0, err
		}
	}
	next = storage.Forever
	for i := range p.stores {
		due, err := p.stores[(p.holder+i)%2].TickAll()
		if err != nil {
			return 0, err
		}
		next = min(next, due)
	}
	return next, nil
}

func (p *twoInstances) TickAll() (time.Duration, error) { return p.Tick() }

func (p *twoInstances) Shared() bool { return true }

func (p *twoInstances) Close() error {
	var first error
	for _, s := range p.stores {
		if err := s.Close(); first == nil {
			first = err
		}
	}
	return first
}

// TestTwoInstances runs the random histories about tags, policies and leases on two instances:
// what one does with the jobs and keys of the other. In some the tubes are in several
// partitions, and some jobs are large.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for name, e := range map[string]*engines{
		"together":   {partitions: 1},
		"partitions": {partitions: 4, brief: 2, largeFrom: schema.NameAt + len("default") + 6},
	} {
		t.Run(name, func(t *testing.T) {
			if e.partitions > 1 {
				skipIfShort(t)
			}
			e.url, e.prefix = url, name
			storetest.RunRules(t, e.freshOfTwo)
			e.check(t)
		})
	}
}

// TestGroupsOfTwoInstances runs the cases about groups, limits and rates on two instances.
func TestGroupsOfTwoInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	t.Parallel()
	e := &engines{url: redistest.Start(t).URL(), partitions: 1}
	storetest.RunGroups(t, e.freshOfTwo)
	e.check(t)
}

// freshOfTwo is fresh for two instances.
func (e *engines) freshOfTwo(t testing.TB) *storetest.Engine {
	engine := e.fresh(t)
	if engine.Plain != nil {
		engine = engine.Plain
	}
	open := engine.Open
	engine.TwoInstances, engine.Unit = true, 100
	engine.Open = func(t testing.TB) storage.Store {
		p := &twoInstances{random: rand.New(rand.NewPCG(uint64(e.opened), 0))}
		for i := range p.stores {
			p.stores[i] = open(t).(*Store)
		}
		return p
	}
	return engine
}

// TestDeletedElsewhere: once a worker has been told that its job is gone, which another instance has deleted, its connection holds nothing: it gets no
// DEADLINE_SOON for that job.
func TestDeletedElsewhere(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	worker, other := newEndedTest(t, Options{URL: url}), newEndedTest(t, Options{URL: url})
	for _, m := range []tube.Move{tube.Touch, tube.SaveCheckpoint, tube.Release, tube.Bury, tube.Delete, tube.Finish} {
		worker.put("t", tube.Tags{Key: "k"})
		id := worker.take("t")
		other.ok(storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "k"}})
		if a := do(worker.Store, storage.Op{Kind: storage.Move, Move: m, Holder: 1, ID: id, Args: new(storage.Args)}); !a.NotFound {
			t.Errorf("%v: %+v", m, a)
		}
		if a := do(worker.Store, takeOf(1, "t")); a.Soon != storage.Forever {
			t.Errorf("%v: a deadline in %v", m, a.Soon)
		}
	}
}
