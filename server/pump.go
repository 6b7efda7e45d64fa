package server

import (
	"net"
	"sync"

	"redstalk/server/queue"
	"redstalk/storage"
)

// pumpBuffer is how many bytes a pump reads ahead.
const pumpBuffer = 4 << 10

// pump is a wire over any net.Conn. A goroutine reads ahead, and another one
// writes while there is something to write. It serves what no loop can watch:
// connections in memory, and systems without epoll.
type pump struct {
	conn  net.Conn
	queue *queue.Queue
	wake  func(submitter)
	taken chan struct{} // capacity 1: what was read ahead is used up

	mu      sync.Mutex // guards what follows
	in      []byte     // read ahead
	inErr   error      // why no more will be read; comes after in
	out     []byte     // to be written
	kept    int        // len(out) and what is being written
	drained uint64
	writing bool // there is a goroutine that writes
	closed  bool
	outErr  error
}

func newPump(conn net.Conn, q *queue.Queue, wake func(submitter)) *pump {
	p := &pump{conn: conn, queue: q, wake: wake, taken: make(chan struct{}, 1)}
	go p.readAhead()
	return p
}

// rouse wakes the session with a turn of its own.
func (p *pump) rouse() {
	var t loopIteration
	p.wake(&t)
	t.end(p.queue)
}

func (p *pump) readAhead() {
	buf := make([]byte, pumpBuffer)
	for {
		n, err := p.conn.Read(buf)
		if !p.offer(buf[:n], err) {
			return
		}
		p.rouse()
		if err != nil {
			return
		}
		if n > 0 {
			<-p.taken
		}
	}
}

// offer has the session find what was read; false if it has ended.
func (p *pump) offer(read []byte, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in = read
	if p.inErr == nil {
		p.inErr = err
	}
	return !p.closed
}

// Read implements wire.
func (p *pump) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.in) == 0 {
		if p.inErr != nil {
			return 0, p.inErr
		}
		return 0, errNothing
	}
	n := copy(b, p.in)
	if p.in = p.in[n:]; len(p.in) == 0 {
		p.goOn()
	}
	return n, nil
}

// goOn lets the reading goroutine go on; the lock is held.
func (p *pump) goOn() {
	select {
	case p.taken <- struct{}{}:
	default:
	}
}

// More implements wire.
func (p *pump) More() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.in) > 0 || p.inErr != nil
}

// Write implements wire.
func (p *pump) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outErr != nil {
		return 0, p.outErr
	}
	p.out = append(p.out, b...)
	p.kept += len(b)
	if !p.writing {
		p.writing = true
		go p.writeOut()
	}
	return len(b), nil
}

// writeOut writes until nothing is left, in pieces by which a client that
// reads slowly can be told from one that does not read.
func (p *pump) writeOut() {
	p.mu.Lock()
	for len(p.out) > 0 && p.outErr == nil {
		chunk := p.out[:min(len(p.out), pumpBuffer)]
		p.out = p.out[len(chunk):]
		p.mu.Unlock()
		n, err := p.conn.Write(chunk)
		p.mu.Lock()
		p.kept -= len(chunk)
		p.drained += uint64(n)
		if p.outErr == nil {
			p.outErr = err
		}
	}
	p.out = nil
	p.writing = false
	p.mu.Unlock()
	p.rouse()
}

// Drained implements wire.
func (p *pump) Drained() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drained
}

// Hand implements wire.
func (p *pump) Submit(b *storage.Batch) { go p.queue.Store().Do(b) }

// Again implements wire.
func (p *pump) Again() { go p.rouse() }

// Kept implements wire.
func (p *pump) PendingBytes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outErr != nil {
		return 0
	}
	return p.kept
}

// Push implements wire.
func (p *pump) Push() int { return p.PendingBytes() }

// Delivered implements wire. What a system without epoll has not sent it does
// not tell.
func (p *pump) Delivered() bool { return true }

// Close implements wire.
func (p *pump) Close() {
	p.conn.Close() // first: the reading goroutine must not get any more to hand over
	p.mu.Lock()
	p.in, p.closed = nil, true
	p.goOn()
	p.mu.Unlock()
}

// Cut implements wire.
func (p *pump) Cut() {
	p.mu.Lock()
	p.inErr, p.outErr = errCut, errCut
	p.mu.Unlock()
	p.conn.Close()
	p.wake(p)
}
