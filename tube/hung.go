package tube

import (
	"maps"
	"slices"
	"time"
)

// A worker that touches its job again and again without an end probably hangs. Only jobs that are touched can be held for much longer than
// their TTR, so they are noticed when they are touched, and nothing has to be searched.

// HungAfter is for how many times its TTR a job is held, before it counts as hung with its next touch.
const HungAfter = 10

// IsHung reports whether a job that was just touched counts as hung: it has been held for very long, and its worker does not say how far it
// is.
func IsHung(held time.Duration, ttr uint32, reports bool) bool {
	return !reports && held > HungAfter*time.Duration(ttr)*time.Second
}

// noteHung notes whether j, which was just touched, counts as hung.
func (m *jobs) noteHung(j *Job) {
	f := m.metadata.of(j)
	if !IsHung(j.since.duration(), j.ttr, f.Progress != "" || f.Checkpoint.Size > 0) {
		delete(m.hung, j.ID)
		return
	}
	if m.hung == nil {
		m.hung = make(map[uint64]struct{})
	}
	m.hung[j.ID] = struct{}{}
}

// HungJobs returns how many jobs count as hung.
func (m *jobs) HungJobs() int { return len(m.hung) }

// Hung returns jobs that count as hung with HeldFor, in the order of their ids: up to limit of them, without the first ones.
func (m *Machine) Hung(now Instant, skip, limit int) []JobStats {
	ids := slices.Sorted(maps.Keys(m.hung))
	ids = ids[min(skip, len(ids)):]
	all := make([]JobStats, min(limit, len(ids)))
	for i := range all {
		j := m.Find(ids[i])
		all[i] = m.jobStats(now, j)
		all[i].HeldFor = max(time.Duration(now-j.delivered()), 0)
	}
	return all
}
