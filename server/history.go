package server

import (
	"time"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands that show what happened in hours and days.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.HistoryTube: {planHistory, answerHistory},
		protocol.History:     {planHistory, answerHistory},
	})
}

// planHistory plans history, which names no tube, and history-tube.
func planHistory(s *session, c *protocol.Command, r *request) {
	period := tube.Hours
	if c.Days {
		period = tube.Days
	}
	s.addOp(r, storage.Op{Kind: storage.ReadTallies, Tube: string(c.Name), Args: &storage.Args{Tallies: &storage.Tallies{Period: period, Count: int(c.MaxJobs)}}})
}

func answerHistory(s *session, _ *request, a *storage.Answer) {
	var p protocol.Page
	p.Int("now", int64(a.Result.Now)/int64(time.Second))
	p.List("history", len(a.Result.Tallies))
	for i := range a.Result.Tallies {
		one, m := &a.Result.Tallies[i], new(protocol.FlowMap)
		m.Int("begin", int64(one.Begin)/int64(time.Second))
		for n := range tube.NumTallied {
			m.Uint(n.String(), one.Tally[n])
		}
		p.Flow(m)
	}
	s.out.OK(p.Bytes())
}
