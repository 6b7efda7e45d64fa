package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// An operation that may concern cold jobs waits until they are admitted, and is carried out then.

// coldNeeds are the cold jobs that an operation needs in the machine to go on.
type coldNeeds struct {
	wanted func() (admittedPage, error) // admits them; nil: none are needed
	read   bool                         // a page was read
	page   admittedPage                 // that one
	err    error                        // why they cannot be read

	admitted []uint64 // for the operation so far. They can be made cold again when it is done
	keepWarm string   // the tube that it keeps warm; "": none
}

// coldPart is how many cold jobs are admitted at once for an operation on many.
const coldPart = 128

// awaitsCold reports whether an operation has to wait for cold jobs. The lock is held.
func (e *Engine) awaitsCold(op *storage.Op, p *progress) bool {
	if e.cold.lastID == 0 {
		return false
	}
	c := &p.cold
	switch op.Kind {
	case storage.Move, storage.SetPriority, storage.Reschedule, storage.Peek, storage.GetCheckpoint, storage.JobStats,
		storage.MoveJob, storage.Replay, storage.WaitEnded:
		e.needJob(op.ID, c)
	case storage.Kick:
		if p.from == tube.Delayed || !p.begun && e.kicksDelayed(op.Tube) {
			e.needFirst(op.Tube, c)
		}
	case storage.PeekHead, storage.MoveJobs:
		if op.State == tube.Delayed {
			e.needFirst(op.Tube, c)
		}
	case storage.ListJobs:
		if op.State == tube.Delayed {
			e.needListed(op, p)
		}
	case storage.Flush:
		if op.State == tube.Delayed || op.State == tube.Gone {
			e.needFlushed(op, c)
		}
	}
	return c.wanted != nil
}

// needJob asks for a job that may be cold.
func (e *Engine) needJob(id uint64, c *coldNeeds) {
	if c.read || id == 0 || id > e.cold.lastID || e.machine.Find(id) != nil {
		return
	}
	c.wanted = func() (page admittedPage, err error) {
		page.ids, err = e.journal.admitOne(id)
		return page, err
	}
}

func (e *Engine) kicksDelayed(name string) bool {
	from, _ := e.machine.Kickable(name)
	return from == tube.Delayed
}

// needFirst asks for the first jobs of a tube, if they may be cold.
func (e *Engine) needFirst(name string, c *coldNeeds) {
	if e.machine.ColdFirst(name) && !(c.read && c.page.next == tube.NoColdPlace) {
		c.wanted = func() (admittedPage, error) { return e.journal.admitFirst(name, coldPart) }
	}
}

// needListed asks for the cold jobs that may be in a page of a list. If jobs became cold since they were read, it asks again.
func (e *Engine) needListed(op *storage.Op, p *progress) {
	c, jobs := &p.cold, 0
	if jobs, _ = e.machine.Cold(op.Tube); jobs == 0 || c.read && c.page.evictions == e.cold.evictions {
		return
	}
	after, valid := e.machine.PlaceOfCursor(cursorOf(op))
	if valid {
		p.begun, p.list = false, nil
		n := min(int(op.MaxJobs), tube.MaxListed) + 1
		c.wanted = func() (admittedPage, error) { return e.journal.admitPage(coldPlaces{op.Tube, after, tube.Never, n}) }
	}
}

// needFlushed asks for the next cold jobs of a tube that is flushed, which keeps all others warm meanwhile.
func (e *Engine) needFlushed(op *storage.Op, c *coldNeeds) {
	jobs, first := e.machine.Cold(op.Tube)
	if jobs == 0 || len(c.page.ids) > 0 || c.read && c.page.next == tube.NoColdPlace || op.Args != nil && op.Args.Group != "" {
		return
	}
	if c.keepWarm == "" {
		c.keepWarm = op.Tube
		e.cold.keepWarm[op.Tube]++
	}
	if c.read {
		first = c.page.next
	}
	c.wanted = func() (admittedPage, error) {
		return e.journal.admitPage(coldPlaces{op.Tube, justBefore(first), tube.Never, coldPart})
	}
}

// loadCold admits the cold jobs that a task needs, on a goroutine of its own, and then gives the task back to the worker. The lock is
// held.
func (e *Engine) loadCold(t *task) {
	wanted := t.cold.wanted
	go func() {
		page, err := wanted()
		e.mu.Lock()
		defer e.mu.Unlock()
		c := &t.cold
		c.wanted, c.read, c.page, c.err = nil, true, page, err
		c.admitted = append(c.admitted, page.ids...)
		e.enqueue(t)
	}()
}

// dropCold is called when an operation is done: what was admitted for it can be cold again, unless it has changed. The lock is held.
func (e *Engine) dropCold(p *progress) {
	if name := p.cold.keepWarm; name != "" {
		if e.cold.keepWarm[name]--; e.cold.keepWarm[name] == 0 {
			delete(e.cold.keepWarm, name)
		}
	}
	for _, id := range p.cold.admitted {
		e.journal.evict(id)
	}
}
