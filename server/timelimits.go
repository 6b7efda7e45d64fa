package server

import (
	"time"

	"redstalk/storage"
)

// sweeper makes every session check its time limits periodically, so that no connection needs a
// timer for them and no command has to set one. A limit is enforced late by at most a quarter of
// it.
type sweeper struct {
	every       time.Duration
	leaveLimits func() // ends what Bounds.Join began
	quit        chan struct{}
	done        chan struct{}
}

// minSweep is the shortest interval between checks, whatever the limits are.
const minSweep = 10 * time.Millisecond

func newSweeper(c *Config) *sweeper {
	w := &sweeper{quit: make(chan struct{}), done: make(chan struct{})}
	limits := []time.Duration{c.IdleTimeout, c.WriteTimeout}
	if c.Access != nil {
		limits = append(limits, c.AuthTimeout)
	}
	for _, limit := range limits {
		if limit > 0 && (w.every == 0 || limit/8 < w.every) {
			w.every = max(limit/8, minSweep)
		}
	}
	return w
}

func (w *sweeper) start(s *Server) {
	w.leaveLimits = s.config.Limits.Join(s.slowReaders)
	go w.run(s)
}

func (w *sweeper) run(s *Server) {
	defer close(w.done)
	var sweeps <-chan time.Time // nil if there are no time limits
	if w.every > 0 {
		sweeps = time.Tick(w.every)
	}
	for {
		select {
		case <-w.quit:
			return
		case <-sweeps:
			for _, ss := range s.allSessions() {
				ss.signal(checkTime)
			}
		}
	}
}

func (w *sweeper) stop() {
	w.leaveLimits()
	close(w.quit)
	<-w.done
}

// checkTimeLimits ends the connection if it exceeds a time limit.
func (s *session) checkTimeLimits(now time.Time) {
	v := &s.idleCheck
	switch {
	case s.phase >= ending, v.askingHoldings:
		return
	case s.phase == verifying:
		s.checkVerifying(now)
		return
	case s.principal != nil && s.phase == acting && s.principal.isAuthOverdue(now, s.server.config.AuthTimeout):
		s.end(errUnauthenticated)
		return
	case s.wire.PendingBytes() > 0:
		v.idleSince = now
		s.checkStalled(now)
		return
	}
	v.stalledSince = time.Time{}
	if s.phase != acting || s.readable || s.next < len(s.requests) || s.reads != v.reads {
		v.reads, v.idleSince = s.reads, now
		return
	}
	if limit := s.server.config.IdleTimeout; limit > 0 && now.Sub(v.idleSince) >= limit {
		s.askHoldings()
	}
}

// checkStalled ends a connection whose client has read nothing for too long.
func (s *session) checkStalled(now time.Time) {
	v, limit := &s.idleCheck, s.server.config.WriteTimeout
	drained := s.wire.Drained()
	switch {
	case limit <= 0:
	case v.stalledSince.IsZero(), v.drained != drained:
		v.stalledSince, v.drained = now, drained
	case now.Sub(v.stalledSince) < limit:
	case s.phase == acting:
		s.end(errStalled)
	default:
		s.cause = errStalled // see stepWaiting
	}
}

// impossibleTube is a tube that no client can name. A take from it finds no job, but its answer says
// when the next deadline of the holder is.
const impossibleTube = "-"

// askHoldings asks the store whether an idle connection holds jobs.
func (s *session) askHoldings() {
	s.idleCheck.askingHoldings = true
	s.phase = storing
	s.followUp.Ops = []storage.Op{{Kind: storage.Take, Holder: s.holder, Tubes: []string{impossibleTube}}}
	s.submitter.Submit(&s.followUp)
}

// onHoldings ends the idle connection, unless it holds jobs or its client has sent something
// meanwhile. Then the idle time begins again.
func (s *session) onHoldings() {
	s.idleCheck.askingHoldings = false
	s.idleCheck.idleSince = time.Now()
	// An answer that is an error sets no Soon.
	if s.followUp.Ops[0].Answer.Soon == storage.Forever && !s.readable {
		s.end(errIdle)
	}
}
