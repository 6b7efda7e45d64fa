package netpoll

import "sync"

// A reply is deferred, to be sent together with those of other connections, if at most this
// many bytes have to be copied for that, and if its bodies, which are not copied, have at most
// this many bytes. With a larger reply it is better that the client begins to read while other
// clients are served; one system call less would not show.
const (
	maxDeferredCopy   = 2 << 10
	maxDeferredBodies = 256 << 10
)

// batchedSends collects the deferred replies of a loop's connections. It sends them with one
// system call at the end of an iteration, or before something slow within it.
//
// Only a connection that was ready in the current iteration has its reply deferred, so no other
// client waits for the end of the iteration. A connection that has more to send before that
// sends everything at once, so the order is preserved.
type batchedSends struct {
	sender  *Sender      // nil: no reply is deferred
	sending []*epollWire // those of one system call; belongs to the loop's goroutine
	spare   []*epollWire // the array that wires gets next; belongs to the loop's goroutine

	mu        sync.Mutex   // guards what follows; epollWire.mu may be held when it is taken
	iteration uint64       // the iteration whose replies can be deferred; 0: none
	wires     []*epollWire // that have a deferred reply, or had one
}

// begin makes the replies of an iteration be deferred from now on, until flush.
func (s *batchedSends) begin(iteration uint64) {
	if s.sender == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.iteration = iteration
}

// end sends the deferred replies. Later replies are not deferred.
func (s *batchedSends) end() { s.sendAll(0) }

// flush sends the deferred replies. Later replies of the iteration are deferred again.
func (s *batchedSends) flush() { s.sendAll(s.iteration) }

// accepts reports whether a reply of w can be deferred, and if so adds w to the list. w.mu is
// held.
func (s *batchedSends) accepts(w *epollWire) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.iteration == 0 || w.iteration != s.iteration {
		return false
	}
	if !w.listed {
		w.listed = true
		s.wires = append(s.wires, w)
	}
	return true
}

// sendAll sends the deferred replies. Afterwards replies of iteration next are deferred. Only the
// loop's goroutine calls it, and only that goroutine changes s.iteration.
func (s *batchedSends) sendAll(next uint64) {
	if s.iteration == 0 {
		return
	}
	s.mu.Lock()
	wires := s.wires
	s.wires, s.iteration = s.spare[:0], next
	s.mu.Unlock()
	for rest := wires; len(rest) > 0; {
		n := min(len(rest), MaxWrites)
		s.sendTo(rest[:n])
		rest = rest[n:]
	}
	clear(wires)
	s.spare = wires
}

// sendTo sends to at most MaxWrites wires with one system call. It holds the locks of all of
// them meanwhile, so that none is closed. Nobody else holds the locks of two wires.
func (s *batchedSends) sendTo(wires []*epollWire) {
	s.sending = s.sending[:0]
	for _, w := range wires {
		w.mu.Lock()
		if w.listed = false; len(w.deferred) == 0 {
			w.mu.Unlock()
			continue
		}
		w.addDeferred(s.sender)
		s.sending = append(s.sending, w)
	}
	if len(s.sending) == 0 {
		return
	}
	for i, n := range s.sender.Write() {
		s.sending[i].sendDeferredFrom(n)
	}
	incomplete := s.unlock()
	for _, w := range incomplete {
		w.WakeLater() // its session has to see that
	}
	clear(s.sending)
}

// unlock unlocks the wires of a system call. It returns those on which not everything was sent.
func (s *batchedSends) unlock() (incomplete []*epollWire) {
	for _, w := range s.sending {
		if w.err != nil || len(w.buffered) > 0 {
			incomplete = append(incomplete, w)
		}
		w.mu.Unlock()
	}
	return incomplete
}
