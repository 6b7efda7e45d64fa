package server

import (
	"iter"
	"slices"
	"strconv"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has commands that name a job by its id, from clients whose rights differ between tubes.
// The session has to look up first in which tube the job is. The lookup and the command itself
// are two batches. Nothing can go wrong between them: an id is never reused, and a job never changes
// its tube. (Moving a job to another tube gives it a new id.)
//
// All lookups of a burst are part of its batch, and all commands that waited for them are part of a
// second one. So after the first command that needs a lookup, only commands that name jobs are planned
// in the same burst.

// lookups are the commands of a burst that wait for lookups.
type lookups struct {
	commands []lookup
}

// lookup is a command that waits for lookups. They are operations of the burst's batch, from
// request.op on, one for each id that the command names.
type lookup struct {
	command protocol.Command
	request int  // its index in session.requests
	granted bool // there are no lookups: it waits only so that the order is preserved
}

// mustHold reports whether a command of this verb must wait for the lookups of commands before it.
func (p *principal) mustHold(verb protocol.Verb) bool {
	return len(p.lookups.commands) > 0 && needs[verb].Where != access.OfJob
}

// forgetLookups is called at the beginning of a burst.
func (p *principal) forgetLookups() {
	clear(p.lookups.commands)
	p.lookups.commands = p.lookups.commands[:0]
}

// planOfJob plans a command that names jobs. If it is not known whether the client may use the
// command on them, it plans their lookups first.
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
		if asksForRecord(c.Verb) { // after the other: so one of the two knows the tube, also if the job ends just now
			s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.WaitEnded, ID: c.ID})
		}
	}
	s.endsBurst = s.endsBurst || c.Verb == protocol.WaitJob && c.Timeout > 0 || c.Verb == protocol.ReserveJob && s.queue.Shared()
	body := ownBody(c)
	s.bytes += len(body)
	command := *c
	command.Body = body
	command.List, command.Tags = slices.Clone(c.List), c.Tags.Clone()
	p.lookups.commands = append(p.lookups.commands, lookup{command, len(s.requests) - 1, granted})
	r.waitsForLookup = true
}

// areGranted reports whether the principal is known to have the rights that a command needs on all jobs
// that it names.
func (p *principal) areGranted(c *protocol.Command) bool {
	need := needs[c.Verb]
	switch c.Verb {
	case protocol.ReplayJob: // the rights on a second tube count, too
		return p.user.Everywhere() == access.All
	case protocol.Peek, protocol.GetCheckpoint: // further rights decide what is seen
		if !p.user.SeesAllValues() {
			return false
		}
	}
	if c.Verb != protocol.DeleteBatch { // the common case, without the allocation in idsOf
		return p.isGranted(need, c.ID)
	}
	for id := range protocol.IDs(c.List) {
		if !p.isGranted(need, id) {
			return false
		}
	}
	return true
}

// idsOf returns the ids of the jobs that a command names.
func idsOf(c *protocol.Command) iter.Seq[uint64] {
	if c.Verb == protocol.DeleteBatch {
		return protocol.IDs(c.List)
	}
	return func(yield func(uint64) bool) { yield(c.ID) }
}

// planLookups plans all commands that have waited for lookups, and submits them.
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
		case asksForRecord(l.command.Verb) && lookups[0].Answer.NotFound:
			s.planLookedUp(&l.command, r, &lookups[1])
		default:
			s.planLookedUp(&l.command, r, &lookups[0])
		}
	}
	if s.followUp.Ops = s.batch.Ops[from:]; len(s.followUp.Ops) > 0 {
		s.phase = storing
		s.submitter.Submit(&s.followUp)
	}
}

// planLookedUp plans a command whose job was looked up. If the client has no right at all on the
// job's tube, the reply is NOT_FOUND; if it only lacks the right for this command, FORBIDDEN.
func (s *session) planLookedUp(c *protocol.Command, r *request, lookup *storage.Op) {
	err := lookup.Answer.Err
	switch rights, found := s.rightsOnJob(lookup); {
	case err != nil:
		r.reply = func(s *session) { s.fail(r, err) }
	case !found:
		r.reply = func(s *session) { s.out.NotFound() }
	case !needs[c.Verb].Met(rights), c.Verb == protocol.ReplayJob && !s.principal.maySendBack(lookup.Answer.Job):
		r.reply = func(s *session) { s.out.Forbidden() }
	default:
		handlers[c.Verb].plan(s, c, r)
	}
}

// maySendBack reports whether the principal may replay a job on whose tube it has the right to do so.
func (p *principal) maySendBack(j *tube.JobStats) bool {
	return p.user.MaySendBack(j.Tube, j.Home())
}

// asksForRecord reports whether a command is about the record of a job, which is there after the job.
func asksForRecord(v protocol.Verb) bool { return v == protocol.WaitJob || v == protocol.StatsEnded }

// rightsOnJob returns the client's rights on the tube of a job that was looked up, or of its record, and caches them.
// found is false if there is neither, or if the client has no right on its tube.
func (s *session) rightsOnJob(lookup *storage.Op) (rights access.Right, found bool) {
	var in string
	switch a := &lookup.Answer; {
	case a.Err == nil && a.Job != nil:
		in = a.Job.Tube
	case recordIn(a) != nil:
		in = recordIn(a).Tube
	default:
		return access.Nothing, false
	}
	if rights = s.principal.user.On(in); rights == access.Nothing {
		return rights, false
	}
	s.principal.grant(lookup.ID, rights)
	return rights, true
}

// noJobID is an id that no job has.
const noJobID = 0

// planLookedUpMany is planLookedUp for a command with many ids. Jobs on which the client may not use
// the command count as not found.
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
		if rights, _ := s.rightsOnJob(lookup); !needs[c.Verb].Met(rights) {
			id = noJobID
		}
		list = strconv.AppendUint(append(list, ' '), id, 10)
	}
	c.List = list
	handlers[c.Verb].plan(s, c, r)
}
