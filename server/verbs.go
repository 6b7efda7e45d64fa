package server

import (
	"errors"

	"redstalk/protocol"
	"redstalk/storage"
)

// handler says how a verb is planned and answered. plan turns a command into an operation, and answer
// turns the operation's answer into a reply. plan can set r.reply if the reply does not depend on the
// store. If it plans no operation, answer gets nil. answer is not called for an error, nor for an answer
// that is NotFound, unless the command has several operations: then it is called once, with nil, and
// reads their answers itself.
type handler struct {
	plan   func(s *session, c *protocol.Command, r *request)
	answer func(s *session, r *request, a *storage.Answer)
}

// handlers is the table of verbs. Each family of verbs adds its rows: a verb's plan and answer stand
// together.
var handlers [protocol.NumVerbs]handler

// addVerbs adds rows to the table of verbs.
func addVerbs(rows map[protocol.Verb]handler) {
	for v, h := range rows {
		handlers[v] = h
	}
}

// answerDone answers with the verb's only reply without arguments.
func answerDone(s *session, r *request, _ *storage.Answer) { s.out.Done(r.verb) }

func isReserve(v protocol.Verb) bool {
	return v == protocol.Reserve || v == protocol.ReserveWithTimeout || v == protocol.ReserveBatch || v == protocol.ReserveLease
}

// hasSeveralOps reports whether the command consists of several operations.
func (r *request) hasSeveralOps() bool {
	return r.verb == protocol.ReserveBatch || r.verb == protocol.DeleteBatch || r.info
}

// fail answers a command that the store could not carry out.
func (s *session) fail(r *request, err error) {
	const failed = "the store failed"
	if errors.Is(err, storage.ErrTooBig) { // a limit of this store, below that of the server
		s.server.noSpaceLog.Warn(s.server.log, failed, "verb", r.verb.String(), "err", err)
		s.out.JobTooBig()
		return
	}
	if errors.Is(err, storage.ErrQuota) {
		s.refusePut(r, err)
		return
	}
	if errors.Is(err, storage.ErrNoSpace) { // puts can fail for a long time, and the store logs why
		s.server.noSpaceLog.Warn(s.server.log, failed, "verb", r.verb.String(), "err", err)
		s.out.OutOfMemory()
		return
	}
	s.server.log.Warn(failed, "verb", r.verb.String(), "err", err)
	s.out.InternalError()
}

// refusePut answers a put that a quota does not allow, or the run of a schedule.
func (s *session) refusePut(r *request, err error) {
	about := []any{"verb", r.verb.String(), "err", err}
	if r.op >= 0 {
		about = append(about, "tube", s.batch.Ops[r.op].Tube)
	}
	s.server.quotaLog.Warn(s.server.log, "a put was refused", about...)
	s.out.OutOfMemory()
}

// list answers with a list of tube names.
func (s *session) list(names []string) {
	var p protocol.Page
	for _, name := range names {
		p.Item(name)
	}
	s.out.OK(p.Bytes())
}
