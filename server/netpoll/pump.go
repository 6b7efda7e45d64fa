package netpoll

import (
	"net"
	"sync"

	"redstalk/server/queue"
	"redstalk/storage"
)

// pumpBuffer is how many bytes a pump reads ahead, and how many it writes at a time.
const pumpBuffer = 4 << 10

// pump is a Wire over any net.Conn. One goroutine reads ahead, and another one writes while
// there is something to write. It serves connections that no loop can watch: connections in
// memory, and all connections on systems without epoll.
type pump struct {
	conn     net.Conn
	queue    *queue.Queue
	wake     func(Submitter)
	consumed chan struct{} // capacity 1: the session has used up what was read ahead

	mu      sync.Mutex // guards what follows
	in      []byte     // read ahead
	inErr   error      // why no more will be read; comes after in
	out     []byte     // to be written
	pending int        // len(out) and what is being written
	drained uint64
	writing bool // the writing goroutine runs
	closed  bool
	outErr  error
}

func newPump(conn net.Conn, q *queue.Queue, wake func(Submitter)) *pump {
	p := &pump{conn: conn, queue: q, wake: wake, consumed: make(chan struct{}, 1)}
	go p.readAhead()
	return p
}

// wakeSession wakes the session with a loop iteration of its own.
func (p *pump) wakeSession() {
	var it loopIteration
	p.wake(&it)
	it.end(p.queue)
}

func (p *pump) readAhead() {
	buf := make([]byte, pumpBuffer)
	for {
		n, err := p.conn.Read(buf)
		if !p.offer(buf[:n], err) {
			return
		}
		p.wakeSession()
		if err != nil {
			return
		}
		if n > 0 {
			<-p.consumed
		}
	}
}

// offer makes what was read available to the session. It returns false if the session has
// ended.
func (p *pump) offer(read []byte, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in = read
	if p.inErr == nil {
		p.inErr = err
	}
	return !p.closed
}

// Read implements Wire.
func (p *pump) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.in) == 0 {
		if p.inErr != nil {
			return 0, p.inErr
		}
		return 0, ErrNoData
	}
	n := copy(b, p.in)
	if p.in = p.in[n:]; len(p.in) == 0 {
		p.resumeReading()
	}
	return n, nil
}

// resumeReading lets the reading goroutine continue. The lock is held.
func (p *pump) resumeReading() {
	select {
	case p.consumed <- struct{}{}:
	default:
	}
}

// Readable implements Wire.
func (p *pump) Readable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.in) > 0 || p.inErr != nil
}

// Write implements Wire.
func (p *pump) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outErr != nil {
		return 0, p.outErr
	}
	p.out = append(p.out, b...)
	p.pending += len(b)
	if !p.writing {
		p.writing = true
		go p.writeOut()
	}
	return len(b), nil
}

// writeOut writes until nothing is left. It writes in small pieces, so that Drained tells a
// client that reads slowly from one that does not read.
func (p *pump) writeOut() {
	p.mu.Lock()
	for len(p.out) > 0 && p.outErr == nil {
		chunk := p.out[:min(len(p.out), pumpBuffer)]
		p.out = p.out[len(chunk):]
		p.mu.Unlock()
		n, err := p.conn.Write(chunk)
		p.mu.Lock()
		p.pending -= len(chunk)
		p.drained += uint64(n)
		if p.outErr == nil {
			p.outErr = err
		}
	}
	p.out = nil
	p.writing = false
	p.mu.Unlock()
	p.wakeSession()
}

// Drained implements Wire.
func (p *pump) Drained() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drained
}

// Submit implements Submitter.
func (p *pump) Submit(b *storage.Batch) { go p.queue.Store().Do(b) }

// WakeLater implements Wire.
func (p *pump) WakeLater() { go p.wakeSession() }

// PendingBytes implements Wire.
func (p *pump) PendingBytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outErr != nil {
		return 0
	}
	return p.pending
}

// Flush implements Wire.
func (p *pump) Flush() int { return p.PendingBytes() }

// Delivered implements Wire. A system without epoll does not say what it has not sent yet.
func (p *pump) Delivered() bool { return true }

// Close implements Wire.
func (p *pump) Close() {
	p.conn.Close() // first, so that the reading goroutine gets no more to offer
	p.mu.Lock()
	p.in, p.closed = nil, true
	p.resumeReading()
	p.mu.Unlock()
}

// Abort implements Wire.
func (p *pump) Abort() {
	p.mu.Lock()
	p.inErr, p.outErr = errAborted, errAborted
	p.mu.Unlock()
	p.conn.Close()
	p.wake(p)
}
