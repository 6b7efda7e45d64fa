package httpapi

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
	"redstalk/tube/filter"
)

// This file walks over the jobs of many tubes, for searches and for actions on all jobs that match a filter. A request is a step of
// the walk, of limited work; its answer has the cursor of the next one.

// walk is a step in progress.
type walk struct {
	svc     *service
	names   []string // the tubes, sorted
	states  []tube.State
	failed  bool            // only jobs that have failed for good
	targets map[string]bool // with failed: the dead-letter tubes of policies
	matcher *filter.Matcher
	perCall int // how many jobs are listed with one call of the store at most
	page    int // and with the next one
	end     time.Time

	examined int
	full     func() bool                          // whether the step has found enough
	take     func(context.Context, []match) error // gets what was found
}

// match is a job that was found.
type match struct {
	job     *tube.JobStats // what the user of the request sees of it
	in      filter.Found
	excerpt string // of the body, if that was read
}

func (m *match) info(ctx context.Context) FoundJob {
	info := FoundJob{infoOf(ctx, m.job), string(m.in)}
	info.Excerpt = m.excerpt
	return info
}

// walkOrder are the states in the order of a walk: jobs that an action makes ready were examined before.
var walkOrder = []tube.State{tube.Buried, tube.Delayed, tube.Ready, tube.Reserved}

// newWalk returns a walk over the tubes on which the user has all of the rights, and Read if the options are about what only that shows. It returns
// an error if they name another one.
func (svc *service) newWalk(ctx context.Context, o *FilterOptions, need Right) (*walk, error) {
	matcher, err := o.matcher(ctx)
	if err != nil {
		return nil, err
	}
	w := &walk{svc: svc, failed: o.Failed, matcher: matcher, perCall: maxBatch, page: jobsPerCall, end: time.Now().Add(searchLimit)}
	if o.BodyHas != "" || len(o.Meta) > 0 {
		if need |= access.Read; !mayAnywhere(ctx, access.Read) {
			return nil, forbidden()
		}
	}
	if w.names, err = svc.tubesToWalk(ctx, o.Tube, need); err != nil {
		return nil, err
	}
	for _, s := range walkOrder {
		if len(o.State) == 0 || slices.Contains(o.State, s.String()) {
			w.states = append(w.states, s)
		}
	}
	if w.failed {
		w.targets, err = svc.queue.DeadLetterTubes(ctx)
	}
	return w, err
}

