package storetest

import (
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// idLearner teaches the model of a history the ids that the store has chosen. A nil idLearner
// does nothing: then the model can predict all ids.
//
// The id of a job becomes known when the store first shows it: in the answer to its put, in the
// answer to another operation of the same batch, or after that when the store is asked for all
// jobs of a tube. What is learned is checked: no id stands for two jobs, and a new id is larger
// than all that were known. Dead letters are an exception; they are identified by the jobs that
// they were.
type idLearner struct {
	h       *history
	real    map[uint64]uint64 // by the ids that the model gave at first
	known   map[uint64]bool   // ids of the store
	newIDs  []uint64          // those of the present batch, without dead letters
	largest uint64            // of the ids of earlier batches
}

// learnLimit is the time limit for dead letters to appear.
const learnLimit = 20 * time.Second

func newIDLearner(h *history) *idLearner {
	h.model.learns = true
	return &idLearner{h: h, real: make(map[uint64]uint64), known: make(map[uint64]bool)}
}

// translate replaces the ids in an answer of the model by those of the store, before the two
// answers are compared.
func (l *idLearner) translate(op *storage.Op, want *storage.Answer) {
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
	l.translateEnded(got.Result, want.Result)
	if known := got.Result.Schedules(); len(known) == len(want.Result.Schedules()) {
		for i, s := range want.Result.Schedules() {
			record := *s
			record.Results.ID = l.learn(known[i].Results.ID, s.Results.ID)
			want.Result.Records[i] = &record
		}
	}
	slices.Sort(got.Names) // the order of tubes of several partitions is undefined
	slices.Sort(want.Names)
}

// translateEnded does that for records of ended jobs. A job that ends in the batch in which it was created has no id that could be
// learned; then its tube is not compared.
func (l *idLearner) translateEnded(got, want *storage.Result) {
	if got == nil || want == nil {
		return
	}
	for _, r := range want.Ended { // they are copies
		if r.ID >= provisional && l.real[r.ID] == 0 && len(got.Ended) == len(want.Ended) {
			want.Ended = got.Ended
			return
		}
		if id := l.real[r.ID]; id != 0 {
			r.ID = id
		}
	}
}

func (l *idLearner) learnJob(got, want *tube.JobStats) { want.ID = l.learn(got.ID, want.ID) }

// learn returns the id in the store of the job that the model calls want and the store shows as
// got. If the job is new, that is got.
func (l *idLearner) learn(got, want uint64) uint64 {
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
	if j == nil || j.metadata.FromID == 0 && !j.movedAlone {
		l.newIDs = append(l.newIDs, got)
		if got <= l.largest {
			l.h.Fatalf("a new job has the id %d after %d", got, l.largest)
		}
	}
	l.real[want], l.known[got] = got, true
	return got
}

// learnRest learns the ids of all jobs that were created and not shown.
func (l *idLearner) learnRest() {
	if l == nil || l.h.ended {
		return
	}
	l.h.Helper()
	for limit := time.Now().Add(learnLimit); !l.learnAll(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			l.h.Fatalf("the store does not show jobs that were created:%s", l.unknown())
		}
		l.h.advance(0)
	}
	l.h.model.sent, l.h.model.left = nil, nil
	for _, id := range l.newIDs {
		l.largest = max(l.largest, id)
	}
	l.newIDs = nil
}

// unknown describes the jobs that have no id yet.
func (l *idLearner) unknown() (s string) {
	for _, j := range l.h.model.jobs {
		if j.id >= provisional {
			s += "\n\t" + showJob(l.h.model.jobStats(j))
		}
	}
	return s
}

// learnAll learns what can be learned now; it returns false if ids are missing.
func (l *idLearner) learnAll() bool {
	m := l.h.model
	for _, dead := range m.sent {
		if s := l.ask(storage.Op{Kind: storage.JobStats, ID: dead.metadata.FromID}); !s.NotFound {
			return false
		}
	}
	for _, id := range m.left {
		if s := l.ask(storage.Op{Kind: storage.JobStats, ID: id}); !s.NotFound {
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

// search returns the stats in the store of a job whose id is not known: the first job that can
// be it, nil if there is none.
func (l *idLearner) search(j *modelJob) *tube.JobStats {
	op := storage.Op{Kind: storage.ListJobs, Tube: j.tube.name, State: j.state, MaxJobs: 1000}
	var found *tube.JobStats
	for _, stats := range l.ask(op).Result.Jobs {
		metadata := tube.Metadata{}
		if stats.Metadata != nil {
			metadata = *stats.Metadata
		}
		stats.Metadata = &metadata
		same := !l.known[stats.ID] && metadata.FromID == j.metadata.FromID && metadata.Group == j.metadata.Group && metadata.Batch == j.metadata.Batch && metadata.After == j.metadata.After && stats.Size == len(j.body) && stats.Pri == j.pri
		if same && (metadata.Key == j.metadata.Key || j.origKey != "") && (found == nil || stats.ID < found.ID) {
			found = &stats
		}
	}
	return found
}

// adopt gives a dead letter a key, or none, because the store has given the key to another one
// of the dead letters created at the same time: their order is undefined.
func (l *idLearner) adopt(j *modelJob, key string) {
	for _, twin := range l.h.model.sent {
		if twin != j && twin.tube == j.tube && twin.origKey == j.origKey && twin.metadata.Key != j.metadata.Key {
			twin.metadata.Key, j.metadata.Key = j.metadata.Key, key
			return
		}
	}
}

// ask carries out an operation that changes nothing, on the store alone.
func (l *idLearner) ask(op storage.Op) storage.Answer {
	ops := []storage.Op{op}
	storage.DoWait(l.h.store, ops)
	if err := ops[0].Answer.Err; err != nil {
		l.h.Fatalf("%s: %v", describe(&op), err)
	}
	return ops[0].Answer
}
