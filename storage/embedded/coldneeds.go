package embedded

import (
	"slices"

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

	flushing tube.State   // of the page, for a flush
	flushed  []tube.State // in which the flush has read all cold jobs
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
			e.needFirst(tube.ColdQueue{Tube: op.Tube, State: tube.Delayed}, min(int(op.MaxJobs)-p.done, partWork), p)
		}
	case storage.Take:
		e.needNext(op, p)
	case storage.TubeStats:
		e.needOldest(op, p)
	case storage.Flush:
		e.needFlushed(op, p)
	case storage.PeekHead, storage.MoveJobs, storage.ListJobs:
		if slices.Contains(tube.ColdStates[:], op.State) {
			e.needInQueue(op, tube.ColdQueue{Tube: op.Tube, State: op.State}, p)
		}
	}
	return p.cold != nil && p.cold.wanted != nil
}

// needInQueue asks for the jobs of a queue that an operation is about.
func (e *Engine) needInQueue(op *storage.Op, of tube.ColdQueue, p *progress) {
	switch op.Kind {
	case storage.PeekHead:
		e.needFirst(of, 1, p)
	case storage.MoveJobs:
		e.needFirst(of, min(int(op.MaxJobs)-p.done, coldPart), p)
	case storage.ListJobs:
		e.needListed(op, of, p)
	}
}

// needNext asks for the next ready jobs of a tube, if a Take may need them.
func (e *Engine) needNext(op *storage.Op, p *progress) {
	name := e.machine.ColdFirst(op.Tubes)
	if of := (tube.ColdQueue{Tube: name, State: tube.Ready}); name != "" {
		p.wants(func() (admittedPage, error) { return e.journal.admitFirst(of, coldPage) })
	}
}

// needOldest asks when the oldest cold ready job of a tube was put.
func (e *Engine) needOldest(op *storage.Op, p *progress) {
	if jobs, _ := e.machine.Cold(tube.ColdQueue{Tube: op.Tube, State: tube.Ready}); jobs == 0 || p.cold.wasRead() {
		return
	}
	p.wants(func() (page admittedPage, err error) {
		page.oldest, err = e.journal.oldestCold(op.Tube)
		return page, err
	})
}

// oldestCold returns when the oldest of the cold ready jobs of a tube was put, as wall time: of the first one of each priority. If many
// priorities have such jobs, or many jobs of one have gone, an older one can be missed.
func (j *journal) oldestCold(name string) (oldest tube.Instant, err error) {
	const perPriority = 64
	j.cold.ingesting.RLock()
	defer j.cold.ingesting.RUnlock()
	of := tube.ColdQueue{Tube: name, State: tube.Ready}
	j.mu.Lock()
	_, next := j.machine.Cold(of)
	j.mu.Unlock()
	oldest = tube.Never
	for n := 0; n < tube.MaxPriorities && next != tube.NoColdPlace; n++ {
		places, _, err := j.tables.ColdPlaces(of, justBefore(next), next.Rank, perPriority)
		if err != nil {
			return oldest, err
		}
		if places = j.areCold(places); len(places) > 0 {
			jobs, err := j.readCold(name, places[:1])
			if err != nil {
				return oldest, err
			}
			for _, c := range jobs {
				oldest = min(oldest, c.record.Created)
			}
		}
		if _, next, err = j.tables.ColdPlaces(of, tube.ColdPlace{Rank: next.Rank, ID: 1<<64 - 1}, anyRank, 0); err != nil {
			return oldest, err
		}
	}
	return oldest, nil
}

// readOldest adds to the stats of a tube what needOldest has read.
func (e *Engine) readOldest(now tube.Instant, p *progress, s *tube.TubeStats) {
	if p.cold.wasRead() && p.cold.page.oldest != tube.Never {
		s.OldestReady = max(s.OldestReady, e.machine.Wall(now).Until(p.cold.page.oldest))
	}
}

