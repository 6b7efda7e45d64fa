package server

import (
	"iter"
	"slices"
	"strconv"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
)

// This file has commands that name a job by its id, from clients who may not do the same
// with every tube. In which tube the job is has to be looked up first. That and the act
// are two batches, which cannot go wrong: an id is never given out again, and a job does
// not change its tube. (What moves a job gives it a new id.)
//
// All lookups of a burst are made with its batch, and all acts in the next one. So behind
// the first command that is looked up only others that name jobs are planned.

// lookups are the commands of a burst that wait for what is looked up.
type lookups struct {
	commands []lookup
}

// lookup is a command that waits. Its lookups are operations of the burst's batch, one for
// each id that it names, from request.op on.
type lookup struct {
	command protocol.Command
	request int  // its index in session.requests
	granted bool // there are no lookups: it waits only because it must not overtake others
}

// grant is what a client is known to be allowed with a job: the job is in a tube where it
// has these rights, and perhaps others.
type grant struct {
	id     uint64
	rights access.Right
}

// numGrants is how many jobs a session remembers so. A client that holds more at a time
// has their tubes looked up.
const numGrants = 256

// noteTaken notes that a job was reserved from a tube on which the visitor may work.
func (p *principal) noteReserved(id uint64) {
	if p != nil && p.user.Everywhere()&access.Work == 0 {
		p.grant(id, access.Work)
	}
}

func (p *principal) grant(id uint64, has access.Right) {
	if p.grants == nil {
		p.grants = make([]grant, numGrants)
	}
	p.grants[id%numGrants] = grant{id, has}
}

// isGranted tells whether the visitor is known to have what a command about the job needs.
func (p *principal) isGranted(n access.Need, id uint64) bool {
	if n.Met(p.user.Everywhere()) {
		return true
	}
	if p.grants == nil {
		return false
	}
	g := p.grants[id%numGrants]
	return g.id == id && n.Met(g.rights)
}

// mustHold tells whether a command of this verb must wait for lookups before it.
func (p *principal) mustHold(verb protocol.Verb) bool {
	return len(p.lookups.commands) > 0 && needs[verb].Where != access.OfJob
}

// forgetLookups is for the beginning of a burst.
func (p *principal) forgetLookups() {
	clear(p.lookups.commands)
	p.lookups.commands = p.lookups.commands[:0]
}

// planOfJob plans a command that names jobs, or first lookups of them if it is not known
// whether the client may.
func (s *session) planOfJob(c *protocol.Command, r *request) {
	p := s.principal
	if p.user.Anywhere() == access.Nothing {
		refuse(c, r, (*protocol.Writer).Forbidden)
		return
	}
	granted := p.areGranted(c)
	if granted && len(p.lookups.commands) == 0 {
		handlers[c.Verb].plan(s, c, r)
		return
	}
	if !granted {
		r.op = len(s.batch.Ops)
		for id := range idsOf(c) {
			s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.JobStats, ID: id})
		}
	}
	kept := *c
	kept.List = slices.Clone(c.List)
	p.lookups.commands = append(p.lookups.commands, lookup{kept, len(s.requests) - 1, granted})
	r.waitsForLookup = true
}

// areGranted tells whether the client is known to be allowed what a command wants with all
// jobs that it names.
func (p *principal) areGranted(c *protocol.Command) bool {
	need := needs[c.Verb]
	if c.Verb != protocol.DeleteBatch { // the usual way: idsOf would allocate
		return p.isGranted(need, c.ID)
	}
	for id := range protocol.IDs(c.List) {
		if !p.isGranted(need, id) {
			return false
		}
	}
	return true
}

// idsOf are the ids of the jobs that a command names.
func idsOf(c *protocol.Command) iter.Seq[uint64] {
	if c.Verb == protocol.DeleteBatch {
		return protocol.IDs(c.List)
	}
	return func(yield func(uint64) bool) { yield(c.ID) }
}

// actOnLookups goes on with all commands that have waited for lookups.
func (s *session) planLookups() {
	from := len(s.batch.Ops)
	for i := range s.principal.lookups.commands {
		l := &s.principal.lookups.commands[i]
		r := &s.requests[l.request]
		lookups := s.batch.Ops[max(r.op, 0):from]
		r.op, r.waitsForLookup = -1, false
		switch {
		case l.granted:
			handlers[l.command.Verb].plan(s, &l.command, r)
		case l.command.Verb == protocol.DeleteBatch:
			s.planLookedUpMany(&l.command, r, lookups)
		default:
			s.planLookedUp(&l.command, r, &lookups[0])
		}
	}
	if s.followUp.Ops = s.batch.Ops[from:]; len(s.followUp.Ops) > 0 {
		s.phase = storing
		s.submitter.Submit(&s.followUp)
	}
}

// actOnOne plans a command whose job was looked up. A job of a tube that the client may
// not touch is not there for it; one of a tube on which it has other rights is.
func (s *session) planLookedUp(c *protocol.Command, r *request, lookup *storage.Op) {
	err := lookup.Answer.Err
	switch has, found := s.rightsOnJob(lookup); {
	case err != nil:
		r.reply = func(s *session) { s.fail(r, err) }
	case !found:
		r.reply = func(s *session) { s.out.NotFound() }
	case !needs[c.Verb].Met(has):
		r.reply = func(s *session) { s.out.Forbidden() }
	default:
		handlers[c.Verb].plan(s, c, r)
	}
}

// rightsIn returns what the client may do in the tube of a job that was looked up, and
// remembers it. found is false if there is no such job, or if it may do nothing there.
func (s *session) rightsOnJob(lookup *storage.Op) (has access.Right, found bool) {
	if a := &lookup.Answer; a.Err != nil || a.NotFound {
		return access.Nothing, false
	}
	if has = s.principal.user.On(lookup.Answer.Job.Tube); has == access.Nothing {
		return has, false
	}
	s.principal.grant(lookup.ID, has)
	return has, true
}

// noJobHas is an id that no job has.
const noJobID = 0

// actOnMany is actOnOne for a command with many ids. Those that the client may not act on
// are not found.
func (s *session) planLookedUpMany(c *protocol.Command, r *request, lookups []storage.Op) {
	list := make([]byte, 0, len(c.List))
	next := 0
	for id := range protocol.IDs(c.List) {
		lookup := &lookups[next]
		next++
		if err := lookup.Answer.Err; err != nil {
			r.reply = func(s *session) { s.fail(r, err) }
			return
		}
		if has, _ := s.rightsOnJob(lookup); !needs[c.Verb].Met(has) {
			id = noJobID
		}
		list = strconv.AppendUint(append(list, ' '), id, 10)
	}
	c.List = list
	handlers[c.Verb].plan(s, c, r)
}
