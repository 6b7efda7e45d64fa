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
	// snapFor is how long a snapshot is shown.
	snapFor = time.Second

	// storeLimit bounds how long the store may take for its part of a snapshot.
	storeLimit = 2 * time.Second

	// step is about how many tubes the store is asked at once. Others have their turn
	// between two steps.
	step = 32

	// atOnce is how many such steps are under way at a time. Each of them waits for its turn
	// behind what clients want; one after the other would take long on a busy Redis.
	atOnce = 8

	// listFor is how long a list of tubes is used if there are more than are shown by
	// name, and so not all of them are needed.
	listFor = 10 * time.Second
)

// snapshot is what scrapes show for a second.
type snapshot struct {
	at       time.Time
	families families
}

// metadata are what a snapshot is made of.
type metadata struct {
	unready  string
	q        *queue.Queue // nil while there is none
	report   storage.Report
	stats    *queue.Stats      // nil if the store did not answer
	tubes    []*tube.TubeStats // those that are shown by name, in the order of their names
	flows    map[string]*tube.Flow
	rest     tube.Flow
	complete bool // tubes has all that are to be shown by name
}

// listing is the list of tubes, as it was not long ago.
type listing struct {
	names []string
	at    time.Time
}

// current returns a snapshot that is at most snapFor old.
func (o *Observer) current() *snapshot {
	o.snapping.Lock()
	defer o.snapping.Unlock()
	if o.last == nil || time.Since(o.last.at) >= snapFor {
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
		its := &f.report.Named[i]
		f.flows[its.Tube] = &its.Flow
	}
	if f.report.Away != nil {
		return f
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	var err error
	if f.stats, err = f.q.Stats(ctx); err == nil {
		f.tubes, err = o.askTubes(ctx, f)
	}
	if f.complete = err == nil; err != nil {
		o.config.Log.Debug("the store has not answered a scrape", "err", err)
	}
	return f
}

// askTubes returns the stats of those tubes that are shown by name and exist.
func (o *Observer) askTubes(ctx context.Context, f *metadata) ([]*tube.TubeStats, error) {
	names, err := o.names(ctx, f)
	if err != nil {
		return nil, err
	}
	parts := slices.Collect(slices.Chunk(names, step))
	stats := make([][]*tube.TubeStats, len(parts))
	steps, ctx := errgroup.WithContext(ctx)
	steps.SetLimit(atOnce)
	for i, part := range parts {
		steps.Go(func() (err error) {
			stats[i], err = askStep(ctx, f.q, part)
			return err
		})
	}
	if err := steps.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(stats...), nil
}

// askStep returns the stats of those of these tubes that exist.
func askStep(ctx context.Context, q *queue.Queue, names []string) ([]*tube.TubeStats, error) {
	ops := make([]storage.Op, len(names))
	for i, name := range names {
		ops[i] = storage.Op{Kind: storage.TubeStats, Tube: name}
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
		if its := answers[i].TubeStats; its != nil {
			stats = append(stats, q.TubeStatsWith(its))
		}
	}
	return stats, nil
}

// names returns the tubes that are shown by name, sorted: those that the store counts by
// name, and as long as there is room others.
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

// list brings the list of tubes up to date. A long one is used for some time.
func (o *Observer) list(ctx context.Context, f *metadata) (err error) {
	l := &o.listing
	if len(l.names) > o.config.Tubes && time.Since(l.at) < listFor {
		return nil
	}
	l.names, err = f.q.Tubes(ctx)
	l.at = time.Now()
	return err
}
