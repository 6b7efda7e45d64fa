package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
)

// When a call fails, its units are held up until it succeeds or their time is
// over. The same call is sent again and again, with the same number: if Redis
// has carried it out and only the answer was lost, the script repeats the
// answer.
//
// When their time is over, the units are answered with an error; but what
// became of the call must be known before the next one, or a job could stay
// reserved for somebody who was never told. So from then on the number alone
// is sent, with the request to mark it as void. Either the script answers what
// it has done, and jobs that nobody was told of are given back. Or it marks the
// number, and the call cannot be carried out any more, should it be under way
// still.

const (
	// slow is how long a call may take before it counts as trouble.
	slow = time.Second

	// firstPause and longestPause are between two attempts.
	firstPause   = 2 * time.Millisecond
	longestPause = 100 * time.Millisecond

	// keepLater is when upkeep is tried again that Redis has refused.
	keepLater = time.Second

	// voided is what the script says to a call that is marked void.
	voided = "void;"
)

// lost begins the error of the script that says that the batch does not follow
// the last one that Redis knows of this instance.
const lost = "LOST"

// declaredDead is in that error if others have declared the instance dead. Then Redis
// has lost nothing.
const declaredDead = "declared dead"

// reaction is what is done about a failed call.
type reaction int

const (
	hold     reaction = iota // send it again
	withhold                 // encode it again, without what needs memory
	renew                    // go on as a new instance
	giveUp                   // answer with an error
)

