package storetest

import (
	"cmp"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Tick moves the clock to then and does what is due by then.
func (m *Model) Tick(then time.Duration) {
	ready, busy := m.readyLanes(), m.busyGroups()
	m.now = then
	m.step++
	m.tickGroups()
	for _, t := range m.tubes {
		if t.paused && t.until <= m.now {
			t.paused, t.pause = false, 0
		}
	}
	for key, stone := range m.tombstones {
		if stone.until <= m.now {
			delete(m.tombstones, key)
		}
	}
	for _, j := range m.jobs {
		if j.state == tube.Delayed && j.due <= m.now {
			j.state = tube.Ready
		}
	}
	for _, e := range m.endings() {
		counts := m.batchCounts()
		switch j := e.job; {
		case e.ttr:
			m.timeOut(j, nil)
		case j.state == tube.Ready || j.state == tube.Delayed:
			m.expire(j)
		}
		m.sendPending()
		m.dueSince(counts)
	}
	m.giveTurns(ready)
	m.seeGroups(busy)
}

// timeOut ends a reservation whose TTR is over, or by op, which takes the job back.
func (m *Model) timeOut(j *modelJob, op *storage.Op) {
	j.counters[tube.Timeouts]++
	m.fail(j, op, tube.FailedByTTR)
	m.timeouts++
	m.endDelivery(j, true, 0)
}

// takeBack takes a job back from its holder.
func (m *Model) takeBack(j *modelJob, op *storage.Op) {
	m.takenBack[modelHolding{j.holder, j.id}] = j.holder != tube.LeaseHolder
	m.timeOut(j, op)
	m.sendPending()
}

// ending is the end of a TTR, or of the time of a job that is ready or delayed.
type ending struct {
	job   *modelJob
	at    time.Duration
	order int
	ttr   bool
}

// endings returns what has ended by now, in its order. At the same time a TTR comes first.
func (m *Model) endings() (all []ending) {
	for _, j := range m.jobs {
		if j.state == tube.Reserved && j.due <= m.now {
			all = append(all, ending{j, j.due, j.order, true})
		}
		if m.isOver(j) && (j.state == tube.Ready || j.state == tube.Delayed) {
			all = append(all, ending{j, j.expires, j.expiresOrder, false})
		}
	}
	slices.SortFunc(all, func(a, b ending) int {
		first := cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
		if a.ttr != b.ttr {
			return cmp.Or(first, map[bool]int{true: -1, false: 1}[a.ttr])
		}
		return cmp.Or(first, cmp.Compare(a.job.id, b.job.id))
	})
	return all
}

// Reopen does what closing and reopening a store does: no job is reserved except by a lease, and
// no connection uses or watches a tube. Unless the store keeps tubes, their counters and the
// totals start again at zero, and tubes are in the order of their oldest jobs.
func (m *Model) Reopen(keepsTubes bool) {
	m.step++
	m.doubtClaims()
	ready, counts := m.readyLanes(), m.batchCounts()
	if !keepsTubes {
		m.reopenTubes()
	}
	byID := func(a, b *modelJob) int { return cmp.Compare(a.id, b.id) } // the ids of dead letters can be in another order, see idLearner
	for _, j := range slices.SortedFunc(slices.Values(m.jobs), byID) {
		if j.state == tube.Reserved && j.holder != tube.LeaseHolder {
			j.counters[tube.Reserves]-- // the store has ended the reservation, so it does not count
			if j.state = tube.Ready; m.isOver(j) {
				m.expire(j)
			}
			j.heldAtEnd = j.state == tube.Ready
		}
	}
	for _, t := range m.tubes {
		t.using, t.watching = 0, 0
	}
	clear(m.takenBack)
	m.drop()
	m.sendPending()
	m.dueSince(counts)
	m.giveTurns(ready)
	if !keepsTubes {
		m.reopenGroups()
		for _, b := range m.batches { // all are examined again
			b.due, b.claimed = 0, 0
		}
	}
	m.seeGroups(nil)
}

// reopenTubes resets the counters and the order of the tubes.
func (m *Model) reopenTubes() {
	m.total, m.timeouts, m.tubes = 0, 0, m.tubes[:1]
	for _, j := range m.jobs {
		if !slices.Contains(m.tubes, j.tube) {
			m.tubes = append(m.tubes, j.tube)
		}
	}
	slices.SortFunc(m.tubes[1:], func(a, b *modelTube) int { return cmp.Compare(a.name, b.name) })
	for _, t := range m.tubes {
		t.total, t.deletes, t.pauses, t.expired = 0, 0, 0, 0
		t.using, t.watching = 0, 0
	}
}