func (svc *service) tubesToWalk(ctx context.Context, named []string, need Right) ([]string, error) {
	u := access.UserIn(ctx)
	lacks := func(name string) bool { return u != nil && u.On(name)&need != need }
	names := slices.Clone(named)
	for _, name := range names {
		if !protocol.ValidName([]byte(name)) {
			return nil, invalidTube("tube", name)
		}
		if lacks(name) {
			return nil, forbidden()
		}
	}
	if len(names) == 0 {
		all, err := svc.queue.Tubes(ctx)
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(slices.Clone(all), lacks)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// part is the jobs of a tube in a state.
type part struct {
	tube  string
	state tube.State
	count uint64
}

// parts returns the parts of some tubes that have jobs, in the order of the walk.
func (w *walk) parts(ctx context.Context, names []string) (all []part, err error) {
	stats, err := tubeStats(ctx, w.svc.queue, names)
	if err != nil {
		return nil, err
	}
	if w.failed {
		if err := w.findTargets(ctx, stats); err != nil {
			return nil, err
		}
	}
	for _, s := range stats {
		counts := map[tube.State]uint64{tube.Buried: s.Buried, tube.Delayed: s.Delayed, tube.Ready: s.Ready, tube.Reserved: s.Reserved}
		if w.failed {
			counts[tube.Reserved] = 0
			if !w.targets[s.Name] {
				counts[tube.Delayed], counts[tube.Ready] = 0, 0
			}
		}
		for _, state := range w.states {
			if counts[state] > 0 {
				all = append(all, part{s.Name, state, counts[state]})
			}
		}
	}
	return all, nil
}

// findTargets adds tubes whose next job is a dead letter to the dead-letter tubes.
func (w *walk) findTargets(ctx context.Context, stats []*tube.TubeStats) error {
	var ops []storage.Op
	for _, s := range stats {
		if s.Ready+s.Delayed > 0 && !w.targets[s.Name] {
			ops = append(ops, queue.FirstIn(s.Name, tube.Ready), queue.FirstIn(s.Name, tube.Delayed))
		}
	}
	for some := range slices.Chunk(ops, tubesPerCall) {
		answers, err := w.svc.queue.Do(ctx, some...)
		if err != nil {
			return err
		}
		for i := range answers {
			if answers[i].Err != nil {
				return answers[i].Err
			}
			if queue.IsDeadLetter(&answers[i]) {
				w.targets[some[i].Tube] = true
			}
		}
	}
	return nil
}

// total returns how many jobs the whole walk examines.
func (w *walk) total(ctx context.Context) (n uint64, err error) {
	all, err := w.parts(ctx, w.names)
	for _, p := range all {
		n += p.count
	}
	return n, err
}

// run walks from a cursor on. It returns the cursor of the next step, "" if there is none.
func (w *walk) run(ctx context.Context, from string) (next string, err error) {
	at := parsePlace(from)
	first, _ := slices.BinarySearch(w.names, at.tube)
	for some := range slices.Chunk(w.names[first:], tubesPerCall) {
		all, err := w.parts(ctx, some)
		if err != nil {
			return "", err
		}
		for _, p := range all {
			cursor := at.in(p)
			if cursor == passed {
				continue
			}
			if next, err = w.walkPart(ctx, p, cursor); err != nil || next != "" {
				return next, err
			}
		}
	}
	return "", nil
}

// maxWalked is how many jobs a step examines. It can be exceeded by one page.
const maxWalked = 10_000

// walkPart examines the jobs of a part from a cursor of the store on. Its pages grow while nothing is found.
func (w *walk) walkPart(ctx context.Context, p part, cursor string) (next string, err error) {
	for {
		if w.examined >= maxWalked || w.full() || time.Now().After(w.end) {
			return place{p.tube, p.state, cursor}.String(), nil
		}
		step, found := time.Now(), 0
		jobs, further, err := w.svc.queue.ListJobs(ctx, p.tube, p.state, uint32(w.page), cursor)
		if err == nil {
			w.examined += len(jobs)
			err = yield(ctx, step)
		}
		if err == nil {
			found, err = w.examine(ctx, jobs)
		}
		if err != nil || further == "" {
			return "", err
		}
		if cursor = further; found == 0 {
			w.page = min(2*w.page, w.perCall)
		} else {
			w.page = min(w.page, jobsPerCall)
		}
	}
}

// examine passes the jobs that match to take, in their order, and returns how many they are.
func (w *walk) examine(ctx context.Context, jobs []tube.JobStats) (found int, err error) {
	now, matches := time.Now(), make([]match, 0, len(jobs))
	var inDoubt []int // the indices in matches of jobs of which the body must be read
	for i := range jobs {
		if w.failed && metadataOf(&jobs[i]).Parked == tube.NotParked && jobs[i].Home() == "" {
			continue
		}
		view := access.SightIn(ctx, jobs[i].Tube)
		job := view.Job(&jobs[i])
		verdict, in := w.matcher.Properties(propertiesOf(job, now))
		if verdict == filter.No || verdict == filter.BodySays && !view.SeesContent() {
			continue
		}
		if verdict == filter.BodySays {
			inDoubt = append(inDoubt, len(matches))
		}
		matches = append(matches, match{job: job, in: in})
	}
	if err := w.readBodies(ctx, matches, inDoubt); err != nil {
		return 0, err
	}
	matches = slices.DeleteFunc(matches, func(m match) bool { return m.job == nil })
	if len(matches) == 0 {
		return 0, nil
	}
	return len(matches), w.take(ctx, matches)
}

// readBodies decides about jobs by their bodies. The job of a match that is none becomes nil.
func (w *walk) readBodies(ctx context.Context, matches []match, inDoubt []int) error {
	size := func(i int) int { return matches[inDoubt[i]].job.Size }
	id := func(i int) uint64 { return matches[inDoubt[i]].job.ID }
	return w.svc.peekInSteps(ctx, len(inDoubt), size, id, func(i int, a *storage.Answer) {
		m := &matches[inDoubt[i]]
		if a.NotFound { // deleted since it was listed
			m.job = nil
			return
		}
		body := access.SightIn(ctx, m.job.Tube).Body(a.Body)
		is, in, at := w.matcher.BodyOf(body, m.in)
		if !is {
			m.job = nil
			return
		}
		m.in, m.excerpt = in, excerpt(body, max(at, 0))
	})
}

// propertiesOf returns what a filter has to know of a job.
func propertiesOf(s *tube.JobStats, now time.Time) *filter.Job {
	f := metadataOf(s)
	j := &filter.Job{ID: s.ID, FromID: f.FromID, Key: f.Key, Group: f.Group, Batch: f.Batch, After: f.After, Reason: reasonOf(s), Meta: metaIn(f), At: now.Add(-s.Age)}
	if f.Occurrence != nil {
		j.Schedule = f.Occurrence.Schedule
	}
	n := f.AllNotes()
	j.Attempts = max(s.Counters[tube.Reserves], uint32(len(n.Attempts)))
	failed := n.FailedAt
	if len(n.Attempts) > 0 {
		failed = max(failed, n.Attempts[0].At)
	}
	if failed != 0 {
		j.At = time.UnixMilli(msOf(failed))
	}
	return j
}

// metaIn returns what a job was put with, nil if that is nothing.
func metaIn(f *tube.Metadata) iter.Seq2[string, string] {
	meta := f.AllNotes().Meta
	if len(meta) == 0 {
		return nil
	}
	return func(yield func(string, string) bool) {
		for _, m := range meta {
			if !yield(m.Name, m.Value) {
				return
			}
		}
	}
}

// reasonOf returns the reason of the last failure of a job; if none is known, why the server parked it, or that it is a dead letter; "" if it
// has not failed.
func reasonOf(s *tube.JobStats) string {
	f := metadataOf(s)
	reason := cmp.Or(f.AllNotes().Reason, f.Parked.String())
	if reason == "" && s.Home() != "" {
		return filter.DeadLetter
	}
	return reason
}

// place is where a step ends: in a part, at a cursor of the store.
type place struct {
	tube   string
	state  tube.State
	cursor string
}

func (p place) String() string {
	return strings.Join([]string{p.state.String(), p.cursor, p.tube}, " ")
}

// parsePlace parses a cursor. Anything else is the beginning.
func parsePlace(text string) (p place) {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 || stateNames[words[0]] == tube.Gone {
		return p
	}
	return place{words[2], stateNames[words[0]], words[1]}
}

// passed is the cursor in a part that the walk has passed.
const passed = "passed"

// in returns the cursor in a part at which a step begins: "" for its beginning.
func (p place) in(next part) string {
	switch {
	case next.tube != p.tube:
		return ""
	case next.state == p.state:
		return p.cursor
	case slices.Index(walkOrder, next.state) < slices.Index(walkOrder, p.state):
		return passed
	}
	return ""
}
