package embedded

import (
	"redstalk/storage"
	"redstalk/tube"
)

// An operation that may concern cold jobs waits until they are admitted, and is carried out then.

// coldNeeds are the cold jobs that an operation needs in the machine to go on. An operation that needs none has nil.
type coldNeeds struct {
	wanted func() (admittedPage, error) // admits them; nil: they are admitted
	read   bool                         // a page was read
	page   admittedPage                 // that one
	err    error                        // why they cannot be read

	admitted []uint64 // for the operation so far. They can be made cold again when it is done
	keepWarm string   // the tube that it keeps warm; "": none
}

// wasRead reports whether a page was read.
func (c *coldNeeds) wasRead() bool { return c != nil && c.read }

// unreadCold returns why the cold jobs of an operation cannot be read; nil if they can.
func (p *progress) unreadCold() error {
	if p.cold == nil {
		return nil
	}
	return p.cold.err
}

// wants lets an operation wait until cold jobs are admitted.
func (p *progress) wants(admit func() (admittedPage, error)) {
	if p.cold == nil {
		p.cold = new(coldNeeds)
	}
	p.cold.wanted = admit
}

// coldPart is how many cold jobs are admitted at once for an operation on many.
const coldPart = 128

// awaitsCold reports whether an operation has to wait for cold jobs. The lock is held.
func (e *Engine) awaitsCold(op *storage.Op, p *progress) bool {
	if e.cold.lastID == 0 {
		return false
	}
	switch op.Kind {
	case storage.Move, storage.SetPriority, storage.Reschedule, storage.Peek, storage.GetCheckpoint, storage.JobStats,
		storage.MoveJob, storage.Replay, storage.WaitEnded:
		e.needJob(op.ID, p)
	case storage.Kick:
		if p.from == tube.Delayed || !p.begun && e.kicksDelayed(op.Tube) {
			e.needFirst(op.Tube, min(int(op.MaxJobs)-p.done, partWork), p)
		}
	case storage.PeekHead:
		if op.State == tube.Delayed {
			e.needFirst(op.Tube, 1, p)
		}
	case storage.MoveJobs:
		if op.State == tube.Delayed {
			e.needFirst(op.Tube, min(int(op.MaxJobs)-p.done, coldPart), p)
		}
	case storage.ListJobs:
		if op.State == tube.Delayed {
			e.needListed(op, p)
		}
	case storage.Flush:
		if op.State == tube.Delayed || op.State == tube.Gone {
			e.needFlushed(op, p)
		}
	}
	return p.cold != nil && p.cold.wanted != nil
}

// needJob asks for a job that may be cold.
func (e *Engine) needJob(id uint64, p *progress) {
	if p.cold.wasRead() || id == 0 || id > e.cold.lastID || e.machine.Find(id) != nil {
		return
	}
	p.wants(func() (page admittedPage, err error) {
		page.ids, err = e.journal.admitOne(id)
		return page, err
	})
}

func (e *Engine) kicksDelayed(name string) bool {
	from, _ := e.machine.Kickable(name)
	return from == tube.Delayed
}

// needFirst asks for the first n delayed jobs of a tube, if some may be cold. All are there before an operation on them begins: what needs no parts is done
// as a whole or not at all.
func (e *Engine) needFirst(name string, n int, p *progress) {
	if e.someCold(name, n, p) {
		p.wants(func() (admittedPage, error) { return e.journal.admitFirst(name, max(n, coldPart)) })
	}
}

// someCold reports whether some of the first n delayed jobs of a tube may be cold. It is not so if the tables had none when they were
// last read for the operation.
func (e *Engine) someCold(name string, n int, p *progress) bool {
	jobs, _ := e.machine.Cold(name)
	if jobs == 0 || p.cold.wasRead() && p.cold.page.next == tube.NoColdPlace && p.cold.page.evictions == e.cold.evictions {
		return false
	}
	return len(e.machine.FirstJobs(name, tube.Delayed, n)) < min(n, e.machine.CountIn(name, tube.Delayed))
}

// needListed asks for the cold jobs that may be in a page of a list. If jobs became cold since they were read, it asks again.
func (e *Engine) needListed(op *storage.Op, p *progress) {
	jobs, _ := e.machine.Cold(op.Tube)
	if jobs == 0 || p.cold.wasRead() && p.cold.page.evictions == e.cold.evictions {
		return
	}
	after, valid := e.machine.PlaceOfCursor(cursorOf(op))
	if valid {
		p.begun, p.list = false, nil
		n := min(int(op.MaxJobs), tube.MaxListed) + 1
		p.wants(func() (admittedPage, error) { return e.journal.admitPage(coldPlaces{op.Tube, after, tube.Never, n}) })
	}
}

// needFlushed asks for the next cold jobs of a tube that is flushed, which keeps all others warm meanwhile.
func (e *Engine) needFlushed(op *storage.Op, p *progress) {
	jobs, next := e.machine.Cold(op.Tube)
	if jobs == 0 || op.Args != nil && op.Args.Group != "" {
		return
	}
	if p.cold.wasRead() {
		if next = p.cold.page.next; len(p.cold.page.ids) > 0 || next == tube.NoColdPlace {
			return
		}
	}
	p.wants(func() (admittedPage, error) {
		return e.journal.admitPage(coldPlaces{op.Tube, justBefore(next), tube.Never, coldPart})
	})
	if p.cold.keepWarm == "" {
		p.cold.keepWarm = op.Tube
		e.cold.keepWarm[op.Tube]++
	}
}

// flushCold removes the cold jobs that were admitted for a flush. It returns false if there are more.
func (e *Engine) flushCold(now tube.Instant, p *progress) (done bool) {
	c := p.cold
	if c == nil {
		return true
	}
	for _, id := range c.page.ids {
		if e.machine.FlushJob(now, p.flush, id) {
			e.spend(1)
		}
	}
	c.page.ids, c.admitted = nil, nil
	return c.page.next == tube.NoColdPlace
}

// loadCold admits the cold jobs that a task needs, on a goroutine of its own, and then gives the task back to the worker. The lock is
// held.
func (e *Engine) loadCold(t *task) {
	wanted := t.cold.wanted
	go func() {
		page, err := wanted()
		e.mu.Lock()
		defer e.mu.Unlock()
		c := t.cold
		c.wanted, c.read, c.page, c.err = nil, true, page, err
		c.admitted = append(c.admitted, page.ids...)
		e.enqueue(t)
	}()
}

// dropCold is called when an operation is done: what was admitted for it can be cold again, unless it has changed. The lock is held.
func (e *Engine) dropCold(p *progress) {
	if p.cold == nil {
		return
	}
	if name := p.cold.keepWarm; name != "" {
		if e.cold.keepWarm[name]--; e.cold.keepWarm[name] == 0 {
			delete(e.cold.keepWarm, name)
		}
	}
	for _, id := range p.cold.admitted {
		e.journal.evict(id)
	}
}
