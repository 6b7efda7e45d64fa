package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// differ compares answers and returns in what they differ; "" if in nothing. Times can differ
// by tolerance for each second of unit.
func differ(got, want *storage.Answer, unit int) string {
	maxDiff := time.Duration(unit) * tolerance
	switch {
	case !errors.Is(got.Err, want.Err):
		return fmt.Sprint("error: ", got.Err)
	case got.NotFound != want.NotFound:
		return "found"
	case got.ID != want.ID:
		return "id"
	case got.Outcome != want.Outcome:
		return "outcome"
	case got.State != want.State:
		return "state"
	case string(got.Body) != string(want.Body):
		return "body"
	case got.Count != want.Count:
		return "count"
	case !near(got.Soon, want.Soon, maxDiff):
		return "deadline soon"
	case !slices.Equal(got.Names, want.Names):
		return "names"
	case (got.Job == nil) != (want.Job == nil), (got.TubeStats == nil) != (want.TubeStats == nil), (got.Stats == nil) != (want.Stats == nil):
		return "kind of answer"
	case got.Job != nil && !sameJob(*got.Job, *want.Job, maxDiff):
		return "job"
	case got.TubeStats != nil && !sameTube(*got.TubeStats, *want.TubeStats, maxDiff):
		return "tube"
	case got.Stats != nil && got.Stats.Totals != want.Stats.Totals:
		return "totals"
	}
	return differResult(got.Result, want.Result, maxDiff)
}

// differResult is differ for Results. Nil is the same as a Result in which nothing is set. Of a
// lease, and of a cursor, only its presence is compared.
func differResult(got, want *storage.Result, maxDiff time.Duration) string {
	if got == nil {
		got = &storage.Result{}
	}
	if want == nil {
		want = &storage.Result{}
	}
	same := func(a, b tube.JobStats) bool { return sameJob(a, b, maxDiff) }
	switch {
	case (got.Lease != 0) != (want.Lease != 0):
		return "lease"
	case !reflect.DeepEqual(got.Policy, want.Policy):
		return "policy"
	case got.NotKept != want.NotKept:
		return "not kept"
	case !sameEnded(got.Ended, want.Ended):
		return "ended jobs"
	case !slices.EqualFunc(got.Jobs, want.Jobs, same):
		return "jobs"
	case (got.Cursor != "") != (want.Cursor != ""):
		return "cursor"
	case !slices.EqualFunc(got.Schedules(), want.Schedules(), sameSchedule):
		return "schedules"
	case !sameBatches(got.Batches(), want.Batches()):
		return "batches"
	case !reflect.DeepEqual(got.GroupConfig, want.GroupConfig):
		return "group config"
	case !slices.EqualFunc(got.Groups, want.Groups, func(a, b tube.GroupStats) bool { return sameGroup(a, b, maxDiff) }):
		return "groups"
	}
	return ""
}

// sameEnded compares records of ended jobs, in any order: jobs of one operation end in an undefined one. Times, and ids that jobs got
// elsewhere, are not compared.
func sameEnded(got, want []*tube.Ended) bool {
	comparable := func(all []*tube.Ended) (texts []string) {
		for _, r := range all {
			texts = append(texts, fmt.Sprint(r.ID, r.Tube, r.Key, r.Group, r.How, r.Occurrence, r.Meta, r.Deliveries, r.Failures, r.Reason, r.ToTube, string(r.Result)))
		}
		slices.Sort(texts)
		return texts
	}
	return slices.Equal(comparable(got), comparable(want))
}

func near(a, b, maxDiff time.Duration) bool { return a == b || (a-b).Abs() < maxDiff }

func sameJob(got, want tube.JobStats, maxDiff time.Duration) bool {
	same := near(got.TimeLeft, want.TimeLeft, maxDiff) && near(expiresIn(&got), expiresIn(&want), maxDiff)
	got.TimeLeft, got.Age, got.Created, got.File = want.TimeLeft, want.Age, want.Created, want.File
	if got.HeldAt != "" { // the other of two instances holds it, and knows the holder
		got.Holder, got.HeldAt = want.Holder, ""
	}
	compareMetadata(&got)
	compareMetadata(&want)
	return same && reflect.DeepEqual(got, want)
}

