package server

import (
	"strings"
	"sync"

	"redstalk/protocol"
	"redstalk/storage"
	"redstalk/tube"
)

// This file has put, and the commands about single jobs.

func init() {
	addVerbs(map[protocol.Verb]handler{
		protocol.Put:         {planPut, answerPut},
		protocol.Delete:      {planDelete, answerDone},
		protocol.Release:     {planMove(tube.Release), answerDone},
		protocol.Bury:        {planMove(tube.Bury), answerDone},
		protocol.Touch:       {planMove(tube.Touch), answerDone},
		protocol.KickJob:     {planKickJob, answerDone},
		protocol.Kick:        {planKick, func(s *session, _ *request, a *storage.Answer) { s.out.Kicked(uint64(a.Count)) }},
		protocol.Peek:        {planPeek, answerFound},
		protocol.PeekReady:   {planPeekHead(tube.Ready), answerFound},
		protocol.PeekDelayed: {planPeekHead(tube.Delayed), answerFound},
		protocol.PeekBuried:  {planPeekHead(tube.Buried), answerFound},
		protocol.Reschedule:  {planReschedule, answerDone},
		protocol.SetPriority: {planSetPriority, answerDone},
		protocol.ReplayJob:   {planReplay, answerDone},
	})
}

func planPut(s *session, c *protocol.Command, r *request) {
	if s.queue.Draining() {
		r.reply = func(s *session) { s.out.Draining() }
		takeBuffer(c).Release()
		return
	}
	s.bytes += len(c.Body)
	op := storage.Op{Kind: storage.Put, Tube: s.used, Pri: c.Pri, Delay: c.Delay, TTR: c.TTR, Body: c.Body, Buffer: takeBuffer(c)}
	if c.Tags != nil {
		op.Args = putArgs.Get().(*storage.Args)
		setTags(op.Args.Tags, c.Tags)
	}
	s.addOp(r, op)
	c.Body = nil
}

// putArgs has the arguments of puts with tags, to be used again when the puts are answered.
var putArgs = sync.Pool{New: func() any { return &storage.Args{Tags: new(tube.Tags)} }}

func answerPut(s *session, _ *request, a *storage.Answer) {
	switch {
	case a.Outcome == tube.PutNew:
		s.out.Inserted(a.ID)
	case a.Outcome == tube.PutDuplicate:
		s.out.Duplicate(a.ID)
	case a.Outcome == tube.PutSealed:
		s.out.BatchSealed()
	case a.State == tube.Gone:
		s.out.InsertedAs(a.ID, "GONE")
	default:
		s.out.InsertedAs(a.ID, strings.ToUpper(a.State.String()))
	}
}

func planMove(m tube.Move) func(*session, *protocol.Command, *request) {
	return func(s *session, c *protocol.Command, r *request) {
		op := storage.Op{Kind: storage.Move, Move: m, Holder: s.holder, ID: c.ID, Pri: c.Pri, Delay: c.Delay}
		if c.Tags != nil {
			op.Args = &storage.Args{By: s.nameOfHolder()}
			addMoveTags(&op, c.Tags)
		} else if m.Failed() != tube.NotFailed {
			op.Args = s.holderArgs()
		}
		s.addOp(r, op)
	}
}

func planDelete(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: s.holder, ID: c.ID, Args: s.holderArgs()})
}

// addMoveTags adds the tags of a release, bury or touch to its operation, which has Args.
func addMoveTags(op *storage.Op, t *protocol.Tags) {
	op.Args.Reason, op.Args.Progress = t.Reason, t.Progress
	if t.NoFailure {
		op.Move = tube.Snooze
	}
}

func planKick(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Kick, Tube: s.used, MaxJobs: c.MaxJobs, Args: storage.KeepingCheckpoint(c.KeepCheckpoint)})
}

func planKickJob(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Move, Move: tube.KickJob, ID: c.ID, Args: storage.KeepingCheckpoint(c.KeepCheckpoint)})
}

func planPeek(s *session, c *protocol.Command, r *request) {
	r.rights = s.rightsToSee(c.ID)
	s.addOp(r, storage.Op{Kind: storage.Peek, ID: c.ID})
}

func planPeekHead(state tube.State) func(*session, *protocol.Command, *request) {
	return func(s *session, _ *protocol.Command, r *request) {
		r.rights = s.rightsOn(s.used)
		s.addOp(r, storage.Op{Kind: storage.PeekHead, Tube: s.used, State: state})
	}
}

func answerFound(s *session, r *request, a *storage.Answer) {
	s.out.Found(a.ID, s.sightWith(r.rights).Body(a.Body), a.Buffer)
	a.Buffer = nil // the writer releases it
}

func planReschedule(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Reschedule, ID: c.ID, In: c.In})
}

func planReplay(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.Replay, ID: c.ID, Args: storage.KeepingCheckpoint(c.KeepCheckpoint)})
}

func planSetPriority(s *session, c *protocol.Command, r *request) {
	s.addOp(r, storage.Op{Kind: storage.SetPriority, ID: c.ID, Pri: c.Pri})
}
