package server

import (
	"encoding/base64"
	"slices"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands about the records of ended jobs, but for wait-job.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Finish:      {planWithData(tube.Finish, false), answerDone},
		protocol.FinishLease: {planWithData(tube.Finish, true), answerDone},
		protocol.StatsEnded:  {planStatsEnded, answerStatsEnded},
		protocol.ListEnded:   {planListEnded, answerListEnded},
	})
}

// planWithData returns the plan of a command that moves a job with its body: a result or a checkpoint.
func planWithData(m tube.Move, byLease bool) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		op := storage.Op{
			Kind: storage.Move, Move: m, Holder: s.holder, ID: c.ID,
			Args: &storage.Args{Lease: c.Lease, By: s.nameOfHolder(), Data: ownBody(c)},
		}
		if byLease {
			op.Holder = tube.LeaseHolder
		}
		s.bytes += len(op.Args.Data)
		s.addOp(r, op)
	}
}

// ownBody takes the body from a command, and returns it as an ordinary slice.
func ownBody(c *protocol.Command) []byte {
	body := c.Body
	if b := takeBuffer(c); b != nil {
		body = slices.Clone(body)
		b.Release()
	}
	c.Body = nil
	return body
}

// holderArgs are the arguments of a delete, release or bury: the name of who holds the job; nil if there is none.
func (s *session) holderArgs() *storage.Args {
	if name := s.nameOfHolder(); name == "" {
		s.by = nil
	} else if s.by == nil || s.by.By != name {
		s.by = &storage.Args{By: name}
	}
	return s.by
}

// nameOfHolder returns under which name the connection holds jobs, for their records: its own name, else that of its user; "" if it
// has neither.
func (s *session) nameOfHolder() string {
	name := s.name
	if p := s.principal; name == "" && p != nil && p.login != nil {
		name = p.user.Name()
	}
	return queue.HolderName(name)
}

// planStatsEnded plans stats-ended. A job that has not ended has no record.
func planStatsEnded(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.WaitEnded, ID: c.ID})
}

func answerStatsEnded(s *session, _ *request, a *storage.Answer) {
	e := recordIn(a)
	switch {
	case e == nil || e.How == tube.StillParked:
		s.out.NotFound()
	case !s.mayOn(e.Tube, access.List):
		s.refuseRecord(e)
	default:
		var p protocol.Page
		s.addEnded(&p, e)
		s.out.OK(p.Bytes())
	}
}

// recordIn returns the record in the answer to a WaitEnded; nil if it has none.
func recordIn(a *storage.Answer) *tube.Ended {
	if a.Err != nil || a.Result == nil || len(a.Result.Ended) == 0 {
		return nil
	}
	return a.Result.Ended[0]
}

// isNotKept reports whether an answer says that no record of the job will be kept.
func isNotKept(a *storage.Answer) bool { return a.Err == nil && a.Result != nil && a.Result.NotKept }

// notKept answers so. For stats-ended, that means that there is no record.
func (s *session) notKept(r *request) {
	if r.verb == protocol.StatsEnded {
		s.out.NotFound()
	} else {
		s.out.NotKept()
	}
}

// mayOn reports whether the client has a right on a tube.
func (s *session) mayOn(tube string, need access.Right) bool {
	return s.rightsOn(tube)&need != 0
}

// refuseRecord answers about a record of a tube on which the client lacks the right, as about a job there.
func (s *session) refuseRecord(e *tube.Ended) {
	if s.principal.user.On(e.Tube) == access.Nothing {
		s.out.NotFound()
	} else {
		s.out.Forbidden()
	}
}

// planListEnded plans a page, which can have more than 1 MiB: so it is the last one of its burst.
func planListEnded(s *session, c *protocol.Command, r *request) {
	s.endsBurst = true
	s.addOp(r, storage.Op{
		Kind: storage.ListEnded, Tube: string(c.Name), MaxJobs: c.MaxJobs, Args: &storage.Args{Name: c.Key, Cursor: c.Cursor},
	})
}

// answerListEnded writes a page: the cursor of the next page, and a line for each record that the client may see. Those of a batch
// can be of many tubes.
func answerListEnded(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	p.Word("next", a.Result.Cursor)
	records := a.Result.Ended
	if s.principal != nil {
		records = slices.DeleteFunc(slices.Clone(records), func(e *tube.Ended) bool { return !s.mayOn(e.Tube, access.List) })
	}
	p.List("ended", len(records))
	for _, e := range records {
		m := new(protocol.FlowMap)
		s.addEnded(m, e)
		p.Flow(m)
	}
	s.out.OK(p.Bytes())
}

// recordPage is a page, or a line of one.
type recordPage interface {
	Uint(key string, v uint64)
	Int(key string, v int64)
	Bare(key, v string)
	Quoted(key, v string)
	Map(key string, m *protocol.FlowMap)
}

// addEnded adds what the client sees of a record. Times are milliseconds since the Unix epoch.
func (s *session) addEnded(p recordPage, e *tube.Ended) {
	size, view := len(e.Result), s.sight(e.Tube)
	if e = view.Ended(e); view.SeesContent() {
		size = len(e.Result)
	}
	p.Uint("id", e.ID)
	p.Bare("tube", e.Tube)
	p.Bare("how", e.How.String())
	addNamed(p, "key", e.Key)
	addNamed(p, "group", e.Group)
	addNamed(p, "batch", e.Batch)
	if o := e.Occurrence; o != nil {
		p.Bare("schedule", o.Schedule)
		p.Int("nominal-ms", msOf(o.Nominal))
	}
	p.Int("put-ms", msOf(e.Put))
	if e.Started != 0 {
		p.Int("first-start-ms", msOf(e.Started))
	}
	p.Int("ended-ms", msOf(e.At))
	p.Int("until-ms", msOf(e.Until))
	p.Uint("deliveries", uint64(e.Deliveries))
	p.Uint("failures", uint64(e.Failures))
	addNamed(p, "holder", e.Holder)
	addNamed(p, "reason", e.Reason)
	if e.ToTube != "" {
		p.Bare("to-tube", e.ToTube)
		p.Uint("to-id", e.ToID)
	}
	if e.Meta != nil {
		p.Map("meta", metaLine(e.Meta))
	}
	p.Int("result-bytes", int64(size))
	if len(e.Result) > 0 {
		p.Quoted("result", base64.StdEncoding.EncodeToString(e.Result))
	}
}

// addNamed adds a text that a record may not have.
func addNamed(p recordPage, key, v string) {
	if v != "" {
		p.Quoted(key, v)
	}
}
