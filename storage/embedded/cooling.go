package embedded

import (
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// Ready jobs become cold, see coldJobs, when there are very many: those of each tube behind about the middle. cool writes them to the
// tables as cold jobs, in windows that are about no part of the log; after that, jobs that are put behind them are cold as soon as they are
// written. When few are left in memory, those that come next are admitted (admitReadyPage).
//
// It is the same when so many delayed jobs are due at once that no more are admitted: cool makes those cold as ready jobs that come last by
// priority, so there is room for the next ones.

const (
	// mostReady is coldJobs.mostReady unless a test says otherwise: some 300 MB.
	mostReady = 1_500_000

	// fewReady is coldJobs.fewReady unless a test says otherwise. A tube with at most twice as many ready jobs in memory keeps them there.
	fewReady = 10_000

	// coolPart is how many jobs are written by a window of cool.
	coolPart = 16 << 10
)

// startCooling starts cool if too many ready jobs are in memory. The lock is held.
func (e *Engine) startCooling() {
	c := &e.cold
	if c.cooling || c.after < 0 || e.closed || e.journal == nil || e.journal.failing {
		return
	}
	for name := range c.behind {
		if jobs, _ := e.machine.Cold(tube.ColdQueue{Tube: name, State: tube.Ready}); jobs == 0 {
			delete(c.behind, name)
		}
	}
	crowded := c.crowded
	c.crowded = ""
	if e.machine.ReadyInMemory() > c.mostReady {
		crowded = ""
	} else if crowded == "" {
		return
	}
	cooling := e.machine.NewCooling(crowded, 2*c.fewReady)
	if cooling == nil {
		return
	}
	for name, behind := range cooling.Behind {
		if old, has := c.behind[name]; !has || behind.Before(old) {
			c.behind[name] = behind
		}
	}
	c.cooling = true
	e.pending++
	go e.cool(cooling)
}

// cool makes the jobs of a cooling cold.
func (e *Engine) cool(cooling *tube.Cooling) {
	j := e.journal
	y, release := ownThread()
	defer release()
	for ended := false; !ended; {
		w := newWindow(0)
		for len(w.jobs) < coolPart && !ended {
			ended = e.coolSome(cooling, w)
			y.work()
		}
		if !j.writeAlone(w) {
			break
		}
	}
	e.mu.Lock()
	e.cold.cooling = false
	j.cond.Broadcast()
	e.mu.Unlock()
	e.tasksEnded(1)
}

// coolSome adds some jobs of a cooling to a window. It returns true if there are no more.
func (e *Engine) coolSome(cooling *tube.Cooling, w *window) (ended bool) {
	e.mu.Lock()
	defer unlockAndYield(&e.mu)
	ids, ended := e.machine.CoolSome(cooling, perHold)
	for _, id := range ids {
		if e.journal.isStored(id) && !e.journal.isChanging(id) {
			w.jobs[id] = isChanged
		}
	}
	return ended || e.closed
}

// isStored reports whether a job, which exists, is in the tables, or will be when the windows that were handed to the checkpointer so far
// are. The lock is held.
func (j *journal) isStored(id uint64) bool {
	base := j.window.base
	if j.held != nil {
		base = j.held.base
	}
	return id <= base
}

// writeAlone lets the checkpointer write a window that is about no part of the log, and waits until that is done. It returns false if the
// tables cannot be written.
func (j *journal) writeAlone(w *window) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	wait := func(until func() bool) bool {
		for !until() && !j.failing && !j.ending {
			j.cond.Wait()
		}
		return until()
	}
	if len(w.jobs) == 0 {
		return true
	}
	if !wait(func() bool { return j.behind <= behindOfTasks }) {
		return false
	}
	j.submit(w)
	return wait(func() bool { return w.written })
}

// submit hands a window to the checkpointer. The lock is held.
func (j *journal) submit(w *window) {
	j.behind++
	j.queued = append(j.queued, w)
	j.checkpoints <- w // does not block: the channel has room for maxWindows
}

// admitReadyPage admits the next cold ready jobs of a tube, if few are in memory. It returns whether there may be more.
func (e *Engine) admitReadyPage(of tube.ColdQueue) (more bool) {
	e.mu.Lock()
	_, first := e.machine.Cold(of)
	wanted := first != tube.NoColdPlace && !e.closed && e.journal.readyInMemory(of.Tube) < 2*e.cold.fewReady
	e.mu.Unlock()
	if !wanted {
		return false
	}
	page, err := e.journal.admitFirst(of, min(coldPage, 2*e.cold.fewReady))
	defer e.unwatch(page.watch)
	if err != nil {
		e.journal.bodyReads.report("the next ready jobs of a tube cannot be read from the journal", 0, err)
		return false
	}
	e.mu.Lock()
	wakeUps := e.wakeUps()
	e.mu.Unlock()
	e.sendWakeUps(wakeUps)
	return len(page.ids) > 0
}

// readyInMemory returns how many ready jobs of a tube are in memory. The lock is held.
func (j *journal) readyInMemory(name string) int {
	cold, _ := j.machine.Cold(tube.ColdQueue{Tube: name, State: tube.Ready})
	return j.machine.CountIn(name, tube.Ready) - cold
}

// isFarBehind reports whether a ready job in a place can be cold: many come before it. The lock is held.
func (j *journal) isFarBehind(p tables.Place) bool {
	behind, has := j.cold.behind[p.Tube]
	return has && !p.ColdPlace.Before(behind) && j.readyInMemory(p.Tube) > 2*j.cold.fewReady
}

// passed records that the cold ready jobs of a tube before a place were admitted: they are not to be cold again.
func (c *coldJobs) passed(name string, next tube.ColdPlace) {
	if c.behind[name].Before(next) && !c.cooling {
		c.behind[name] = next
	}
}
