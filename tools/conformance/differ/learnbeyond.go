package differ

import (
	"slices"
	"strconv"
	"strings"
)

// This file records what replies to extensions mean.

// meetAll gives labels to jobs that both servers name for the first time at the same place of a
// reply: they got a new id by themselves.
func (e *episode) meetAll(a *sentCommand, judge, subject reply) {
	if !e.beyond {
		return
	}
	theirs, ours := judge.ids(a), subject.ids(a)
	for i := range min(len(theirs), len(ours)) {
		e.meet(theirs[i], ours[i])
	}
	if j, s := strings.Fields(judge.head), strings.Fields(subject.head); len(j) == 4 && len(s) == 4 && j[0] == "LEASED" && s[0] == "LEASED" {
		e.meetLease(j, s)
	}
	if a.verb == "list-jobs" {
		e.meetCursor(a, readList(judge.body).next, readList(subject.body).next)
	}
}

// ids returns the jobs that a reply names, in their order.
func (r reply) ids(a *sentCommand) (ids []string) {
	words := strings.Fields(r.head)
	if len(words) < 2 {
		return nil
	}
	switch words[0] {
	case "INSERTED":
		if len(words) == 3 {
			return words[1:2]
		}
	case "DUPLICATE", "FOUND", "RESERVED", "LEASED":
		return words[1:2]
	case "RESERVED_BATCH":
		for _, part := range r.parts {
			ids = append(ids, part.ids(a)...)
		}
	case "OK":
		switch a.verb {
		case "stats-job":
			page := readPage(r.body)
			return []string{page.value("id"), page.value("from-id")}
		case "list-jobs":
			return readList(r.body).ids()
		}
	}
	return ids
}

func (e *episode) meet(judge, subject string) {
	theirs, err1 := strconv.ParseUint(judge, 10, 64)
	ours, err2 := strconv.ParseUint(subject, 10, 64)
	if err1 != nil || err2 != nil || e.byJudge[theirs] != 0 || e.bySubject[ours] != 0 {
		return
	}
	e.fresh++
	e.jobs[e.fresh] = &job{judge: theirs, subject: ours, met: true}
	e.byJudge[theirs], e.bySubject[ours] = e.fresh, e.fresh
	e.alive = append(e.alive, e.fresh)
}

// meetLease records the tokens of two LEASED.
func (e *episode) meetLease(judge, subject []string) {
	label := e.byLabelOfJudge(judge[1])
	if j := e.jobs[label]; j != nil {
		j.leases = append(j.leases, pair{judge[2], subject[2]})
		e.leased = slices.DeleteFunc(e.leased, func(l int) bool { return l == label })
		e.leased = append(e.leased, label)
	}
}

func (e *episode) meetCursor(a *sentCommand, judge, subject string) {
	words := strings.Fields(a.line)
	if judge != "" && subject != "" && len(words) > 2 {
		e.cursors = append(e.cursors, cursor{pair{judge, subject}, words[1] + " " + words[2]})
	}
}

// learnBeyond is learn for replies of extensions, and for effects of tags on other
// replies.
func (e *episode) learnBeyond(id int, a *sentCommand, r reply) {
	if !e.beyond {
		return
	}
	c, words := e.conns[id], strings.Fields(r.head)
	switch words[0] {
	case "LEASED":
		e.armLeased(e.byLabelOfJudge(words[1]))
	case "RESERVED_BATCH":
		for _, part := range r.parts {
			e.learn(id, a, part)
		}
	case "DELETED_BATCH":
		for _, n := range a.ids() {
			delete(c.held, e.byJudge[n])
		}
		if words[len(words)-1] == "0" {
			for _, n := range a.ids() {
				e.learnDeleted(e.byJudge[n])
			}
		}
	case "RESCHEDULED":
		label := e.labelIn(a.line)
		e.disarmDelay(label)
		e.arm(event{kind: matures, job: label}, a.seconds()[0])
	case "NOT_FOUND":
		if a.verb == "peek" || a.verb == "stats-job" {
			e.learnDeleted(e.labelIn(a.line))
		}
	}
	if e.shortRetry && a.mayFail() || e.shortKeyTTL && a.mayRemove() {
		e.armPerhaps(1, soonest)
	}
}

// armLeased records when the lease of a job that was just leased ends.
func (e *episode) armLeased(label int) {
	j := e.jobs[label]
	switch {
	case j == nil:
	case j.ttr == 0:
		e.armUnknown()
	default:
		e.arm(event{kind: expires, job: label}, uint64(j.ttr))
		e.armFailing(uint64(j.ttr))
	}
}

// armFailing records the possible consequences of a TTR that ends in some seconds.
func (e *episode) armFailing(ttr uint64) {
	if (e.shortRetry || e.shortKeyTTL) && ttr <= soonest {
		e.armPerhaps(ttr+1, ttr+soonest)
	}
}

// armUnknown records when the reservation of a job with an unknown TTR can end, and the possible
// consequences.
func (e *episode) armUnknown() {
	e.armPerhaps(1, soonest)
	e.armFailing(soonest)
}

// armPerhaps records that something can happen in any whole number of seconds between
// two.
func (e *episode) armPerhaps(from, to uint64) {
	if !e.timed {
		return
	}
	for n := from; n <= to; n++ {
		e.armIn(event{kind: perhaps}, n)
	}
}
