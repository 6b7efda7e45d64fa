package redis

import (
	"time"

	"redstalk/storage"
)

// An instance may stand still: its process is stopped, its machine sleeps. If that
// takes longer than the others wait for its heartbeat, they declare it dead and give
// its jobs to somebody else. So when it goes on with the answer to a call in its
// hands, the jobs in it may not be its own any more. An answer that gives somebody a
// job and is older than freshFor is not handed out before Redis has said, by
// answering another call, that the instance is alive.

// freshFor is how long after it was asked for an answer is sure to be good: the
// others wait longer before they declare an instance dead.
const freshFor = 2 * time.Second

// isStale returns whether the answer to the call gives somebody a job, and it has
// been too long since Redis confirmed that the instance is alive.
func (p *partition) isStale(c *call) bool {
	if elapsed(c.aliveAt(), p.clock.now()) <= freshFor {
		return false
	}
	for _, u := range c.units {
		if u.batch == nil || u.abandoned {
			continue
		}
		for i := u.begun; i < u.at; i++ {
			if givesJob(&u.batch.Ops[i]) {
				return true
			}
		}
	}
	return false
}

// givesJob returns whether an operation that was answered has reserved a job.
func givesJob(op *storage.Op) bool {
	takes := op.Kind == storage.Take || op.Kind == storage.Move && bringsBody(op)
	return takes && op.Answer.ID != 0
}

// vouchForAnswered hands out what came of the last call that Redis has answered, if it
// is still to be handed out. Redis has answered a call that was sent at that time. Until
// the instance is known to be alive lately it asks again; if it is not, or Redis does
// not say, nobody gets a job.
func (p *partition) confirmAnswered(sent time.Time) {
	begun, pause := time.Now(), firstPause
	for c := p.pipeline.answered; p.pipeline.answered != nil; {
		c.confirmed = sent
		if p.completeAnswered(); p.pipeline.answered == nil {
			return
		}
		sent = p.clock.now()
		switch err := p.confirm(); {
		case err == nil:
		case reactionTo(err) == hold && time.Since(begun) < p.options.Timeout:
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
			sent = c.confirmed
		default:
			p.withdraw(c, err)
		}
	}
}

// confirm asks Redis whether this instance is alive, by a call that does nothing
// and so leaves no record.
func (p *partition) confirm() error {
	c := p.newCall()
	defer p.recycle(c)
	c.kind = question
	return p.ask(c)
}

// withdraw takes back the jobs that a call has given to somebody, who has not been
// told. If others have them the next call says so (LOST); if that is not known they are
// given back.
func (p *partition) withdraw(c *call, err error) {
	var undelivered []reservation
	for _, u := range c.units {
		if u.abandoned {
			continue
		}
		for _, op := range p.holding(u) {
			undelivered = append(undelivered, p.holdings.get(op.Answer.ID).reservation)
			op.Answer = withdrawn(err)
		}
	}
	p.log.Warn("this instance stood still; jobs that it had reserved are not handed out", "jobs", len(undelivered), "err", err)
	p.giveBack(undelivered)
}

// withdrawEarlier takes back the jobs that units have got by earlier calls and were
// not told of, because they are not done: those of a call, and those that wait.
func (p *partition) withdrawEarlier(c *call, err error) {
	for _, u := range append(p.inbox.waiting(), c.units...) {
		if u.abandoned {
			continue
		}
		for _, op := range p.holding(u) {
			op.Answer = withdrawn(err)
		}
	}
}

// withdrawn is the answer to an operation whose job is somebody else's: there was
// none.
func withdrawn(err error) storage.Answer {
	if codeOf(err) == lost {
		return storage.Answer{NotFound: true, Soon: storage.Forever}
	}
	return storage.Answer{Err: classify(err)}
}
