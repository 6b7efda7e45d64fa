package embedded

import (
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// An exhausted job goes to its dead-letter tube at once, if its body is in memory. Otherwise it
// is a pending dead letter: it is buried, and the sender, a goroutine that exists while there
// are such jobs, reads their bodies and moves them. The new job and the end of the old one are
// in one frame of the log.

// sendAgain is after how long the sender tries again if the tables cannot be read at all.
const sendAgain = tube.Instant(time.Second)

// resume does what is left to do when all jobs are restored.
func (e *Engine) resume() {
	e.mu.Lock()
	for more := true; more; {
		more = e.machine.EndRestore(e.now(), partWork)
		e.journal.endFrame()
	}
	e.startSender()
	commit, _ := e.journal.addBatches(nil, nil, true)
	e.mu.Unlock()
	if commit != nil {
		e.journal.commit(commit, nil)
	}
}

// startSender starts the sender if there is work for it, and it does not exist. The lock is
// held.
func (e *Engine) startSender() {
	if e.machine.PendingDeadLetters() == 0 || e.sending || e.closed || e.journal == nil || e.now() < e.sendAt {
		return
	}
	e.sending = true
	e.pending++
	go func() {
		y, release := ownThread()
		defer release()
		for e.sendPart() {
			y.work()
		}
		e.tasksEnded(1)
	}()
}

// sendPart moves some jobs to their dead-letter tubes. It returns false when the sender has to
// end: there are no more jobs, the engine is closed, or nothing can be read at present.
func (e *Engine) sendPart() (more bool) {
	e.mu.Lock()
	e.journal.awaitTaskTurn()
	if e.sending = e.machine.PendingDeadLetters() > 0 && !e.closed && e.now() >= e.sendAt; !e.sending {
		e.mu.Unlock()
		return false
	}
	ids, lacking := e.splitSendable(e.machine.NextPending(maxNeeded))
	unlockAndYield(&e.mu)

	bodies := e.readBodies(lacking)

	e.mu.Lock()
	h := e.beginHold()
	e.sendLoaded(h.now, ids, bodies)
	e.journal.endFrame()
	e.endHold(&h, nil)
	if h.commit != nil {
		e.journal.handOver()
	}
	unlockAndYield(&e.mu)
	e.afterHold(&h)
	return true
}

// splitSendable returns those of ids, pending dead letters, that are moved now, and of these
// the ones whose bodies have to be read first. The others are queued again. The lock is held.
func (e *Engine) splitSendable(ids []uint64) (now, lacking []uint64) {
	bytes := 0
	for i, id := range ids {
		if j := e.machine.Find(id); j != nil && e.onDiskOnly(j) {
			if bytes += j.Size(); bytes > maxNeededBytes && i > 0 {
				e.machine.RequeuePending(ids[i:]...)
				return ids[:i], lacking
			}
			lacking = append(lacking, id)
		}
	}
	return ids, lacking
}

// sendLoaded moves jobs, with the bodies that were read. A job whose body is damaged stays
// buried; if a body cannot be read for another reason, all are tried again later. The lock is held.
func (e *Engine) sendLoaded(now tube.Instant, ids []uint64, bodies []loadedBody) {
	read := make(map[uint64]loadedBody, len(bodies))
	for _, b := range bodies {
		read[b.id] = b
	}
	for i, id := range ids {
		b, wasRead := read[id]
		j := e.machine.Find(id)
		switch {
		case j == nil:
		case b.err != nil && !tables.IsDamage(b.err):
			e.journal.bodyReads.report("jobs cannot be sent to dead-letter tubes yet: bodies cannot be read from the journal", id, b.err)
			e.machine.RequeuePending(ids[i:]...)
			e.sendAt = now + sendAgain
			return
		case b.err != nil:
			e.machine.CancelPending(now, id, damagedReason)
			e.journal.bodyReads.report("a job stays buried and is not sent to its dead-letter tube: its body is damaged", id, b.err)
		case !wasRead && e.onDiskOnly(j): // its body was in memory a moment ago
			e.machine.RequeuePending(ids[i:]...)
			return
		default:
			e.machine.SendPending(now, id, b.body)
		}
	}
}
