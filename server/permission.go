package server

import (
	"redstalk/protocol"
	"redstalk/server/access"
)

// planForPrincipal is plan for a session that has a principal.
func (s *session) planForPrincipal(c *protocol.Command, r *request) {
	switch {
	case s.principal.mayNotSend(c) && (c.Fault == protocol.NoFault || c.Fault == protocol.JobTooBig):
		r.fault = protocol.NoFault // see updateUsed
		refuse(c, r, (*protocol.Writer).Forbidden)
	case c.Fault != protocol.NoFault:
	case !s.principal.completeBatches(c):
		r.wrong = "the name of the batch is too long with that of its owner before it"
		refuse(c, r, (*protocol.Writer).BadFormat)
	case needOf(c).Where == access.OfJob:
		s.planOfJob(c, r)
	case !s.principal.may(s, c):
		refuse(c, r, (*protocol.Writer).Forbidden)
		if c.Verb == protocol.Use { // puts that follow are not meant for the tube used before
			s.principal.denied = true
			s.principal.updateUsed(s)
		}
	case (c.Verb == protocol.Put || c.Verb == protocol.SetSchedule) && !s.principal.user.MayPut(len(c.Body)):
		refuse(c, r, (*protocol.Writer).OutOfMemory)
	default:
		handlers[c.Verb].plan(s, c, r)
	}
}

// mayNotSend reports whether the body of a command was skipped, because the command is refused whatever it says.
func (p *principal) mayNotSend(c *protocol.Command) bool {
	switch c.Verb {
	case protocol.Put:
		return p.used&access.Put == 0
	case protocol.SetSchedule:
		return p.user.Anywhere()&access.Put == 0
	}
	return false
}

// may reports whether the principal may use a command that names no job.
func (p *principal) may(s *session, c *protocol.Command) bool {
	switch need := needOf(c); need.Where {
	case access.OfTube:
		on := p.used
		if c.Name != nil {
			on = p.user.On(string(c.Name))
		}
		return need.Met(on) && p.mayReach(c)
	case access.OfTubes:
		return need.Met(p.user.Anywhere()) && (!isReserve(c.Verb) || len(p.workTubes(s)) > 0)
	case access.Somewhere:
		return need.Met(p.user.Anywhere())
	case access.OfBatch:
		return need.Met(p.user.OnBatch(c.Key))
	default:
		return need.Met(p.user.Everywhere())
	}
}

// mayReach reports whether the principal may let jobs go to the targets in a command: another tube,
// at once or as a dead-letter tube, or the URL of a push.
func (p *principal) mayReach(c *protocol.Command) bool {
	t := c.Tags
	switch {
	case c.To != nil:
		return p.user.On(string(c.To))&access.Admin != 0 && p.user.MayRedirect(string(c.Name), string(c.To))
	case t == nil:
		return true
	case c.Verb != protocol.SetPolicy:
		return (t.Dead == "" || p.user.On(t.Dead)&access.Put != 0) && p.user.MayJoin(t.Batch.Name, t.Batch.After+t.Batch.AfterAll)
	}
	name := string(c.Name)
	return (t.Dead == "" || p.user.MayRedirect(name, t.Dead)) && (t.Push.URL == "" || p.user.MayRedirect(name, ""))
}

// needOf returns what a command needs: that of its verb, but for list-ended, which can name a batch instead of a tube.
func needOf(c *protocol.Command) access.Need {
	need := needs[c.Verb]
	if c.Verb == protocol.ListEnded && c.Name == nil {
		need.Where = access.OfBatch
	}
	return need
}

// completeBatches makes the names of batches in a command whole. It returns false if one is too long then.
func (p *principal) completeBatches(c *protocol.Command) bool {
	var names []*string
	if needOf(c).Where == access.OfBatch {
		names = append(names, &c.Key)
	}
	if t := c.Tags; t != nil {
		names = append(names, &t.Batch.Name, &t.Batch.After, &t.Batch.AfterAll)
	}
	for _, name := range names {
		if *name = p.user.WholeBatch(*name); len(*name) > protocol.MaxBatchName {
			return false
		}
	}
	return true
}
