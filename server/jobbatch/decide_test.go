package jobbatch

import (
	"testing"
	"time"

	"redstalk/tube"
)

// TestVerdict: what follows from the records of the parts of a store.
func TestVerdict(t *testing.T) {
	const now = tube.Instant(100 * time.Hour)
	old := now - tube.Instant(tube.DefaultBatchTTL)
	for name, c := range map[string]struct {
		parts []tube.JobBatch
		want  tube.Verdict
		state string
	}{
		"not sealed":           {[]tube.JobBatch{{Created: now, Done: 5}, {Created: now}}, tube.BatchOpen, "open"},
		"sealed in one part":   {[]tube.JobBatch{{Created: now, Sealed: true}, {Created: now}}, tube.BatchOpen, "open"},
		"one part is missing":  {[]tube.JobBatch{{Created: now, Sealed: true}}, tube.BatchOpen, "open"},
		"pending":              {[]tube.JobBatch{{Created: now, Sealed: true}, {Created: now, Sealed: true, Pending: 1}}, tube.BatchOpen, "sealed"},
		"gone":                 {[]tube.JobBatch{{Created: now, Gone: 1}, {Created: now, Sealed: true, Pending: 1}}, tube.BatchFailing, "failing"},
		"done":                 {[]tube.JobBatch{{Created: now, Sealed: true, Done: 2}, {Created: now, Sealed: true}}, tube.BatchDone, "done"},
		"parked":               {[]tube.JobBatch{{Created: now, Sealed: true, Done: 2}, {Created: now, Sealed: true, Parked: 1}}, tube.BatchFailed, "failed"},
		"not sealed in time":   {[]tube.JobBatch{{Created: old}, {Created: now}}, tube.BatchUnsealed, "unsealed"},
		"a longer time":        {[]tube.JobBatch{{Created: old}, {Created: now, TTL: 25 * time.Hour}}, tube.BatchOpen, "open"},
		"a shorter time":       {[]tube.JobBatch{{Created: now - tube.Instant(time.Hour), TTL: time.Hour}, {Created: now}}, tube.BatchUnsealed, "unsealed"},
		"sealed after all":     {[]tube.JobBatch{{Created: old, Sealed: true, Verdict: tube.BatchUnsealed}, {Created: now, Sealed: true}}, tube.BatchDone, "done"},
		"members wait in turn": {[]tube.JobBatch{{Created: now, Sealed: true, Pending: 1, Verdict: tube.BatchCyclic}, {Created: now, Sealed: true}}, tube.BatchOpen, "cyclic"},
	} {
		b := &batch{name: name, of: 2, now: now}
		for i := range c.parts {
			b.parts = append(b.parts, &c.parts[i])
		}
		s := b.summary()
		if v := b.verdict(&s); v != c.want || s.State != c.state {
			t.Errorf("%s: %v, %s; want %v, %s", name, v, s.State, c.want, c.state)
		}
	}
}

// TestOrder: parts that are due are told last, so that somebody else goes on if this server dies before that. One that never had a job
// of the batch is not told.
func TestOrder(t *testing.T) {
	b := &batch{of: 4, now: 1000, parts: []*tube.JobBatch{
		{Part: 0, Sealed: true, Created: 1, Due: 1000}, {Part: 1, Sealed: true, Created: 1, Due: tube.Never, Done: 1},
		{Part: 2, Sealed: true, Created: 1, Due: tube.Never, Done: 1, Verdict: tube.BatchDone}, {Part: 3, Sealed: true, Created: 1, Due: 2000},
	}}
	others, due := b.settlements(tube.BatchDone)
	if len(others) != 1 || others[0].Part != 1 || len(due) != 1 || due[0].Part != 0 {
		t.Errorf("others %v, due %v", others, due)
	}
}

// TestForgottenEverywhere: parts that were never told the end of a batch forget it with the others.
func TestForgottenEverywhere(t *testing.T) {
	b := &batch{of: 3, now: 1000 + tube.Instant(time.Second), parts: []*tube.JobBatch{
		{Part: 0, Sealed: true, TTL: time.Second, Due: 1000 + tube.Instant(time.Second), Verdict: tube.BatchDone, Since: 1000, Done: 1},
		{Part: 1, Sealed: true, TTL: time.Second, Due: 3000 + tube.Instant(time.Second)},
		{Part: 2, Sealed: true, TTL: time.Second, Due: tube.Never, Verdict: tube.BatchDone, Since: 990, Done: 1},
	}}
	others, due := b.settlements(tube.BatchDone)
	if len(others) != 2 || len(due) != 1 || !others[0].Forget || !others[1].Forget || !due[0].Forget {
		t.Errorf("others %v, due %v", others, due)
	}
}

// TestForgotten: a batch that has ended is forgotten after its TTL, if no job refers to it.
func TestForgotten(t *testing.T) {
	p := &tube.JobBatch{Sealed: true, Verdict: tube.BatchFailed, Since: 1000, TTL: time.Second, Gone: 1}
	b := &batch{of: 1, parts: []*tube.JobBatch{p}}
	for _, c := range []struct {
		now    tube.Instant
		parked uint64
		next   tube.Instant
		forget bool
	}{
		{2000, 0, 1000 + tube.Instant(time.Second), false},
		{1000 + tube.Instant(time.Second), 0, 1000 + 2*tube.Instant(time.Second), true},
		{1000 + tube.Instant(time.Second), 1, 1000 + 2*tube.Instant(time.Second), false},
	} {
		b.now, p.Parked = c.now, c.parked
		s := b.summary()
		if next, forget := b.next(tube.BatchFailed, &s); next != c.next || forget != c.forget {
			t.Errorf("at %d: %d, %v", c.now, next, forget)
		}
	}
}
