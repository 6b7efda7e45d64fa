package server

import (
	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has the commands about tubes that a connection uses and watches, and pause-tube.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Use:              {planUse, func(s *session, r *request, _ *storage.Answer) { s.out.Using(r.name) }},
		protocol.Watch:            {planWatch, answerWatching},
		protocol.Ignore:           {planIgnore, answerWatching},
		protocol.ListTubeUsed:     {planListTubeUsed, func(s *session, r *request, _ *storage.Answer) { s.out.Using(r.name) }},
		protocol.ListTubesWatched: {planListTubesWatched, func(s *session, r *request, _ *storage.Answer) { s.list(r.names) }},
		protocol.ListTubes:        {planListTubes, func(s *session, _ *request, a *storage.Answer) { s.list(s.visible(a.Names)) }},
		protocol.PauseTube:        {planPause, answerDone},
	})
}

func planUse(s *session, c *protocol.Command, r *request) {
	if string(c.Name) != s.used {
		name := string(c.Name)
		s.addRef(tube.Using, 1, name)
		s.addRef(tube.Using, -1, s.used)
		s.used = name
	}
	s.principal.useAccepted(s)
	r.name = s.used
}

func planListTubeUsed(s *session, _ *protocol.Command, r *request) { r.name = s.used }

func planWatch(s *session, c *protocol.Command, r *request) {
	if s.watched.find(c.Name) < 0 {
		name := string(c.Name)
		s.addRef(tube.Watching, 1, name)
		s.watched.add(name)
		s.principal.watchedChanged()
	}
	if c.Weight > 0 {
		s.watched.setWeight(string(c.Name), c.Weight)
	}
	r.watchCount = s.watched.len()
}

func planIgnore(s *session, c *protocol.Command, r *request) {
	i := s.watched.find(c.Name)
	switch {
	case i >= 0 && s.watched.len() == 1:
		r.reply = func(s *session) { s.out.NotIgnored() }
	case i >= 0:
		s.addRef(tube.Watching, -1, s.watched.names[i])
		s.watched.remove(i)
		s.principal.watchedChanged()
	}
	r.watchCount = s.watched.len()
}

func answerWatching(s *session, r *request, _ *storage.Answer) { s.out.Watching(r.watchCount) }

func planListTubesWatched(s *session, _ *protocol.Command, r *request) {
	s.tubes += s.watched.len()
	r.names = s.watched.lend()
}

func planListTubes(s *session, _ *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Tubes})
}

func planPause(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Pause, Tube: string(c.Name), Delay: c.Delay})
}
