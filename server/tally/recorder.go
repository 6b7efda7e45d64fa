package tally

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

const (
	// every is how long a Recorder waits between two times.
	every = 5 * time.Second

	// lastLimit is the timeout of the last time, at the end.
	lastLimit = time.Second

	// rowsPerOp is how many tallies one operation adds to: then it takes about 0.1 ms.
	rowsPerOp = 100
)

// Recorder records what happens in the tubes of a queue.
type Recorder struct {
	queue  *queue.Queue
	log    *slog.Logger
	failed telemetry.Throttle

	from    string
	number  uint64
	known   map[string]tube.Tally // by tube, "" for all, what is in the tallies, or will be with pending
	pending []storage.Op          // are not carried out yet, as far as is known
}

// New returns a Recorder. It does nothing before Run.
func New(q *queue.Queue, log *slog.Logger) *Recorder {
	return &Recorder{queue: q, log: log, from: rand.Text(), known: make(map[string]tube.Tally)}
}

// Run records until ctx ends, and then once more.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			r.record(ctx)
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLimit)
	defer cancel()
	r.record(ctx)
}

// record adds what has happened since the last time. What fails is tried again the next time, with the same numbers; before that,
// nothing else is added.
func (r *Recorder) record(ctx context.Context) {
	if len(r.pending) == 0 {
		r.pending = r.operations(r.grown())
	}
	if len(r.pending) == 0 {
		return
	}
	answers, err := r.queue.Do(ctx, r.pending...)
	left := r.pending[:0]
	for i, a := range answers {
		if a.Err != nil {
			left, err = append(left, r.pending[i]), a.Err
		}
	}
	if answers != nil {
		r.pending = slices.Clip(left)
	}
	if err != nil && !errors.Is(err, storage.ErrClosed) && !errors.Is(err, context.Canceled) {
		r.failed.Warn(r.log, "the history of tubes could not be written", "err", err, "again", every)
	}
}

// grown returns by how much the counts of the store have grown: those of all tubes together, and those of the busiest tubes that it
// counts by name.
func (r *Recorder) grown() []tube.TubeTally {
	report := r.queue.Report()
	now := make(map[string]tube.Tally, len(report.Named)+1)
	all := report.Rest
	for i := range report.Named {
		one := &report.Named[i]
		all.Add(&one.Flow)
		now[one.Tube] = one.Tally()
	}
	now[""] = all.Tally()
	grown := make(map[string]tube.Tally)
	for name, t := range now {
		before := r.known[name]
		if t = t.Since(&before); t != (tube.Tally{}) {
			grown[name] = t
		}
	}
	for _, name := range tube.LeastBusy(grown) {
		delete(grown, name)
	}
	r.known = now
	rows := make([]tube.TubeTally, 0, len(grown))
	for name, t := range grown {
		rows = append(rows, tube.TubeTally{Tube: name, Tally: t})
	}
	return rows
}

// operations returns the operations that add rows.
func (r *Recorder) operations(rows []tube.TubeTally) (ops []storage.Op) {
	for part := range slices.Chunk(rows, rowsPerOp) {
		r.number++
		ops = append(ops, storage.Op{Kind: storage.AddTallies, Args: &storage.Args{Tallies: &storage.Tallies{From: r.from, Number: r.number, Rows: part}}})
	}
	return ops
}
