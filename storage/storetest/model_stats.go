package storetest

import (
	"redstalk/storage"
	"redstalk/tube"
)

func (m *Model) count(s tube.State, in func(*modelJob) bool) (n, urgent uint64) {
	for _, j := range m.jobs {
		if j.state == s && in(j) {
			n++
			if s == tube.Ready && j.pri < 1024 {
				urgent++
			}
		}
	}
	return n, urgent
}

func (m *Model) report(op *storage.Op, in func(*modelJob) bool) {
	a := &op.Answer
	switch op.Kind {
	case storage.JobStats:
		j := m.job(op.ID)
		if a.NotFound = j == nil; j != nil {
			if a.Job = m.jobStats(j); j.state == tube.Reserved {
				a.Job.Holder = j.holder
			}
		}
	case storage.TubeStats:
		t := m.find(op.Tube)
		if a.NotFound = t == nil; t != nil {
			if a.TubeStats = m.tubeStats(t, in); op.Info {
				a.TubeStats.Limits = m.limitStats(t)
			}
		}
	case storage.Stats:
		a.Stats = m.stats()
	case storage.Tubes:
		for _, t := range m.tubes {
			a.Names = append(a.Names, t.name)
		}
	}
}

func (m *Model) jobStats(j *modelJob) *tube.JobStats {
	s := &tube.JobStats{ID: j.id, Tube: j.tube.name, State: j.state, Pri: j.pri, Delay: j.delay, TTR: j.ttr, Counters: j.counters}
	if j.held {
		s.Held = tube.HeldByBatch
	} else if j.state == tube.Delayed || j.state == tube.Reserved {
		s.TimeLeft = j.due - m.now
	}
	if j.state == tube.Ready {
		s.Held = m.held(j.lane())
	}
	metadata := j.metadata
	if j.expires != 0 { // at the instant 0, see expiresIn
		metadata.Expires = tube.Instant(j.expires-m.now) | 1
		if metadata.After != "" {
			metadata.Expires = tube.Instant(j.expires-j.waitsSince) | 1
		}
	}
	s.Metadata, s.Rules = &metadata, m.rules(j)
	s.Leased = j.state == tube.Reserved && j.holder == tube.LeaseHolder
	return s
}

func (m *Model) tubeStats(t *modelTube, in func(*modelJob) bool) *tube.TubeStats {
	s := &tube.TubeStats{Name: t.name, Total: t.total, Deletes: t.deletes, Pauses: t.pauses, Pause: t.pause, Expired: t.expired, Using: uint64(t.using), Watching: uint64(t.watching)}
	s.Ready, s.Urgent = m.count(tube.Ready, in)
	s.Delayed, _ = m.count(tube.Delayed, in)
	s.Buried, _ = m.count(tube.Buried, in)
	s.Reserved, _ = m.count(tube.Reserved, in)
	if t.paused {
		s.PauseLeft = t.until - m.now
	}
	return s
}

func (m *Model) stats() *storage.Figures {
	s := &storage.Figures{}
	s.Ready, s.Urgent = m.count(tube.Ready, everywhere)
	s.Delayed, _ = m.count(tube.Delayed, everywhere)
	s.Buried, _ = m.count(tube.Buried, everywhere)
	s.Reserved, _ = m.count(tube.Reserved, everywhere)
	s.Jobs, s.Timeouts, s.Tubes = m.total, m.timeouts, uint64(len(m.tubes))
	return s
}
