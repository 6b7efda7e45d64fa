package storetest

import (
	"slices"
	"time"

	"redstalk/tube"
)

// Tick moves the clock to then and does what is due by then.
func (m *Model) Tick(then time.Duration) {
	m.now = then
	m.step++
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
	for _, j := range m.sorted(tube.Reserved, func(j *modelJob) bool { return j.due <= m.now }) {
		j.counters[tube.Timeouts]++
		m.failByTTR(j)
		m.timeouts++
		m.endDelivery(j, true, 0)
		m.sendPending()
	}
}

// Reopen does what closing and reopening a store does: no job is reserved except by a lease, and
// no connection uses or watches a tube. Unless the store keeps tubes, their counters and the
// totals start again at zero, and tubes are in the order of their oldest jobs.
func (m *Model) Reopen(keepsTubes bool) {
	m.step++
	for _, j := range m.jobs {
		if j.state == tube.Reserved && j.holder != tube.LeaseHolder {
			m.endDelivery(j, false, 0)
		}
	}
	for _, t := range m.tubes {
		t.using, t.watching = 0, 0
	}
	m.drop()
	if !keepsTubes {
		m.reopenTubes()
	}
	m.sendPending()
}

// reopenTubes resets the counters and the order of the tubes.
func (m *Model) reopenTubes() {
	m.total, m.timeouts, m.tubes = 0, 0, m.tubes[:1]
	for _, j := range m.jobs {
		if !slices.Contains(m.tubes, j.tube) {
			m.tubes = append(m.tubes, j.tube)
		}
	}
	for _, t := range m.tubes {
		t.total, t.deletes, t.pauses = 0, 0, 0
	}
}
