package redis

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// Waits for the ends of jobs. The script that answers a WaitEnded notes in Redis that this instance waits for the job, and the one that ends or
// buries the job sends this instance a message. Messages can be lost: this instance can be declared dead, Redis can go back in time, and
// a policy without `keep` can take away the record for which somebody waits. So each awaited job is asked for again from time to time.

const (
	// askAgain is how long after a WaitEnded it is repeated at the earliest, and askRate how many are in a second, by one partition.
	askAgain = 2 * time.Second
	askRate  = 5000

	// askStep is how often some of them are.
	askStep = 100 * time.Millisecond

	// forgetAfter is how long an awaited job is remembered if nobody asks for it although it was reported.
	forgetAfter = 10 * time.Second
)

// awaitedEnds are the jobs of a partition whose ends clients of this instance await.
type awaitedEnds struct {
	mu      sync.Mutex
	jobs    map[uint64]awaitedEnd
	queue   []uint64 // in the order in which they are to be asked for; a job can be in it more than once
	running bool     // repeat runs
	ended   bool
}

// awaitedEnd is one of them.
type awaitedEnd struct {
	asked    time.Time // when it was last asked for
	reported time.Time // when that was last said to be necessary; zero if it was asked for since
}

// answered records the answer to a WaitEnded that waits: whether the job goes on. report is Listener.JobEnded.
func (w *awaitedEnds) answered(id uint64, goesOn bool, report func(uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !goesOn {
		delete(w.jobs, id)
		return
	}
	if w.jobs == nil {
		w.jobs = make(map[uint64]awaitedEnd)
	}
	if _, known := w.jobs[id]; !known {
		w.queue = append(w.queue, id)
	}
	w.jobs[id] = awaitedEnd{asked: time.Now()}
	if !w.running && !w.ended {
		w.running = true
		go w.repeat(report)
	}
}

// repeat reports jobs that are to be asked for again, until there are none.
func (w *awaitedEnds) repeat(report func(uint64)) {
	for {
		time.Sleep(askStep)
		due, more := w.due(time.Now(), int(askRate*askStep/time.Second))
		for _, id := range due {
			report(id)
		}
		if !more {
			return
		}
	}
}

// due returns up to limit jobs that are to be asked for again, and whether any are awaited.
func (w *awaitedEnds) due(now time.Time, limit int) (ids []uint64, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for looked := len(w.queue); looked > 0 && len(ids) < limit; looked-- {
		id := w.queue[0]
		job, known := w.jobs[id]
		if known && min(now.Sub(job.asked), now.Sub(job.reported)) < askAgain {
			break
		}
		w.queue = w.queue[1:]
		switch {
		case !known:
			continue
		case !job.reported.IsZero() && now.Sub(job.asked) > forgetAfter:
			delete(w.jobs, id)
			continue
		}
		w.jobs[id] = awaitedEnd{job.asked, now}
		ids, w.queue = append(ids, id), append(w.queue, id)
	}
	if len(w.jobs) == 0 || w.ended {
		w.queue, w.jobs, w.running = nil, nil, false
	}
	return ids, w.running
}

// end ends the reports.
func (w *awaitedEnds) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// jobsEnded passes a message on that names jobs which have ended, or are buried.
func (p *partition) jobsEnded(ids string) {
	for text := range strings.SplitSeq(ids, ",") {
		if id, err := strconv.ParseUint(text, 10, 64); err == nil {
			p.listener.JobEnded(id)
		}
	}
}