// expiresIn returns how long it is until a job expires, 0 if it does not or its time is over: since when is
// not compared, because over a long history the two clocks drift apart.
func expiresIn(s *tube.JobStats) time.Duration {
	if s.Metadata == nil || s.Metadata.Expires == 0 {
		return 0
	}
	return max(s.ExpiresIn(), 0)
}

// compareMetadata makes the metadata of two jobs comparable. Empty metadata is removed. The token
// of a lease is chosen by the store.
func compareMetadata(s *tube.JobStats) {
	if s.Metadata != nil {
		metadata := *s.Metadata
		metadata.Lease = min(metadata.Lease, 1)
		metadata.Checkpoint.Number = 0
		if metadata.Expires != 0 {
			metadata.Expires = 1
		}
		if n := metadata.Notes; n != nil {
			metadata.Notes = withoutTimes(n)
		}
		s.Metadata = &metadata
	}
	if s.Metadata == nil || reflect.DeepEqual(*s.Metadata, tube.Metadata{}) {
		s.Metadata, s.Rules = nil, tube.Rules{}
	}
}

// withoutTimes returns notes with a 1 for each time that is known.
func withoutTimes(n *tube.Notes) *tube.Notes {
	notes := *n
	notes.FailedAt, notes.FirstPut, notes.Attempts = min(n.FailedAt, 1), min(n.FirstPut, 1), slices.Clone(n.Attempts)
	for i := range notes.Attempts {
		notes.Attempts[i].At = min(notes.Attempts[i].At, 1)
	}
	return &notes
}

func sameTube(got, want tube.TubeStats, maxDiff time.Duration) bool {
	same := near(got.PauseLeft, want.PauseLeft, maxDiff)
	got.PauseLeft = want.PauseLeft
	got.OldestReady, got.HasPolicy, got.Waits, got.Runs = 0, false, tube.Times{}, tube.Times{}
	want.OldestReady, want.HasPolicy, want.Waits, want.Runs = 0, false, tube.Times{}, tube.Times{}
	return same && reflect.DeepEqual(got, want)
}

func sameGroup(got, want tube.GroupStats, maxDiff time.Duration) bool {
	same := near(got.PauseLeft, want.PauseLeft, maxDiff)
	got.PauseLeft = want.PauseLeft
	return same && got == want
}

// onlyReserves reports whether a batch contains only Take, Ref, ReleaseAll and ReserveJob.
func onlyReserves(batch []storage.Op) bool {
	for i := range batch {
		switch op := &batch[i]; {
		case op.Holder == tube.LeaseHolder: // a lease is a change
			return false
		case op.Kind == storage.Take, op.Kind == storage.Ref, op.Kind == storage.ReleaseAll:
		case op.Kind == storage.Move && op.Move.Brings():
		case op.Kind == storage.Move && op.Move == tube.Touch && op.Args != nil && op.Args.Progress != nil:
		default:
			return false
		}
	}
	return true
}

// hasEnded reports whether the store that gave these answers was closed.
func hasEnded(done []storage.Op) bool {
	for i := range done {
		if errors.Is(done[i].Answer.Err, storage.ErrClosed) {
			return true
		}
	}
	return false
}

// describe describes an operation.
func describe(op *storage.Op) string {
	switch op.Kind {
	case storage.Put:
		return fmt.Sprintf("put into %s, pri %d, delay %d, TTR %d%s", op.Tube, op.Pri, op.Delay, op.TTR, describeArgs(op.Args))
	case storage.Take:
		return fmt.Sprintf("take for %d from %v, first %v", op.Holder, op.Tubes, op.First)
	case storage.Move:
		return fmt.Sprintf("%v job %d by %d, pri %d, delay %d%s", op.Move, op.ID, op.Holder, op.Pri, op.Delay, describeArgs(op.Args))
	case storage.Ref:
		return fmt.Sprintf("ref %v, role %d, %+d", op.Tubes, op.Role, op.Delta)
	}
	return fmt.Sprintf("%v: tube %s, id %d, holder %d, state %v, max %d, delay %d, pri %d, in %v%s",
		op.Kind, op.Tube, op.ID, op.Holder, op.State, op.MaxJobs, op.Delay, op.Pri, op.In, describeArgs(op.Args))
}

