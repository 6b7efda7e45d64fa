package jobbatch

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

// TestInstances: three instances, which stand still for up to minutes, lose operations and answers, and are
// replaced, let the after-jobs of each batch run once, after all of its members, and leave none held.
func TestInstances(t *testing.T) {
	seeds, batches := 20, 200
	if testing.Short() {
		seeds, batches = 1, 100
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runInstances(t, seed, batches) })
		})
	}
}

func runInstances(t *testing.T, seed uint64, batches int) {
	store := &storetest.SharedStore{Store: embedded.NewMemory()}
	store.Store.Listen(store)
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, store: store.Store, rng: rng, batches: map[string]*ledger{}, afters: map[uint64]*after{}}
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
		<-time.After(storetest.LongestHeld) // operations of instances that are gone can still arrive
		store.Store.Close()
	}()
	for n := 0; len(w.batches) < batches; n++ {
		if len(stops) == 3 {
			k := rng.IntN(3)
			stops[k]()
			stops = append(stops[:k], stops[k+1:]...)
		}
		stops = append(stops, runInstance(store.Open(seed<<32+uint64(n))))
		for range 50 {
			w.step()
			<-time.After(time.Duration(rng.IntN(20)) * time.Second)
		}
	}
	w.finish()
}

// runInstance runs an instance until it is stopped.
func runInstance(a *storetest.Access) (stop func()) {
	q := queue.New(a, queue.Config{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		New(q, nil).Run(ctx)
		close(ended)
	}()
	return func() {
		cancel()
		<-ended
		a.Listen(nil)
		q.Close(context.Background())
	}
}

// world puts members and after-jobs, ends members in all ways, and checks after each step which after-jobs run.
type world struct {
	t       *testing.T
	store   storage.Store
	rng     *rand.Rand
	batches map[string]*ledger
	open    []string // not sealed
	members []uint64
	afters  map[uint64]*after
}

// ledger is what the test knows of a batch.
type ledger struct {
	sealed                bool
	live                  map[uint64]bool // members: whether it is parked
	gone                  int
	wasComplete, wasEnded bool // at some time all members were done, or had ended
}

type after struct {
	id    uint64
	batch string
	all   bool
}

func (w *world) do(op storage.Op) *storage.Answer {
	ops := []storage.Op{op}
	storage.DoWait(w.store, ops)
	if a := &ops[0].Answer; a.Err != nil {
		w.t.Fatalf("%v: %v", op.Kind, a.Err)
	}
	return &ops[0].Answer
}

func (w *world) get(batch string) tube.JobBatch {
	r := w.do(storage.Op{Kind: storage.GetRecord, Records: tube.JobBatches, Args: &storage.Args{Name: batch}}).Result
	if r == nil || len(r.Batches()) == 0 {
		return tube.JobBatch{}
	}
	b := *r.Batches()[0]
	b.After = nil
	return b
}

func (w *world) put(tubeName string, tags *tube.Tags) uint64 {
	return w.do(storage.Op{Kind: storage.Put, Tube: tubeName, TTR: 1 << 30, Args: &storage.Args{Tags: tags}}).ID
}

// step does one thing.
func (w *world) step() {
	switch n := w.rng.IntN(10); {
	case n < 3 || len(w.open) == 0:
		w.addBatch()
	case n < 6:
		w.addJob(w.open[w.rng.IntN(len(w.open))])
	case n < 7:
		w.seal(w.rng.IntN(len(w.open)))
	default:
		w.endMember()
	}
	w.note()
	w.check()
}

func (w *world) addBatch() {
	name := fmt.Sprint("b", len(w.batches))
	w.batches[name] = &ledger{live: map[uint64]bool{}}
	w.open = append(w.open, name)
	w.addJob(name)
}

// addJob puts a member of a batch or a job after it, which can be a member of a later one.
func (w *world) addJob(name string) {
	tags := new(tube.Tags)
	if w.rng.IntN(3) > 0 {
		tags.Batch = name
	} else {
		tags.After, tags.AfterAll = name, w.rng.IntN(2) == 0
		if later := w.open[w.rng.IntN(len(w.open))]; later > name {
			tags.Batch = later
		}
	}
	id := w.put(fmt.Sprint("t", w.rng.IntN(3)), tags)
	if tags.Batch != "" {
		w.batches[tags.Batch].live[id] = false
	}
	if tags.After != "" {
		w.afters[id] = &after{id, tags.After, tags.AfterAll}
	} else {
		w.members = append(w.members, id)
	}
}

func (w *world) seal(k int) {
	w.do(storage.Op{Kind: storage.SealBatch, Args: &storage.Args{Name: w.open[k]}})
	w.batches[w.open[k]].sealed = true
	w.open = append(w.open[:k], w.open[k+1:]...)
}

// endMember deletes a member, buries it, kicks it, or removes it.
func (w *world) endMember() {
	if len(w.members) == 0 {
		return
	}
	id := w.members[w.rng.IntN(len(w.members))]
	switch n := w.rng.IntN(20); {
	case n < 14:
		if !w.do(storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id}).NotFound {
			w.forget(id, false)
		}
	case n < 17:
		holder := tube.Holder(1)
		if w.do(storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: holder, ID: id}).NotFound {
			return
		}
		w.setParked(id, false)
		w.do(storage.Op{Kind: storage.Move, Move: tube.Bury, Holder: holder, ID: id})
		w.setParked(id, true)
	case n < 19:
		if !w.do(storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: id}).NotFound {
			w.setParked(id, false)
		}
	}
}

