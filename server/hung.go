package server

import (
	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has list-hung.

func init() {
	addVerbs(map[protocol.Verb]handler{protocol.ListHung: {planListHung, answerListHung}})
}

func planListHung(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.ListHung, MaxJobs: tube.MaxListed})
}

// answerListHung writes a line for each job in a tube that the client may read.
func answerListHung(s *session, _ *request, a *storage.Answer) {
	var lines []*protocol.FlowMap
	for i := range a.Result.Jobs {
		j := &a.Result.Jobs[i]
		if len(s.visible([]string{j.Tube})) == 0 {
			continue
		}
		m := new(protocol.FlowMap)
		m.Uint("id", j.ID)
		m.Quoted("tube", j.Tube)
		m.Uint("ttr", uint64(j.TTR))
		m.Int("held-ms", j.HeldFor.Milliseconds())
		lines = append(lines, m)
	}
	var p protocol.Page
	p.List("jobs", len(lines))
	for _, line := range lines {
		p.Flow(line)
	}
	s.out.OK(p.Bytes())
}
