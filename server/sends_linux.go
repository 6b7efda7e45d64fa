package server

import (
	"sync"

	"redstalk/server/aio"
)

// Replies wait to be sent with those of others if there are at most so many bytes that have to
// be copied for that, and at most so many of bodies, which are not copied. With larger ones
// the client can rather begin to read while others are served, and one system call the less
// does not show.
const (
	mostCopied = 2 << 10
	mostBodies = 256 << 10
)

// sends is what the connections of a loop have to be sent at the end of a turn, or before
// something slow within it: one system call sends it to all of them.
//
// Only replies on connections that were woken in the turn wait, so that nobody waits who
// has nothing to do with it. A connection that has more to send meanwhile sends both at
// once, and so in order.
type sends struct {
	aio   *aio.Sender  // nil: nothing waits
	batch []*epollWire // of one system call; belongs to the loop's goroutine
	spare []*epollWire // the array that wires gets next; likewise

	mu    sync.Mutex   // guards what follows; a wire's may be held when it is taken
	turn  uint64       // the one whose replies may wait; 0: none may
	wires []*epollWire // that have something waiting, or had
}

// begin has the replies of a turn wait from now on, for send.
func (s *sends) begin(turn uint64) {
	if s.aio == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = turn
}

// end sends what waits. Nothing waits after that.
func (s *sends) end() { s.sendAll(0) }

// send sends what waits. Later replies of the turn wait again.
func (s *sends) send() { s.sendAll(s.turn) }

// take returns whether a reply of w may wait. The lock of w is held.
func (s *sends) take(w *epollWire) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == 0 || w.turn != s.turn {
		return false
	}
	if !w.listed {
		w.listed = true
		s.wires = append(s.wires, w)
	}
	return true
}

// sendAll sends what waits, and has the replies of a turn wait afterwards. Only the loop's
// goroutine calls it, which is the only one that changes s.turn.
func (s *sends) sendAll(turn uint64) {
	if s.turn == 0 {
		return
	}
	s.mu.Lock()
	wires := s.wires
	s.wires, s.turn = s.spare[:0], turn
	s.mu.Unlock()
	for rest := wires; len(rest) > 0; {
		n := min(len(rest), aio.MaxWrites)
		s.sendTo(rest[:n])
		rest = rest[n:]
	}
	clear(wires)
	s.spare = wires
}

// sendTo sends to at most aio.MaxWrites wires. All of them are locked meanwhile, so that none
// is closed. Nobody else holds the locks of two.
func (s *sends) sendTo(wires []*epollWire) {
	s.batch = s.batch[:0]
	for _, w := range wires {
		w.mu.Lock()
		if w.listed = false; len(w.later) == 0 {
			w.mu.Unlock()
			continue
		}
		w.addLater(s.aio)
		s.batch = append(s.batch, w)
	}
	if len(s.batch) == 0 {
		return
	}
	for i, n := range s.aio.Write() {
		s.batch[i].sendLaterFrom(n)
	}
	stuck := s.unlock()
	for _, w := range stuck {
		w.Again() // its session has to see that
	}
	clear(s.batch)
}

// unlock unlocks the wires of a batch. It returns those that could not be sent everything.
func (s *sends) unlock() (stuck []*epollWire) {
	for _, w := range s.batch {
		if w.err != nil || len(w.kept) > 0 {
			stuck = append(stuck, w)
		}
		w.mu.Unlock()
	}
	return stuck
}
