package server

import (
	"crypto/tls"
	"sync"

	"redstalk/protocol"
	"redstalk/storage"
)

// tlsWire is a wire with TLS above a descriptor that a loop watches: what the client
// sends is decrypted, and what it gets encrypted, by whoever runs the session.
type tlsWire struct {
	epollWire *epollWire // no embedding: ReadVec and WriteVec would go past TLS
	conn      *tls.Conn
	records   *records
	full      bool // the last read filled its buffer; belongs to the session
}

// Read implements wire.
func (t *tlsWire) Read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	t.full = n == len(p)
	if _, ok := err.(wouldBlock); ok {
		err = errNothing
	}
	return n, err
}

// More implements wire.
func (t *tlsWire) More() bool {
	return t.full || t.records.hi > t.records.lo || t.records.news.Load() || t.epollWire.More()
}

// Write implements wire.
func (t *tlsWire) Write(p []byte) (int, error) { return t.conn.Write(p) }

// plainBuffer is how much becomes one record: as much as one can hold.
const plainBuffer = 16 << 10

var plainBuffers = sync.Pool{New: func() any { return new([plainBuffer]byte) }}

// WriteVec implements protocol.VecWriter. Pieces share records.
func (t *tlsWire) WriteVec(pieces []protocol.Piece) (err error) {
	defer release(pieces)
	buf := plainBuffers.Get().(*[plainBuffer]byte)
	defer plainBuffers.Put(buf)
	n := 0
	for i := range pieces {
		for rest := pieces[i].Bytes; len(rest) > 0; {
			copied := copy(buf[n:], rest)
			n, rest = n+copied, rest[copied:]
			if n < len(buf) {
				break
			}
			if _, err = t.conn.Write(buf[:n]); err != nil {
				return err
			}
			n = 0
		}
	}
	if n > 0 {
		_, err = t.conn.Write(buf[:n])
	}
	return err
}

// Kept implements wire: in bytes as they are sent.
func (t *tlsWire) PendingBytes() int { return t.epollWire.PendingBytes() }

// Push implements wire.
func (t *tlsWire) Push() int { return t.epollWire.Push() }

// Drained implements wire.
func (t *tlsWire) Drained() uint64 { return t.epollWire.Drained() }

// Hand implements wire.
func (t *tlsWire) Submit(b *storage.Batch) { t.epollWire.Submit(b) }

// Again implements wire.
func (t *tlsWire) Again() { t.epollWire.Again() }

// Delivered implements wire.
func (t *tlsWire) Delivered() bool { return t.epollWire.Delivered() }

// Close implements wire. It tells the client that this is the end, if there is room.
func (t *tlsWire) Close() {
	t.conn.CloseWrite()
	t.epollWire.Close()
}

// Cut implements wire.
func (t *tlsWire) Cut() { t.epollWire.Cut() }