func describeArgs(r *storage.Args) string {
	switch {
	case r == nil:
		return ""
	case r.Schedule != nil:
		return fmt.Sprintf(", schedule %s, tags %+v", describeSchedule(r.Schedule), r.Tags)
	case r.Settle != nil:
		return fmt.Sprintf(", batch %q, %+v", r.Name, *r.Settle)
	case r.Tags != nil:
		return fmt.Sprintf(", tags %+v", *r.Tags)
	case r.Policy != nil:
		return fmt.Sprintf(", policy %+v", *r.Policy)
	}
	if r.Progress != nil {
		return fmt.Sprintf(", progress %q, lease %d", *r.Progress, r.Lease)
	}
	return fmt.Sprintf(", %d bytes, keep checkpoint %v, name %q, key %q, to %q, cursor %q, lease %d, reason %q, group %q, config %+v", len(r.Data), r.KeepCheckpoint, r.Name, r.Key, r.To, r.Cursor, r.Lease, r.Reason, r.Group, r.GroupConfig)
}

// show describes an answer.
func show(a *storage.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Result != nil:
		return showResult(a)
	case a.NotFound && a.Soon != 0:
		return fmt.Sprintf("nothing, DEADLINE_SOON in %v", a.Soon)
	case a.NotFound:
		return "not found"
	case a.Job != nil:
		return showJob(a.Job)
	case a.TubeStats != nil:
		return fmt.Sprintf("%+v, limits %+v", *a.TubeStats, a.TubeStats.Limits)
	case a.Stats != nil:
		return fmt.Sprintf("%+v", a.Stats.Totals)
	case a.Names != nil:
		return fmt.Sprint(a.Names)
	}
	return fmt.Sprintf("job %d %.40q of %d bytes, count %d, outcome %d, state %v", a.ID, a.Body, len(a.Body), a.Count, a.Outcome, a.State)
}

func showResult(a *storage.Answer) string {
	r := a.Result
	s := fmt.Sprintf("job %d, not found: %v, lease %d, policy %+v, cursor %q", a.ID, a.NotFound, r.Lease, r.Policy, r.Cursor)
	for i := range r.Jobs {
		s += "\n\t" + showJob(&r.Jobs[i])
	}
	for i := range r.Groups {
		s += fmt.Sprintf("\n\t%+v", r.Groups[i])
	}
	for _, record := range r.Batches() {
		s += fmt.Sprintf("\n\t%+v", *record)
	}
	for _, record := range r.Schedules() {
		s += "\n\t" + describeSchedule(record)
	}
	if r.GroupConfig != nil {
		s += fmt.Sprintf(", config %+v", *r.GroupConfig)
	}
	return s
}

func describeSchedule(s *tube.Schedule) string {
	return fmt.Sprintf("%s, version %d, %s, body %.40q, results %+v", s.Name, s.Version, s.Text(), s.Body, s.Results)
}

func showJob(s *tube.JobStats) string {
	return fmt.Sprintf("%+v, metadata %+v, notes %+v", *s, s.Metadata, *s.Metadata.AllNotes())
}

// describeLanes describes the ready jobs of tubes that have groups.
func (m *Model) describeLanes() (s string) {
	for l, jobs := range m.readyLanes() {
		if !m.hasLiveGroup(l.tube) {
			continue
		}
		s += fmt.Sprintf("\n\t%s, group %q, turn %v, load %d, held %q:", l.tube, l.group, m.group(l).turn, m.load(l), m.held(l))
		for _, j := range jobs {
			s += fmt.Sprintf(" %d (pri %d, head: %v)", j.id, j.pri, j.head)
		}
	}
	return s
}
