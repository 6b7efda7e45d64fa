package server

import (
	"errors"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// Why a connection ends, beside ErrServerClosed and errors of its wire.
var (
	errQuit       = errors.New("quit")
	errHalfClosed = errors.New("client closed")
	errStuck      = errors.New("the client did not read its replies")
	errIdle       = errors.New("idle")
)

// end begins the end of the connection: the store gives back everything that
// it has.
func (s *session) end(cause error) {
	s.cause, s.phase = cause, ending
	s.forget()
	s.batch.Ops = append(s.batch.Ops, s.unwanted...)
	s.batch.Ops = append(s.batch.Ops, storage.Op{Kind: storage.ReleaseAll, Holder: s.holder})
	s.parting = s.watched.empty()
	s.part(maxParting)
}

// maxParting is how many tubes a connection stops watching at once, so that one
// that watches very many does not hold up all others when it ends.
const maxParting = 250

// part goes on with the end: up to n tubes are not watched any more.
func (s *session) part(n int) {
	n = min(n, len(s.parting))
	s.attend(tube.Watching, -1, s.parting[:n]...)
	if s.parting = s.parting[n:]; len(s.parting) == 0 {
		s.attend(tube.Using, -1, s.used)
	}
	s.submitter.Submit(&s.batch)
}

// noteParted goes on with the end when the store has done a part of it. If the store
// fails the rest is handed over together.
func (s *session) noteParted() {
	n, parted := maxParting, len(s.parting) == 0
	for i := range s.batch.Ops {
		if err := s.batch.Ops[i].Answer.Err; err != nil {
			n = len(s.parting)
			if !errors.Is(err, storage.ErrClosed) {
				s.server.log.Warn("what a closed connection held is given back late", "conn", uint64(s.holder), "err", err)
			}
			break
		}
	}
	if parted {
		s.depart()
		return
	}
	s.forget()
	s.part(n)
}

// depart is the rest of the end, when the store is done.
func (s *session) depart() {
	s.forget()
	s.in.Close()
	s.noteReceived()
	takeBuffer(&s.command).Release() // of one that was held
	if s.producer {
		s.queue.Counters.Producers.Add(-1)
	}
	if s.worker {
		s.queue.Counters.Workers.Add(-1)
	}
	s.principal.leave(s.server)
	s.phase, s.pause = delivering, closePause
}

// closePause is after what time tryClose checks again whether the last replies have
// arrived. It doubles each time, up to 64 times as long.
const closePause = time.Millisecond

// tryClose closes the connection: at once if the client has ended it, else when
// the last replies have arrived. A client that does not expect the end of a
// server that stops may still be sending, which would cost it the rest of the
// replies if the connection were closed already.
func (s *session) tryClose() {
	if errors.Is(s.cause, ErrServerClosed) && !s.wire.Delivered() {
		s.setTimer(s.pause)
		s.pause = min(2*s.pause, 64*closePause)
		return
	}
	s.phase = ended
	s.wire.Close()
	s.server.log.Info("connection closed", "conn", uint64(s.holder), "cause", s.cause)
	s.server.exit(s)
}

func (s *session) setTimer(in time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(in, func() { s.signal(timed) })
		return
	}
	s.timer.Reset(in)
}
