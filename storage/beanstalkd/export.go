package beanstalkd

import (
	"context"
	"fmt"
	"iter"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Exported is the result of an export.
type Exported struct {
	Jobs     int
	Extended int // jobs with keys, rules or a history, which a binlog cannot express
	Reserved int // jobs that were reserved: they are ready in the binlog
	Largest  int // body, in bytes
}

// peeksAtOnce is how many bodies are read in one batch.
const peeksAtOnce = 32

// Export writes all jobs of a store as a binlog into a directory. Changes that others make to
// the store meanwhile can be in the binlog or not. The jobs stay in the store.
func Export(ctx context.Context, store storage.Store, dir string, progress Progress) (Exported, error) {
	x := &export{ctx: ctx, store: store, progress: progress}
	lastID, err := x.lastID()
	if err != nil {
		return Exported{}, err
	}
	x.n.Jobs, err = Write(dir, x.jobs(), lastID)
	return x.n, err
}

// export is the state of an Export.
type export struct {
	ctx      context.Context
	store    storage.Store
	progress Progress
	n        Exported
	done     int
}

// do carries out operations. It returns the first error of them.
func (x *export) do(ops []storage.Op) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	storage.DoWait(x.store, ops)
	for i := range ops {
		if err := ops[i].Answer.Err; err != nil {
			return fmt.Errorf("reading the store: %w", err)
		}
	}
	return nil
}

// lastID returns the largest id that the store has used: an import would begin behind it.
func (x *export) lastID() (last uint64, err error) {
	s, ok := x.store.(storage.Importer)
	if !ok {
		return 0, ErrNoImporter
	}
	ops := make([]storage.Op, s.Parts())
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.BeginImport, Args: &storage.Args{Import: &storage.Import{Source: "none", Part: i}}}
	}
	if err := x.do(ops); err != nil {
		return 0, err
	}
	for i := range ops {
		if n := ops[i].Answer.Result.Import.Offset; n > 0 {
			last = max(last, s.IDOf(i, n))
		}
	}
	return last, nil
}

// jobs returns all jobs, tube by tube.
func (x *export) jobs() iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		ops := []storage.Op{{Kind: storage.Tubes}}
		if err := x.do(ops); err != nil {
			yield(Job{}, err)
			return
		}
		for _, name := range ops[0].Answer.Names {
			for _, state := range []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried} {
				if !x.jobsIn(name, state, yield) {
					return
				}
			}
		}
	}
}

// jobsIn yields the jobs of a tube in a state. It returns false if the iteration has ended.
func (x *export) jobsIn(name string, state tube.State, yield func(Job, error) bool) (more bool) {
	for cursor := ""; ; {
		ops := []storage.Op{{Kind: storage.ListJobs, Tube: name, State: state, MaxJobs: tube.MaxListed, Args: &storage.Args{Cursor: cursor}}}
		if err := x.do(ops); err != nil {
			yield(Job{}, err)
			return false
		}
		page := ops[0].Answer.Result
		for from := 0; from < len(page.Jobs); from += peeksAtOnce {
			if !x.withBodies(page.Jobs[from:min(from+peeksAtOnce, len(page.Jobs))], yield) {
				return false
			}
		}
		if cursor = page.Cursor; cursor == "" {
			return true
		}
	}
}

// withBodies reads the bodies of the listed jobs and yields them. It skips jobs that are gone by now.
func (x *export) withBodies(listed []tube.JobStats, yield func(Job, error) bool) (more bool) {
	at := now()
	ops := make([]storage.Op, len(listed))
	for i := range ops {
		ops[i] = storage.Op{Kind: storage.Peek, ID: listed[i].ID}
	}
	if err := x.do(ops); err != nil {
		yield(Job{}, err)
		return false
	}
	for i := range ops {
		a := &ops[i].Answer
		more = a.NotFound || yield(x.job(&listed[i], a.Body, at), nil)
		a.Buffer.Release()
		if !more {
			return false
		}
	}
	x.progress(x.done)
	return true
}

// job converts a job to a job of a binlog.
func (x *export) job(s *tube.JobStats, body []byte, at tube.Instant) Job {
	x.done++
	x.n.Largest = max(x.n.Largest, len(body))
	if s.Metadata != nil {
		x.n.Extended++
	}
	j := Job{
		ID: s.ID, Tube: s.Tube, State: s.State, Pri: s.Pri, Delay: s.Delay, TTR: s.TTR,
		Created: at - tube.Instant(s.Age), Counters: s.Counters, Body: body, Size: len(body),
	}
	switch s.State {
	case tube.Reserved:
		x.n.Reserved++
		j.State = tube.Ready
	case tube.Delayed:
		j.Due = at + tube.Instant(s.TimeLeft.Round(time.Millisecond))
	}
	return j
}
