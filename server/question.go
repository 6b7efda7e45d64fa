package server

import (
	"context"
	"errors"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage"
	"redstalk/tube"
)

// question is what a command needs that takes long: what other servers know, or several steps in the
// store. From the moment when started is set, it
// belongs to the asking goroutine, until that signals the session.
type question struct {
	do      func(context.Context, *question)
	started bool

	page   *queue.ClientPage // the answer of list-clients
	holder string            // of stats-job: the name of the connection
	reply  func(*session)    // of commands about schedules and batches: writes the reply, unless there is an err
	err    error
}

// ask makes a command wait for do, which returns what writes its reply.
func (s *session) ask(r *request, do func(ctx context.Context) (reply func(*session), err error)) {
	s.endsBurst = true
	r.ask = &question{do: func(ctx context.Context, to *question) { to.reply, to.err = do(ctx) }}
}

// answerAsked answers such a command.
func answerAsked(s *session, r *request, _ *storage.Answer) {
	var wrong *schedule.FieldError
	switch err := r.ask.err; {
	case err == nil:
		r.ask.reply(s)
	case errors.As(err, &wrong):
		r.wrong = err.Error()
		s.out.BadFormat()
	case errors.Is(err, queue.ErrNotFound):
		s.out.NotFound()
	case errors.Is(err, errForbidden):
		s.out.Forbidden()
	case errors.Is(err, queue.ErrDraining):
		s.out.Draining()
	default:
		s.fail(r, err)
	}
}

// wantsToAsk reports whether a command has a question that must be asked before it is answered.
func (s *session) wantsToAsk(r *request) bool {
	if r.verb == protocol.StatsJob && r.ask == nil && r.op >= 0 && r.reply == nil {
		s.planAskHolder(r)
	}
	return r.ask != nil && !r.ask.started
}

// startAsking sends the replies before the command, and starts a goroutine that asks.
func (s *session) startAsking(r *request) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	s.phase = asking
	a := r.ask
	a.started = true
	go func() {
		a.do(s.server.ctx, a)
		s.signal(asked)
	}()
	return nil
}

// stepAsking reads into the buffer what the client sends meanwhile, as far as there is room, so that
// its end is noticed. The asking goroutine ends by itself.
func (s *session) stepAsking() (more bool) {
	if s.cause != nil {
		s.end(s.cause)
		return false
	}
	if !s.readable || s.in.Full() || s.wire.PendingBytes() > 0 {
		return false
	}
	s.cause = s.handleRead(s.in.Fill())
	return true
}

// planAskHolder makes a stats-job ask who holds the job or has taken its lease, if that can be a
// connection of another server which has a name.
func (s *session) planAskHolder(r *request) {
	a := &s.batch.Ops[r.op].Answer
	if a.Err != nil || a.Job == nil {
		return
	}
	job := *a.Job
	if _, other := s.queue.NameOfHolder(&job); other {
		r.ask = &question{do: func(ctx context.Context, to *question) { to.holder = s.askHolder(ctx, &job) }}
	}
}

// askHolder asks another server for the name of the connection that holds a job; "" if that is
// unknown, as the page of stats-job is worth more without it than an error.
func (s *session) askHolder(ctx context.Context, job *tube.JobStats) string {
	holder, err := s.queue.HolderOf(ctx, job)
	if err != nil {
		s.server.log.Debug("another server did not say who holds a job", "err", err)
	}
	if holder == nil || holder.Name == "" {
		return ""
	}
	return holder.Name
}
