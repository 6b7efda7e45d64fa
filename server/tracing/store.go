package tracing

import (
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Store returns a store that exports spans of what is done with s. It is a storage.PollingStore if s is one, and no
// other kind of store. It must be called once.
func (t *Tracer) Store(s storage.Store) storage.Store {
	t.watch(s)
	traced := &tracedStore{Store: s, tracer: t}
	if polling, ok := s.(storage.PollingStore); ok {
		return &tracedPollingStore{tracedStore: traced, polling: polling}
	}
	return traced
}

type tracedStore struct {
	storage.Store
	tracer *Tracer
}

// Do implements storage.Store.
func (s *tracedStore) Do(batches ...*storage.Batch) {
	s.tracer.observe(batches)
	s.Store.Do(batches...)
}

type tracedPollingStore struct {
	*tracedStore
	polling storage.PollingStore
}

// DoPolling implements storage.PollingStore.
func (s *tracedPollingStore) DoPolling(more func(read bool) int, batches ...*storage.Batch) {
	s.tracer.observe(batches)
	s.polling.DoPolling(more, batches...)
}

// observe makes the Done of batches export spans first. Whoever owns a batch may use it again, so it gets its own Done back.
func (t *Tracer) observe(batches []*storage.Batch) {
	began := time.Now()
	for _, b := range batches {
		if !t.prepare(b.Ops) {
			continue
		}
		done := b.Done
		b.Done = func() {
			b.Done = done
			t.done(b.Ops, began)
			done()
		}
	}
}

// prepare makes operations answer what spans need. It reports whether there can be spans of them.
func (t *Tracer) prepare(ops []storage.Op) (any bool) {
	for i := range ops {
		switch op := &ops[i]; op.Kind {
		case storage.Take:
			op.Trace, any = true, true
		case storage.Move:
			op.Trace, any = op.Move == tube.ReserveJob, true
		case storage.Put, storage.PutScheduled:
			any = any || isTraced(op)
		case storage.ReleaseAll:
			any = true
		}
	}
	return any
}

// isTraced reports whether a put is of a job whose trace is sampled.
func isTraced(op *storage.Op) bool {
	return op.Args != nil && op.Args.Tags != nil && sampled(op.Args.Tags.Trace)
}

// done exports the spans that operations have begun or ended.
func (t *Tracer) done(ops []storage.Op, began time.Time) {
	now := time.Now()
	for i := range ops {
		op := &ops[i]
		switch a := &op.Answer; {
		case op.Kind == storage.Put || op.Kind == storage.PutScheduled:
			if isTraced(op) {
				t.put(op, began, now)
			}
		case a.Err != nil:
		case a.NotFound:
			t.lost(op, now)
		case a.Result != nil && a.Result.Traced != nil:
			if job := a.Result.Traced; sampled(job.Metadata.AllNotes().Trace) {
				t.wait(job, now)
				t.begin(op.Holder, job, now)
			}
		case op.Kind == storage.Move:
			t.moved(op, now)
		case op.Kind == storage.ReleaseAll:
			t.left(op.Holder, now)
		}
	}
}

// moved ends the run of a job whose reservation a move has ended, or notes that it goes on.
func (t *Tracer) moved(op *storage.Op, now time.Time) {
	if op.Move == tube.Touch || op.Move == tube.SaveCheckpoint {
		t.touch(op.Holder, op.ID, now)
		return
	}
	if r := t.runs.end(op.Holder, op.ID); r != nil {
		outcome, failure := endedBy(op.Move), ""
		if op.Move == tube.Release || op.Move == tube.Bury || op.Move == tube.Park {
			if failure = outcome; op.Args != nil && op.Args.Reason != "" {
				failure = op.Args.Reason
			}
		}
		t.run(r, now, outcome, failure)
	}
}

// lost forgets the run of a job that its worker does not hold any more, unless its TTR has run out: somebody else has removed
// it, by its key or with its batch. A lease that is not found can be an old one of a job that runs.
func (t *Tracer) lost(op *storage.Op, now time.Time) {
	if op.Kind == storage.Move && op.Holder != tube.LeaseHolder && endsRun(op.Move) {
		t.runs.forget(op.Holder, op.ID, now)
	}
}

// endsRun reports whether a move is one of the worker that has the job.
func endsRun(m tube.Move) bool {
	return m == tube.Delete || m == tube.Finish || m == tube.Release || m == tube.Bury || m == tube.Touch || m == tube.SaveCheckpoint
}

// endedBy says how a move has ended a reservation.
func endedBy(m tube.Move) string {
	switch m {
	case tube.Delete, tube.Finish:
		return "deleted"
	case tube.Bury:
		return "buried"
	case tube.Snooze:
		return "snoozed"
	case tube.Park:
		return "parked"
	case tube.Expire:
		return tube.ReasonTTR
	case tube.GiveBack:
		return "given back"
	}
	return "released"
}
