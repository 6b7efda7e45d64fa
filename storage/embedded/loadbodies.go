package embedded

import (
	"time"

	"redstalk/tube"
)

// An operation may need bodies of jobs that are on disk only, not for its answer but to go on.
// It asks for them and is carried out again:
//
//	if e.lacksBody(p, job) {
//		p.needed = append(p.needed, job.ID) // of several jobs at once, if possible
//	}
//	...
//	if len(p.needed) > 0 {
//		p.begun = true
//		return false // apply calls the operation again, with the same p
//	}
//
// When it is called again, machine.Body has these bodies until it returns, unless a body could
// not be read: then p.unreadable has the error. The lock was released in between: jobs may be
// gone or changed, and there may be new ones.

const (
	// maxNeeded and maxNeededBytes are how many bodies an operation should ask for at once, and
	// how many bytes of them beyond the first one.
	maxNeeded      = 64
	maxNeededBytes = 4 << 20
)

// bodyNeeds are the bodies that an operation needs in memory to go on.
type bodyNeeds struct {
	needed     []uint64         // jobs whose bodies it waits for
	loaded     []uint64         // jobs whose bodies are in memory only until the operation was called again
	unreadable map[uint64]error // jobs whose bodies could not be read
}

// lacksBody reports whether an operation has to wait for the body of a job: it is on disk
// only, and was not found to be unreadable. The lock is held.
func (e *Engine) lacksBody(p *progress, j *tube.Job) bool {
	return p.unreadable[j.ID] == nil && e.onDiskOnly(j)
}

// onDiskOnly reports whether a job has a body that is not in memory. The lock is held.
func (e *Engine) onDiskOnly(j *tube.Job) bool { return j.Size() > 0 && e.machine.Body(j) == nil }

// loadBodies reads the bodies that a task needs, on a goroutine of its own, and then gives the
// task back to the worker. The lock is held.
func (e *Engine) loadBodies(t *task) {
	go func() {
		bodies := e.readBodies(t.needed)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.keepLoaded(&t.progress, bodies)
		e.enqueue(t)
	}()
}

// loadedBody is a body that was read, or the error.
type loadedBody struct {
	id   uint64
	body []byte
	err  error
}

// readBodies reads the bodies of jobs. The body of a job that is deleted meanwhile may be gone.
//
// It reads the tables as they are, not a snapshot of them: taking a snapshot needs Pebble's own
// lock, and a caller that waited for it under the engine's lock would delay all others.
func (e *Engine) readBodies(ids []uint64) []loadedBody {
	from := e.journal.tables
	bodies, y := make([]loadedBody, len(ids)), yielder{time.Now()}
	for i, id := range ids {
		y.work()
		body, err := from.Body(id)
		bodies[i] = loadedBody{id, body, err}
	}
	return bodies
}

// keepLoaded gives bodies to the jobs that still lack them. The lock is held.
func (e *Engine) keepLoaded(p *progress, bodies []loadedBody) {
	p.needed = nil
	for _, b := range bodies {
		j := e.machine.Find(b.id)
		switch {
		case j == nil || !e.onDiskOnly(j):
		case b.err == nil:
			e.machine.KeepBody(j, b.body)
			p.loaded = append(p.loaded, b.id)
		default:
			if p.unreadable == nil {
				p.unreadable = make(map[uint64]error)
			}
			p.unreadable[b.id] = b.err
			e.journal.bodyReads.report("a body cannot be read from the journal", b.id, b.err)
		}
	}
}

// dropLoaded drops the bodies that were loaded for an operation, of the jobs that still exist.
// The tables have them. The lock is held.
func (e *Engine) dropLoaded(p *progress) {
	for _, id := range p.loaded {
		if j := e.machine.Find(id); j != nil {
			e.machine.DropBody(j)
		}
	}
	p.loaded = nil
}
