package server

import (
	"errors"
	"io"
	"os"
	"time"

	"redstalk/storage"
)

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// noJob answers a reserve for which there was no job: at once if it may not
// wait, else when there is one or the time has come to say that there is not.
func (s *session) noJob(r *request, a *storage.Answer) error {
	switch {
	case a.Soon <= 0:
		s.out.DeadlineSoon()
		return nil
	case !r.waits || s.halfClosed:
		s.out.TimedOut()
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return err
	}
	answer, err := s.await(time.Now().Add(min(r.timeout, a.Soon)))
	switch {
	case err != nil:
		return err
	case !answer.NotFound:
		handlers[r.verb].answer(s, r, &answer)
	case a.Soon <= r.timeout && !s.halfClosed:
		s.out.DeadlineSoon()
	default:
		s.out.TimedOut()
	}
	return nil
}

// refresh repeats the take of r if it found nothing and was done before
// another reserve of the same burst had to wait: since then a job may have
// come, and what this connection holds has changed.
func (s *session) refresh(r *request) {
	if !s.waited || !isReserve(r.verb) || !s.batch.Ops[r.op].Answer.NotFound {
		return
	}
	s.knocks = s.server.hall.knocks.Load()
	storage.DoWait(s.server.store, s.batch.Ops[r.op:r.op+1])
}

// await waits in the hall until there is a job, the limit has come, or the
// client sends no more; in the latter two cases the answer is NotFound. What
// the client sends meanwhile is read into the buffer, as far as there is room.
func (s *session) await(limit time.Time) (storage.Answer, error) {
	w := &waiter{holder: s.holder, tubes: s.watched, conn: s.conn, served: s.served}
	s.waited = true
	s.conn.SetReadDeadline(limit)
	s.server.hall.join(w, s.knocks)
	if s.server.closing.Load() {
		s.interrupt() // again: limit may have taken the place of the first
	}
	answer, err := s.readUntilServed(w, limit)
	s.conn.SetReadDeadline(time.Time{})
	if err == nil && s.server.closing.Load() {
		err = ErrServerClosed
	}
	return answer, err
}

func (s *session) readUntilServed(w *waiter, limit time.Time) (storage.Answer, error) {
	for {
		if s.in.Full() {
			return s.waitUntilServed(w, limit), nil
		}
		err := s.in.Fill()
		select {
		case answer := <-w.served:
			return answer, s.noteEnd(err)
		default:
		}
		if err == nil {
			continue
		}
		if s.server.hall.leave(w) {
			return storage.Answer{NotFound: true}, s.noteEnd(err)
		}
		return <-w.served, s.noteEnd(err)
	}
}

// noteEnd sorts out why reading has ended; nil if that is no reason to end
// the connection at once.
func (s *session) noteEnd(err error) error {
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case isEOF(err):
		s.halfClosed = true
		return nil
	}
	return err
}

// waitUntilServed is for a client that has sent more than the buffer takes:
// nothing more can be read, so that its end shows only when it is served.
func (s *session) waitUntilServed(w *waiter, limit time.Time) storage.Answer {
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	select {
	case answer := <-w.served:
		return answer
	case <-timer.C:
	case <-s.server.stopping:
	}
	if s.server.hall.leave(w) {
		return storage.Answer{NotFound: true}
	}
	return <-w.served
}
