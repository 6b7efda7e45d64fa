package netpoll

import (
	"crypto/tls"
	"sync"

	"redstalk/protocol"
	"redstalk/storage"
)

// tlsWire is a Wire with TLS above an epollWire. The goroutine that runs the session
// decrypts and encrypts.
type tlsWire struct {
	epollWire *epollWire // not embedded: ReadVec and WriteVec would bypass TLS
	conn      *tls.Conn
	records   *records
	full      bool // the last read filled its buffer; belongs to the session
}

// Read implements Wire.
func (t *tlsWire) Read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	t.full = n == len(p)
	if _, ok := err.(wouldBlock); ok {
		err = ErrNoData
	}
	return n, err
}

// Readable implements Wire.
func (t *tlsWire) Readable() bool {
	return t.full || t.records.hi > t.records.lo || t.records.unreadEvent.Load() || t.epollWire.Readable()
}

// Write implements Wire.
func (t *tlsWire) Write(p []byte) (int, error) { return t.conn.Write(p) }

// plainBuffer is how many bytes become one record: as many as one can hold.
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

// PendingBytes implements Wire. It counts encrypted bytes.
func (t *tlsWire) PendingBytes() int { return t.epollWire.PendingBytes() }

// Flush implements Wire.
func (t *tlsWire) Flush() int { return t.epollWire.Flush() }

// Drained implements Wire. It counts encrypted bytes.
func (t *tlsWire) Drained() uint64 { return t.epollWire.Drained() }

// Submit implements Submitter.
func (t *tlsWire) Submit(b *storage.Batch) { t.epollWire.Submit(b) }

// WakeLater implements Wire.
func (t *tlsWire) WakeLater() { t.epollWire.WakeLater() }

// Delivered implements Wire.
func (t *tlsWire) Delivered() bool { return t.epollWire.Delivered() }

// Close implements Wire. It sends the client the end of the TLS stream if there is room.
func (t *tlsWire) Close() {
	t.conn.CloseWrite()
	t.epollWire.Close()
}

// Abort implements Wire.
func (t *tlsWire) Abort() { t.epollWire.Abort() }