// hasReadAll reports whether no cold jobs were left in the queue that was read last, and none became cold since.
func (c *coldNeeds) hasReadAll() bool {
	return c.wasRead() && c.page.next == tube.NoColdPlace && c.page.isPassed()
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

// needFirst asks for the first n jobs of a queue, if some may be cold. All are there before an operation on them begins: what needs no parts is done
// as a whole or not at all.
func (e *Engine) needFirst(of tube.ColdQueue, n int, p *progress) {
	if e.someCold(of, n, p) {
		p.wants(func() (admittedPage, error) { return e.journal.admitFirst(of, max(n, coldPart)) })
	}
}

// someCold reports whether some of the first n jobs of a queue may be cold. It is not so if the tables had none when they were last read for
// the operation.
func (e *Engine) someCold(of tube.ColdQueue, n int, p *progress) bool {
	jobs, _ := e.machine.Cold(of)
	if jobs == 0 || p.cold.hasReadAll() {
		return false
	}
	return len(e.machine.FirstJobs(of.Tube, of.State, n)) < min(n, e.machine.CountIn(of.Tube, of.State))
}

// needListed asks for the cold jobs that may be in a page of a list. If some of these became cold since they were read, it asks again, and
// keeps them warm meanwhile.
func (e *Engine) needListed(op *storage.Op, of tube.ColdQueue, p *progress) {
	jobs, _ := e.machine.Cold(of)
	if jobs == 0 || p.cold.wasRead() && p.cold.page.isPassed() {
		return
	}
	after, valid := e.machine.PlaceOfCursor(of.State, cursorOf(op))
	if valid {
		p.begun, p.list = false, nil
		n := min(int(op.MaxJobs), tube.MaxListed) + 1
		watch := e.cold.watch(of)
		if p.cold.wasRead() {
			watch.keep = p.cold.page.next
		}
		p.wants(func() (page admittedPage, err error) {
			page, err = e.journal.admitPage(coldPlaces{of, after, anyRank, n})
			page.watch = watch
			return page, err
		})
	}
}

// needFlushed asks for the next cold jobs of a tube that is flushed, which keeps all others warm meanwhile.
func (e *Engine) needFlushed(op *storage.Op, p *progress) {
	if p.cold.wasRead() && len(p.cold.page.ids) > 0 {
		return
	}
	of, next, more := e.nextFlushed(op, p)
	if !more {
		return
	}
	p.wants(func() (admittedPage, error) {
		return e.journal.admitPage(coldPlaces{of, justBefore(next), anyRank, coldPart})
	})
	if p.cold.flushing = of.State; p.cold.keepWarm == "" {
		p.cold.keepWarm = op.Tube
		e.cold.keepWarm[op.Tube]++
	}
}

// nextFlushed returns where a flush has to read on; more is false if there are no more cold jobs for it.
func (e *Engine) nextFlushed(op *storage.Op, p *progress) (of tube.ColdQueue, next tube.ColdPlace, more bool) {
	if op.Args != nil && op.Args.Group != "" {
		return of, next, false
	}
	if p.cold.wasRead() && p.cold.page.next == tube.NoColdPlace {
		p.cold.flushed = append(p.cold.flushed, p.cold.flushing)
	}
	for _, s := range tube.ColdStates {
		of = tube.ColdQueue{Tube: op.Tube, State: s}
		jobs, next := e.machine.Cold(of)
		if jobs == 0 || op.State != s && op.State != tube.Gone || p.cold != nil && slices.Contains(p.cold.flushed, s) {
			continue
		}
		if p.cold.wasRead() && p.cold.flushing == s {
			next = p.cold.page.next
		}
		return of, next, true
	}
	return of, next, false
}

// flushCold removes the cold jobs that were admitted for a flush. It returns false if there are more.
func (e *Engine) flushCold(now tube.Instant, op *storage.Op, p *progress) (done bool) {
	if p.cold == nil {
		return true
	}
	for _, id := range p.cold.page.ids {
		if e.machine.FlushJob(now, p.flush, id) {
			e.spend(1)
		}
	}
	p.cold.page.ids, p.cold.admitted = nil, nil
	_, _, more := e.nextFlushed(op, p)
	return !more
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
		e.journal.unwatch(c.page.watch)
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
	e.journal.unwatch(p.cold.page.watch)
	if name := p.cold.keepWarm; name != "" {
		if e.cold.keepWarm[name]--; e.cold.keepWarm[name] == 0 {
			delete(e.cold.keepWarm, name)
		}
	}
	for _, id := range p.cold.admitted {
		e.journal.evict(id)
	}
}