func (w *world) setParked(id uint64, parked bool) {
	for _, b := range w.batches {
		if _, is := b.live[id]; is {
			b.live[id] = parked
		}
	}
}

// forget notes that a job has ended.
func (w *world) forget(id uint64, gone bool) {
	for i, m := range w.members {
		if m == id {
			w.members = append(w.members[:i], w.members[i+1:]...)
			break
		}
	}
	for _, b := range w.batches {
		if _, is := b.live[id]; is {
			delete(b.live, id)
			if gone {
				b.gone++
			}
		}
	}
}

// note notes which batches are complete or ended now. A member that runs after another batch can have been parked, and let go
// again, since the last look.
func (w *world) note() {
	for _, b := range w.batches {
		mayBeParked := 0
		for id, parked := range b.live {
			if parked || w.afters[id] != nil {
				mayBeParked++
			}
		}
		b.wasEnded = b.wasEnded || b.sealed && len(b.live) == mayBeParked
		b.wasComplete = b.wasComplete || b.sealed && len(b.live) == 0 && b.gone == 0
	}
}

// check looks at the after-jobs: those that run are deleted, as workers do, and must have been allowed to.
func (w *world) check() {
	for id, a := range w.afters {
		stats := w.do(storage.Op{Kind: storage.JobStats, ID: id})
		if stats.NotFound {
			w.t.Fatalf("the job %d after %s is lost", id, a.batch)
		}
		b := w.batches[a.batch]
		switch j := stats.Job; j.State {
		case tube.Ready:
			if !b.wasComplete && !(a.all && b.wasEnded) {
				w.t.Fatalf("the job %d after %s runs early (all: %v, sealed: %v, %d members)", id, a.batch, a.all, b.sealed, len(b.live))
			}
			delete(w.afters, id)
			w.do(storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
			w.forget(id, false)
			w.note()
		case tube.Buried:
			w.setParked(id, true)
		case tube.Delayed:
			w.setParked(id, false)
		}
	}
	w.note()
}

// finish seals all batches, ends all members, and checks that no after-job stays held.
func (w *world) finish() {
	for len(w.open) > 0 {
		w.seal(0)
	}
	w.note()
	for len(w.members) > 0 {
		id := w.members[0]
		w.do(storage.Op{Kind: storage.Move, Move: tube.Delete, ID: id})
		w.forget(id, false)
		w.note()
	}
	for range len(w.batches) {
		w.check()
		<-time.After(2 * storetest.LongestHeld)
	}
	for id, a := range w.afters {
		j := w.do(storage.Op{Kind: storage.JobStats, ID: id}).Job
		if j.State != tube.Buried || w.batches[a.batch].wasComplete {
			w.t.Errorf("the job %d after %s is %v at the end, %v; the batch is %+v", id, a.batch, j.State, j.Metadata.Parked, w.get(a.batch))
		}
	}
}
