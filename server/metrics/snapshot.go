package metrics

import (
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

const (
	// maxSnapshotAge is how long a snapshot is used.
	maxSnapshotAge = time.Second

	// storeTimeout limits how long the store can take for its part of a snapshot.
	storeTimeout = 2 * time.Second

	// tubesPerStep is how many tubes are read from the store in one batch. Other callers
	// are served between two steps.
	tubesPerStep = 32

	// concurrentSteps is how many steps are under way at a time. Each of them queues behind
	// the operations of clients, so on a busy Redis steps one after the other would take
	// long.
	concurrentSteps = 8

	// maxListAge is how long a list of tubes is used if it has more tubes than are shown by
	// name, and how long it is used which tubes are for dead letters.
	maxListAge = 10 * time.Second
)

// snapshot is what scrapes show for a second.
type snapshot struct {
	at       time.Time
	families families
}

// metadata is what a snapshot is computed from.
type metadata struct {
	unready string
	q       *queue.Queue // nil if there is none
	report  storage.Report
	stats   *queue.Stats      // nil if the store did not answer this or one of the questions about tubes
	tubes   []*tube.TubeStats // all those that are shown by name, sorted by name
	flows   map[string]*tube.Flow
	rest    tube.Flow

	deadLetters map[string]bool // the tubes for dead letters
}

// listing is a recent list of tubes.
type listing struct {
	names []string
	at    time.Time
}

// deadLetterTubes are the tubes for dead letters, of some time ago.
type deadLetterTubes struct {
	tubes map[string]bool
	at    time.Time // zero: never read
}

// current returns a snapshot that is at most maxSnapshotAge old.
func (o *Observer) current() *snapshot {
	o.snapshotMu.Lock()
	defer o.snapshotMu.Unlock()
	if o.last == nil || time.Since(o.last.at) >= maxSnapshotAge {
		f := o.collect()
		var before families
		if o.last != nil {
			before = o.last.families
		}
		fresh := &snapshot{at: time.Now(), families: newFamilies(before)}
		o.fill(fresh.families, f)
		o.last = fresh
	}
	return o.last
}

// collect asks the queue and the store.
func (o *Observer) collect() *metadata {
	f := &metadata{unready: o.Unready(), flows: make(map[string]*tube.Flow)}
	if f.q, _ = o.state(); f.q == nil {
		return f
	}
	f.report = f.q.Report()
	f.rest = f.report.Rest
	for i := range f.report.Named {
		named := &f.report.Named[i]
		f.flows[named.Tube] = &named.Flow
	}
	if f.report.Unavailable != nil {
		return f
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	var err error
	if f.stats, err = f.q.Stats(ctx); err == nil {
		f.tubes, err = o.askTubes(ctx, f)
	}
	if err == nil {
		f.deadLetters, err = o.askDeadLetters(ctx, f)
	}
	if err != nil {
		f.stats, f.tubes = nil, nil // alerts rely on it: all figures of the store are shown, or none
		o.config.Log.Debug("the store has not answered a scrape", "err", err)
	}
	return f
}

// askTubes returns the stats of the tubes that are shown by name and exist.
func (o *Observer) askTubes(ctx context.Context, f *metadata) ([]*tube.TubeStats, error) {
	names, err := o.names(ctx, f)
	if err != nil {
		return nil, err
	}
	parts := slices.Collect(slices.Chunk(names, tubesPerStep))
	stats := make([][]*tube.TubeStats, len(parts))
	err = inSteps(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		stats[i], err = askStep(ctx, f.q, parts[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(stats...), nil
}

// inSteps calls step with each number below n, several at a time, until one fails.
func inSteps(ctx context.Context, n int, step func(ctx context.Context, i int) error) error {
	steps, ctx := errgroup.WithContext(ctx)
	steps.SetLimit(concurrentSteps)
	for i := range n {
		steps.Go(func() error { return step(ctx, i) })
	}
	return steps.Wait()
}

// askStep returns the stats of those of the tubes that exist.
func askStep(ctx context.Context, q *queue.Queue, names []string) ([]*tube.TubeStats, error) {
	ops := make([]storage.Op, len(names))
	for i, name := range names {
		ops[i] = storage.Op{Kind: storage.TubeStats, Tube: name, Info: true}
	}
	answers, err := q.Do(ctx, ops...)
	if err != nil {
		return nil, err
	}
	stats := make([]*tube.TubeStats, 0, len(names))
	for i := range answers {
		if err := answers[i].Err; err != nil {
			return nil, err
		}
		if named := answers[i].TubeStats; named != nil {
			stats = append(stats, q.TubeStatsWith(named))
		}
	}
	return stats, nil
}

// askDeadLetters returns which tubes are for dead letters: those that policies name, and others by their first ready
// job, if nobody works on them: only then it matters. In a tube with groups or limits that job would be looked for among
// all jobs of the store. The answer can be maxListAge old.
func (o *Observer) askDeadLetters(ctx context.Context, f *metadata) (map[string]bool, error) {
	if time.Since(o.deadLetters.at) < maxListAge {
		return o.deadLetters.tubes, nil
	}
	tubes, err := f.q.DeadLetterTubes(ctx)
	if err != nil {
		return nil, err
	}
	var ops []storage.Op
	for _, t := range f.tubes {
		if idle := t.Ready > 0 && t.Reserved == 0 && t.Waiting == 0; idle && t.Limits == nil && !tubes[t.Name] {
			ops = append(ops, queue.FirstIn(t.Name, tube.Ready))
		}
	}
	parts := slices.Collect(slices.Chunk(ops, tubesPerStep))
	answers := make([][]storage.Answer, len(parts))
	err = inSteps(ctx, len(parts), func(ctx context.Context, i int) (err error) {
		answers[i], err = f.q.Do(ctx, parts[i]...)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, a := range slices.Concat(answers...) {
		if a.Err != nil {
			return nil, a.Err
		}
		if queue.IsDeadLetter(&a) {
			tubes[ops[i].Tube] = true
		}
	}
	o.deadLetters = deadLetterTubes{tubes, time.Now()}
	return tubes, nil
}

// names returns the tubes that are shown by name, sorted: those that the store counts by
// name, and others up to the limit.
func (o *Observer) names(ctx context.Context, f *metadata) ([]string, error) {
	names := make([]string, 0, len(f.flows))
	for name := range f.flows {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	names = names[:min(len(names), o.config.Tubes)]
	if room := o.config.Tubes - len(names); room > 0 && uint64(len(names)) < f.stats.Tubes {
		if err := o.list(ctx, f); err != nil {
			return nil, err
		}
		for _, name := range o.listing.names {
			if f.flows[name] == nil && room > 0 {
				names = append(names, name)
				room--
			}
		}
		slices.SortFunc(names, strings.Compare)
	}
	return names, nil
}

// list updates the list of tubes. A long one is used for some time.
func (o *Observer) list(ctx context.Context, f *metadata) (err error) {
	l := &o.listing
	if len(l.names) > o.config.Tubes && time.Since(l.at) < maxListAge {
		return nil
	}
	l.names, err = f.q.Tubes(ctx)
	l.at = time.Now()
	return err
}
