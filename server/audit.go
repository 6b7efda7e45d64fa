package server

import (
	"strconv"
	"strings"

	"redstalk/protocol"
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

// audit logs an administrative act that was answered.
func (s *session) audit(r *request) {
	user := ""
	if s.principal != nil {
		user = s.principal.user.Name()
	}
	args := []any{"target", r.auditTarget, "user", user, "entrance", s.entrance, "peer", s.address(), "result", s.out.Last()}
	if n, ok := s.out.LastNumber(); ok && r.verb == protocol.RunSchedule {
		args = append(args, "id", n)
	} else if ok {
		args = append(args, "count", n)
	}
	s.server.config.Audit.Info(r.verb.String(), args...)
}
