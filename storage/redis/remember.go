package redis

import (
	"cmp"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// rememberFor is how long the bodies of a run are remembered, and
	// rememberBytes about how many bytes of them in all partitions. A job that
	// waits for longer, or comes when there are as many, is read from Redis.
	rememberFor   = 10 * time.Second
	rememberBytes = 16 << 20

	// rememberCost is what a job costs beside its body.
	rememberCost = 64
)

// memory is the bodies of jobs that this instance has put into runs a short while
// ago. Mostly it is this instance that reserves them, and as a body never changes,
// Redis need not send it back: the name of a run says who has put it, and each call
// from which job on this instance remembers. It is exact, as the answers to calls
// are read in their order: what one of them makes known the next one may rely on.
// An instance that lost touch with Redis goes on by another name, and so remembers
// nothing.
type memory struct {
	runs  []remembered // in the order of their ids
	last  int          // in which a job was found; most likely the next one is, too
	done  int          // how many of runs have nothing left
	bytes int          // of what is left, about
	limit int
	from  uint64 // the first job that is sure to be remembered
	step  uint64 // from one id of a run to the next
}

// remembered is one run.
type remembered struct {
	first  uint64
	bodies [][]byte // nil where the job was taken
	left   int
	tube   string
	ttr    time.Duration
	since  time.Time
}

func newMemory(o Options) *memory {
	m := &memory{limit: rememberBytes / o.Partitions, step: uint64(o.Partitions)}
	if o.forgetful {
		m.limit = 0
	}
	return m
}

// clear is for an instance that goes on by another name.
func (m *memory) clear() { *m = memory{limit: m.limit, step: m.step} }

// room returns whether another run can be remembered.
func (m *memory) room() bool { return m.bytes < m.limit }

// keep remembers a run that was put: jobs of one tube and TTR.
func (m *memory) keep(puts []*storage.Op, now time.Time) {
	if m.done > 64 && m.done > len(m.runs)/2 {
		m.runs = slices.DeleteFunc(m.runs, func(r remembered) bool { return r.left == 0 })
		m.done = 0
	}
	run := remembered{
		first: puts[0].Answer.ID, bodies: make([][]byte, len(puts)), left: len(puts),
		tube: puts[0].Tube, ttr: ttrOf(puts[0]), since: now,
	}
	for i, op := range puts {
		if run.bodies[i] = op.Body; op.Body == nil {
			run.bodies[i] = []byte{}
		}
		m.bytes += len(op.Body) + rememberCost
	}
	m.runs = append(m.runs, run)
}

// ttrOf is the TTR of a job that is put.
func ttrOf(op *storage.Op) time.Duration {
	return time.Duration(max(op.TTR, tube.MinTTR)) * time.Second
}

// take returns a job and forgets it; false if it is not remembered.
func (m *memory) take(id uint64) (job, bool) {
	if m.last >= len(m.runs) || !m.runs[m.last].has(id, m.step) {
		at, is := slices.BinarySearchFunc(m.runs, id, func(r remembered, id uint64) int { return cmp.Compare(r.first, id) })
		if !is {
			at-- // it may be in the run that begins before it
		}
		if at < 0 || !m.runs[at].has(id, m.step) {
			return job{}, false
		}
		m.last = at
	}
	run := &m.runs[m.last]
	at := (id - run.first) / m.step
	body := run.bodies[at]
	run.bodies[at] = nil
	m.bytes -= len(body) + rememberCost
	if run.left--; run.left == 0 {
		run.bodies = nil
		m.done++
	}
	return job{body, run.tube, run.ttr}, true
}

func (r *remembered) has(id, step uint64) bool {
	behind := id - r.first
	return id >= r.first && behind%step == 0 && behind/step < uint64(len(r.bodies)) && r.bodies[behind/step] != nil
}

// since returns from which job on a call may rely on what is remembered.
func (m *memory) since(now time.Time) uint64 {
	for i := range m.runs {
		run := &m.runs[i]
		if run.left == 0 {
			continue
		}
		if now.Sub(run.since) < rememberFor {
			break
		}
		m.from = run.first + uint64(len(run.bodies))*m.step
	}
	return m.from
}

// forget lets go of the jobs before that one, as no call will rely on them.
func (m *memory) forget(before uint64) {
	gone := 0
	for gone < len(m.runs) && (m.runs[gone].left == 0 || m.runs[gone].first < before) {
		run := &m.runs[gone]
		for _, body := range run.bodies {
			if body != nil {
				m.bytes -= len(body) + rememberCost
			}
		}
		if run.left == 0 {
			m.done--
		}
		*run = remembered{}
		gone++
	}
	m.runs, m.last = m.runs[gone:], max(m.last-gone, 0)
}
