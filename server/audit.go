package server

import (
	"slices"
	"strconv"
	"strings"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/tube"
)

// auditTarget returns what an administrative act is about: a tube, perhaps with another tube, a group or a
// schedule after it; or a job, a schedule or a batch. It is "" for the instance.
func (s *session) auditTarget(c *protocol.Command) string {
	var parts []string
	switch {
	case c.Name != nil:
		parts = append(parts, string(c.Name))
	case c.ID != 0:
		parts = append(parts, strconv.FormatUint(c.ID, 10))
	case c.Verb == protocol.Kick:
		parts = append(parts, s.used)
	}
	if c.Key != "" {
		parts = append(parts, c.Key)
	}
	if c.To != nil {
		parts = append(parts, string(c.To))
	}
	return strings.Join(parts, " ")
}

// act is what a line of the audit says about a command.
type act struct {
	target, tube string
	values       string // of a policy, a group or a schedule
	lookups      int    // index in batch.Ops of the lookups of the jobs that it names
	ids          []uint64
}

const (
	// maxAuditedJobs is how many jobs an act names.
	maxAuditedJobs = 100

	// numRecent is how many jobs a session remembers that it has reserved.
	numRecent = 256
)

// noteOwn remembers that this connection has reserved a job, so that deleting it is its worker's
// business. Jobs that are forgotten are looked up.
func (s *session) noteOwn(id uint64) {
	if s.server.config.Audit == nil {
		return
	}
	if s.recent == nil {
		s.recent = make([]uint64, numRecent)
	}
	s.recent[id%numRecent] = id
}

func (s *session) isOwn(id uint64) bool {
	return s.recent != nil && s.recent[id%numRecent] == id
}

// planAudit makes a command be logged when it is answered. Jobs are looked up before: afterwards
// they can be gone.
func (s *session) planAudit(c *protocol.Command, r *request) {
	a := &act{target: s.auditTarget(c), lookups: len(s.batch.Ops)}
	switch {
	case needs[c.Verb].Where == access.OfJob:
		for id := range idsOf(c) {
			if len(a.ids) < maxAuditedJobs && !(c.Verb.Deletes() && s.isOwn(id)) {
				a.ids = append(a.ids, id)
				s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.JobStats, ID: id})
			}
		}
		if len(a.ids) == 0 {
			return
		}
	case c.Verb == protocol.Kick:
		a.tube = s.used
	case needs[c.Verb].Where == access.OfTube:
		a.tube = string(c.Name)
	}
	if setsValues(c.Verb) {
		a.values = protocol.HideURLs(c.List)
	}
	r.act = a
}

// setsValues reports whether the audit says what the tags of a verb are.
func setsValues(v protocol.Verb) bool {
	return v == protocol.SetPolicy || v == protocol.SetGroup || v == protocol.SetSchedule
}

// audit logs an act that was answered, unless it is a worker's own.
func (s *session) audit(r *request) {
	a := r.act
	if len(a.ids) > 0 && !s.examine(r) {
		return
	}
	user := ""
	if s.principal != nil {
		user = s.principal.user.Name()
	}
	args := []any{"target", a.target, "user", user, "entrance", s.entrance, "peer", s.address(), "result", s.out.Last()}
	if n, ok := s.out.LastNumber(); ok && r.verb == protocol.RunSchedule {
		args = append(args, "id", n)
	} else if ok {
		args = append(args, "count", n)
	}
	if a.tube != "" {
		args = append(args, "tube", a.tube)
	}
	if len(a.ids) > 0 {
		args = append(args, "ids", a.ids)
	}
	if setsValues(r.verb) {
		args = append(args, "values", a.values)
	}
	s.server.config.Audit.Info(r.verb.String(), args...)
}

// examine completes an act with what was looked up. It reports false if a command deletes only
// jobs that were reserved or did not exist.
func (s *session) examine(r *request) bool {
	a, others := r.act, []uint64(nil)
	var tubes []string
	for i, id := range a.ids {
		job := s.batch.Ops[a.lookups+i].Answer.Job
		if r.verb.Deletes() && (job == nil || job.State == tube.Reserved) {
			continue
		}
		if others = append(others, id); job != nil && !slices.Contains(tubes, job.Tube) {
			tubes = append(tubes, job.Tube)
		}
	}
	a.ids, a.tube = others, strings.Join(tubes, " ")
	return len(others) > 0
}
