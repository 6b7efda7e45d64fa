package storetest

import (
	"math/rand/v2"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// LongestHeld is how long an Access stands still at most.
const LongestHeld = 400 * time.Second

// SharedStore is a store that several instances in this process use, each through an Access of its own. It must be the listener
// of that store.
type SharedStore struct {
	storage.Store
	mu       sync.Mutex
	accesses []*Access
}

// Access is how one instance reaches the store. It loses operations and answers, and stands still for up to
// LongestHeld, at random.
type Access struct {
	*SharedStore
	listener storage.Listener

	mu    sync.Mutex
	rng   *rand.Rand
	until time.Time // it stands still until then
}

// Open returns the access of one more instance.
func (s *SharedStore) Open(seed uint64) *Access {
	a := &Access{SharedStore: s, rng: rand.New(rand.NewPCG(seed, 0))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accesses = append(s.accesses, a)
	return a
}

// all returns the listeners of all instances.
func (s *SharedStore) all() (listeners []storage.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accesses {
		if a.listener != nil {
			listeners = append(listeners, a.listener)
		}
	}
	return listeners
}

func (s *SharedStore) WakeUp(string) bool { return true }
func (s *SharedStore) Waiting(string) int { return 0 }

func (s *SharedStore) Due(in time.Duration) {
	for _, l := range s.all() {
		l.Due(in)
	}
}

func (s *SharedStore) ClockSetBack(by time.Duration) {
	for _, l := range s.all() {
		l.ClockSetBack(by)
	}
}

func (s *SharedStore) JobEnded(id uint64) {
	for _, l := range s.all() {
		l.JobEnded(id)
	}
}

func (s *SharedStore) RecordsDue(kind tube.RecordKind) {
	for _, l := range s.all() {
		l.RecordsDue(kind)
	}
}

// Listen sets the listener of the instance.
func (a *Access) Listen(l storage.Listener) {
	a.SharedStore.mu.Lock()
	defer a.SharedStore.mu.Unlock()
	a.listener = l
}

// Close leaves the store open for the others.
func (a *Access) Close() error { return nil }

// fate decides what happens to a batch: how long it is held up, whether it is carried out, and whether its
// answers arrive.
func (a *Access) fate() (held time.Duration, lost, answerLost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rng.IntN(40) == 0 {
		a.until = time.Now().Add(time.Duration(a.rng.Int64N(int64(LongestHeld))))
	}
	return time.Until(a.until), a.rng.IntN(20) == 0, a.rng.IntN(20) == 0
}

func (a *Access) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		held, lost, answerLost := a.fate()
		go func() {
			if held > 0 {
				<-time.After(held)
			}
			if !lost {
				storage.DoWait(a.SharedStore.Store, b.Ops)
			}
			for i := range b.Ops {
				if lost || answerLost {
					b.Ops[i].Answer = storage.Answer{Err: storage.ErrUnavailable}
				}
			}
			b.Done()
		}()
	}
}
