package storetest

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// learning has the model of a history learn the ids of jobs from the store, whose own they are.
// A nil learning does nothing: then all ids can be foretold.
//
// A job gets its id when it is first shown: to whom put it, in the answer to another
// operation of the same batch, or after that when the store is asked for all jobs of a tube. What
// is learned is checked: no id stands for two jobs, and a new one is larger than all that were
// known, dead letters aside. Those are known by the jobs that they were.
type learning struct {
	h       *history
	real    map[uint64]uint64 // by the ids that the model gave first
	known   map[uint64]bool   // ids of the store
	news    []uint64          // those of the present batch, dead letters aside
	largest uint64            // of those of earlier batches
}

// learnLimit is how long dead letters may take.
const learnLimit = 20 * time.Second

func newLearning(h *history) *learning {
	h.model.learns = true
	return &learning{h: h, real: make(map[uint64]uint64), known: make(map[uint64]bool)}
}

// answered translates the ids in an answer of the model, which is to be compared with that of
// the store.
func (l *learning) answered(op *storage.Op, want *storage.Answer) {
	if l == nil {
		return
	}
	got := &op.Answer
	want.ID = l.learn(got.ID, want.ID)
	if got.Job != nil && want.Job != nil {
		l.learnJob(got.Job, want.Job)
	}
	if got.Result != nil && want.Result != nil && len(got.Result.Jobs) == len(want.Result.Jobs) {
		for i := range want.Result.Jobs {
			l.learnJob(&got.Result.Jobs[i], &want.Result.Jobs[i])
		}
	}
	slices.Sort(got.Names) // tubes of several partitions have no certain order
	slices.Sort(want.Names)
}

func (l *learning) learnJob(got, want *tube.JobStats) { want.ID = l.learn(got.ID, want.ID) }

// learn returns the id that the store has given to a job, which it shows as got; and got itself
// if it is new.
func (l *learning) learn(got, want uint64) uint64 {
	if want < provisional {
		return want
	}
	if id := l.real[want]; id != 0 {
		return id
	}
	if got == 0 || l.known[got] {
		return want
	}
	j := l.h.model.job(want)
	if j != nil {
		j.id = got
	}
	if j == nil || j.metadata.FromID == 0 {
		l.news = append(l.news, got)
		if got <= l.largest {
			l.h.Fatalf("a new job has the id %d after %d", got, l.largest)
		}
	}
	l.real[want], l.known[got] = got, true
	return got
}

// settle learns the ids of all jobs that have been made and not shown.
func (l *learning) settle() {
	if l == nil || l.h.ended {
		return
	}
	l.h.Helper()
	for limit := time.Now().Add(learnLimit); !l.learnAll(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			l.h.Fatalf("jobs that were made do not show:%s", l.unknown())
		}
		l.h.advance(0)
	}
	l.h.model.sent = nil
	for _, id := range l.news {
		l.largest = max(l.largest, id)
	}
	l.news = nil
}

// unknown says which jobs have no id yet.
func (l *learning) unknown() (s string) {
	for _, j := range l.h.model.jobs {
		if j.id >= provisional {
			s += "\n\t" + showJob(l.h.model.jobStats(j))
		}
	}
	return s
}

// learnAll learns what there is to be learned now; false if that is not all.
func (l *learning) learnAll() bool {
	m := l.h.model
	for _, dead := range m.sent {
		if s := l.ask(storage.Op{Kind: storage.JobStats, ID: dead.metadata.FromID}); !s.NotFound {
			return false
		}
	}
	for _, j := range slices.Clone(m.jobs) {
		if j.id < provisional {
			continue
		}
		stats := l.search(j)
		if stats == nil {
			return false
		}
		if stats.Metadata.Key != j.metadata.Key {
			l.adopt(j, stats.Metadata.Key)
		}
		l.learn(stats.ID, j.id)
	}
	return true
}

// search returns what the store says of a job whose id is not known: the first one of those that
// may be it, nil if there is none.
func (l *learning) search(j *modelJob) *tube.JobStats {
	op := storage.Op{Kind: storage.ListJobs, Tube: j.tube.name, State: j.state, MaxJobs: 1000}
	var found *tube.JobStats
	for _, stats := range l.ask(op).Result.Jobs {
		metadata := tube.Metadata{}
		if stats.Metadata != nil {
			metadata = *stats.Metadata
		}
		stats.Metadata = &metadata
		same := !l.known[stats.ID] && metadata.FromID == j.metadata.FromID && stats.Size == len(j.body) && stats.Pri == j.pri
		if same && (metadata.Key == j.metadata.Key || j.wanted != "") && (found == nil || stats.ID < found.ID) {
			found = &stats
		}
	}
	return found
}

// adopt has a dead letter have a key, or none, since the store has given that to another one of
// those that were made at the same time: which of them comes first is not certain.
func (l *learning) adopt(j *modelJob, key string) {
	for _, twin := range l.h.model.sent {
		if twin != j && twin.tube == j.tube && twin.wanted == j.wanted && twin.metadata.Key != j.metadata.Key {
			twin.metadata.Key, j.metadata.Key = j.metadata.Key, key
			return
		}
	}
}

// ask has the store alone carry out an operation that changes nothing.
func (l *learning) ask(op storage.Op) storage.Answer {
	ops := []storage.Op{op}
	storage.DoWait(l.h.store, ops)
	if err := ops[0].Answer.Err; err != nil {
		l.h.Fatalf("%s: %v", describe(&op), err)
	}
	return ops[0].Answer
}
