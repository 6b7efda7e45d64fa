package server

import (
	"context"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/tube"
)

// This file has list-hung.

func init() {
	addVerbs(map[protocol.Verb]handler{protocol.ListHung: {planListHung, answerAsked}})
}

// planListHung asks for the jobs in tubes that the client may list.
func planListHung(s *session, _ *protocol.Command, r *request) {
	shows := func(string) bool { return true }
	if s.principal != nil {
		user := s.principal.user // the session can get another one meanwhile
		shows = func(tube string) bool { return user.On(tube)&access.List != 0 }
	}
	s.ask(r, func(ctx context.Context) (func(*session), error) {
		found, err := s.queue.Hung(ctx, shows)
		return func(s *session) { s.out.OK(hungPage(found)) }, err
	})
}

// hungPage has a line for each job.
func hungPage(jobs []tube.JobStats) []byte {
	var p protocol.Page
	p.List("jobs", len(jobs))
	for i := range jobs {
		j, m := &jobs[i], new(protocol.FlowMap)
		m.Uint("id", j.ID)
		m.Quoted("tube", j.Tube)
		m.Uint("ttr", uint64(j.TTR))
		m.Int("held-ms", j.HeldFor.Milliseconds())
		p.Flow(m)
	}
	return p.Bytes()
}