// passing are the beginnings of errors that pass by themselves, or when
// another server takes over. Nothing was carried out.
var passing = []string{"LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "NOSCRIPT", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "MOVED", "ASK", "UNBLOCKED"}

// codeOf returns the first word of an error that Redis has answered, "" if it
// has not. Before Redis 7 errors within a script are wrapped in others.
func codeOf(err error) string {
	var answer goredis.Error
	if !errors.As(err, &answer) {
		return ""
	}
	text := answer.Error()
	if _, inner, wrapped := strings.Cut(text, ": -"); wrapped && strings.HasPrefix(text, "ERR Error running script") {
		text = inner
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

func reactionTo(err error) reaction {
	switch code := codeOf(err); {
	case code == "OOM":
		return withhold
	case code == lost:
		return renew
	case slices.Contains(passing, code):
		return hold
	case code != "", errors.Is(err, errReply), errors.Is(err, goredis.ErrClosed):
		return giveUp
	}
	return hold
}

// unknown returns whether a call that failed so may have been carried out, now
// or later.
func unknown(err error) bool {
	var op *net.OpError
	sent := !(errors.As(err, &op) && op.Op == "dial") && !errors.Is(err, goredis.ErrPoolTimeout) && !errors.Is(err, errNoNode)
	var registering registrationError
	return codeOf(err) == "" && sent && !errors.Is(err, errOtherServer) && !errors.As(err, &registering)
}

// recover goes on with a call that has failed until it is known what became of
// it, and returns the answer. The units are answered by then if it is nil.
func (p *partition) recover(err error) *reply {
	begun, pause, uncertain := time.Now(), firstPause, false
	if reactionTo(err) != withhold {
		p.log.Warn("Redis has not carried out a batch", "operations", p.call.ops, "err", err)
	}
	defer func() { // what came due meanwhile
		p.ailing.Store(false)
		p.upkeep.dueIn(p.now(), 0)
		p.listener.Due(0)
	}()
	for {
		uncertain = uncertain || unknown(err)
		switch what := reactionTo(err); {
		case what == giveUp:
			p.abandon(classify(err))
			p.cancel()
			return nil
		case what == renew:
			if p.void || uncertain {
				p.abandon(classify(err))
			}
			if p.renew(err); p.void {
				p.cancel()
				return nil
			}
			p.encodeAgain()
		case what == withhold && !p.full && !uncertain:
			p.full, p.fullErr = true, classify(err)
			p.encodeAgain()
		case what == withhold && uncertain && !p.void:
			p.abandon(errUnknown) // find out what it did before anything else
		default:
			if p.overdue(classify(err)); !p.stay() {
				p.abandon(classify(err))
				p.cancel()
				return nil
			}
			p.ailing.Store(true)
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
		}
		var r *reply
		if r, err = p.attempt(); err == nil {
			if pause > firstPause {
				p.log.Info("Redis works again", "after", time.Since(begun))
			}
			return p.settle(r)
		}
	}
}

// stay returns whether it makes sense to go on; not if the partition is to
// end and nobody waits any more.
func (p *partition) stay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ending || !p.void
}

// encodeAgain encodes the units anew, of which nothing was carried out.
func (p *partition) encodeAgain() {
	p.oweTold()
	p.renumber()
	p.reset()
	if p.previous == "" {
		p.encodeAttendances()
	}
	for _, u := range p.units {
		u.at, u.seen = u.begun, u.before
		if !u.abandoned {
			p.encode(u)
		}
	}
}

// oweTold notes that Redis was not told what the call was to tell.
func (p *partition) oweTold() {
	for _, name := range p.call.told {
		p.attendance.owe(name)
	}
	p.holdings.over = append(p.holdings.over, p.call.over...)
	p.call.over = nil
}

// overdue answers those whose time is over; of the call under way all together, when
// it is over for the last of them.
func (p *partition) overdue(err error) {
	limit := time.Now().Add(-p.options.Timeout)
	waits := func(u *unit) bool { return !u.keep && !u.abandoned }
	early := func(u *unit) bool { return waits(u) && !u.since.Before(limit) }
	if !p.void && slices.ContainsFunc(p.units, waits) && !slices.ContainsFunc(p.units, early) {
		p.abandon(err)
	}
	p.mu.Lock()
	var late []*unit
	p.queue = slices.DeleteFunc(p.queue, func(u *unit) bool {
		is := !u.keep && u.since.Before(limit)
		if is {
			late = append(late, u)
		}
		return is
	})
	p.mu.Unlock()
	p.giveBackUnheard(late...)
	for _, u := range late {
		p.forgo(u)
		u.end(err)
	}
}

// errUnknown: it is not known what became of a batch, and what to do next.
var errUnknown = fmt.Errorf("%w: Redis has no memory left", storage.ErrUnavailable)

// abandon answers the units of the call with an error. From now on the call
// only asks what became of it.
func (p *partition) abandon(err error) {
	p.void = true
	copies := make(map[*storage.Op]*storage.Op)
	var waiting []*unit
	for _, u := range p.units {
		if u.abandoned || u.keep {
			continue
		}
		waiting = append(waiting, &unit{batch: u.batch, upkeep: u.upkeep, after: u.after})
		u.abandoned = true
		if u.batch == nil {
			continue
		}
		mine := cloneOps(u.batch.Ops)
		for i := range mine {
			copies[&u.batch.Ops[i]] = &mine[i]
		}
		u.batch = &storage.Batch{Ops: mine}
	}
	for _, s := range p.call.steps {
		for i, op := range s.ops {
			if its := copies[op]; its != nil {
				s.ops[i] = its
			}
		}
	}
	for _, u := range waiting {
		u.end(err)
	}
}

// cloneOps copies operations that their connection will take back while the
// copies are still under way.
func cloneOps(ops []storage.Op) []storage.Op {
	all := slices.Clone(ops)
	for i := range all {
		all[i].Tubes = slices.Clone(all[i].Tubes)
	}
	return all
}

// settle deals with the answer to a call whose units may have been answered
// with an error before.
func (p *partition) settle(r *reply) *reply {
	if !p.void {
		return r
	}
	if r.said == voided {
		p.cancel()
		return nil
	}
	p.void = false
	for _, u := range p.units {
		if u.abandoned {
			p.forgoFrom(u, u.at)
		}
	}
	p.giveBackUnheard(p.units...)
	return r
}

// giveBackUnheard gives back what was reserved for units that were answered with an
// error, or are about to be.
func (p *partition) giveBackUnheard(units ...*unit) {
	var unheard []reservation
	for _, u := range units {
		for _, op := range p.holding(u) {
			unheard = append(unheard, p.holdings.jobs[op.Answer.ID].reservation)
		}
	}
	if len(unheard) > 0 {
		p.log.Info("jobs that were reserved for clients who were not told are given back", "jobs", len(unheard))
	}
	for part := range slices.Chunk(unheard, maxMoves) {
		p.giveBack(part)
	}
}

// holding returns the operations of a unit that have given somebody a job, which that
// connection still has.
func (p *partition) holding(u *unit) []*storage.Op {
	return slices.DeleteFunc(u.given(), func(op *storage.Op) bool {
		its := p.holdings.jobs[op.Answer.ID]
		return its == nil || its.holder != op.Holder
	})
}

// cancel is for a call that was not carried out, and will not be: what must be
// done all the same is done later.
func (p *partition) cancel() {
	p.void = false
	p.oweTold()
	for _, u := range p.units {
		if u.keep && !u.abandoned {
			u.abandoned = true
			again := *u
			again.abandoned = false
			time.AfterFunc(keepLater, func() { p.submit(&again) })
		}
		p.forgoFrom(u, u.begun)
	}
	p.giveBackUnheard(p.units...)
}

// forgo is for a unit that was never sent.
func (p *partition) forgo(u *unit) { p.forgoFrom(u, u.at) }

// forgoFrom sees to it that a connection that ends or stays is known to, even
// if its unit was not carried out.
func (p *partition) forgoFrom(u *unit, from int) {
	if u.batch == nil {
		return
	}
	seen := u.before
	if from == u.at {
		seen = u.seen
	}
	for i := from; i < len(u.batch.Ops); i++ {
		switch op := &u.batch.Ops[i]; op.Kind {
		case storage.Attend:
			if seen++; seen <= u.attends {
				continue
			}
			for _, name := range op.Tubes {
				p.attendance.count(name, op.Role, op.Delta)
				p.attendance.owe(name)
			}
		case storage.Leave:
			p.leaveLater(op.Holder)
		}
	}
}

// renew begins anew as another instance, after others have given up this one,
// or Redis has lost data. The other name is given up like that of a dead
// instance.
func (p *partition) renew(err error) {
	if p.overlap.untold {
		p.withdraw(err)
	}
	p.withdrawEarlier(err)
	if len(p.holdings.jobs) > 0 {
		p.log.Warn("Redis does not know this instance any more; its reservations are given back", "jobs", len(p.holdings.jobs))
	}
	if strings.Contains(err.Error(), declaredDead) {
		p.holdings.clear()
	} else {
		p.holdings.forfeit()
		p.skipIDs()
	}
	p.bodies.clear()
	p.attendance.oweAll()
	p.rename()
	p.wakeAll()
}

// wakeAll has everybody who waits look again: Redis does not know any more that
// this instance is to be told of jobs.
func (p *partition) wakeAll() {
	for name, at := range p.attendance.tubes {
		if at.watching > 0 {
			p.listener.Ready(name)
		}
	}
}

// patience is after how much silence other instances are given up, asked with
// every heartbeat. If Redis was away, or this instance has been silent itself,
// as on a machine that stood still, they may all have been, and need the time to
// say something. One that has just begun does not know whether they were.
func (p *partition) patience() time.Duration {
	now := time.Now()
	if !p.beaten.IsZero() && now.Sub(p.beaten) > heartbeatEvery+slow {
		p.trouble = p.now()
	}
	p.beaten = now
	if p.now().Sub(p.trouble) < silence+slow {
		return 24 * time.Hour
	}
	return silence
}

// classify turns an error of Redis into one of package storage.
func classify(err error) error {
	if codeOf(err) == "OOM" {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the connection was closed by Redis")
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}
