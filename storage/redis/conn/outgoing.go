package conn

import "io"

const (
	// bufferSize is the size of the buffers for sending and receiving, in bytes.
	bufferSize = 64 << 10

	// ownPiece is the size from which on a text is not copied into the send buffer.
	ownPiece = 8 << 10

	// maxPieces limits how many pieces are sent at once.
	maxPieces = 512
)

// outgoing is a send buffer: small texts are copied, and large ones between them are
// referenced. Those must not change until Flush.
type outgoing struct {
	to     io.Writer // small texts, one after the other
	small  []byte    // end of the part of small that is in pieces
	cut    int       // in their order; slices of small, or large texts
	pieces [][]byte  // total size of pieces
	bytes  int       // in pieces
	err    error     // the first error; nothing is written after it
}

// vecWriter writes pieces one after the other. It can change the list.
type vecWriter interface {
	WriteVec(pieces [][]byte) (int, error)
}

// Write appends a text.
func (o *outgoing) Write(text []byte) {
	if len(text) < ownPiece {
		o.small = append(o.small, text...)
	} else {
		o.cutSmall()
		o.pieces = append(o.pieces, text)
		o.bytes += len(text)
	}
	o.flushIfFull()
}

// WriteString appends a text.
func (o *outgoing) WriteString(text string) {
	o.small = append(o.small, text...)
	o.flushIfFull()
}

// cutSmall appends the small texts after the last large one as a piece.
func (o *outgoing) cutSmall() {
	if o.cut < len(o.small) {
		o.pieces = append(o.pieces, o.small[o.cut:])
		o.bytes += len(o.small) - o.cut
		o.cut = len(o.small)
	}
}

func (o *outgoing) flushIfFull() {
	if len(o.small) >= bufferSize || len(o.pieces) >= maxPieces-1 {
		o.Flush()
	}
}

// Flush writes everything that was appended, and returns the first error.
func (o *outgoing) Flush() error {
	o.cutSmall()
	if o.err == nil && o.bytes > 0 {
		o.err = o.writePieces()
	}
	clear(o.pieces)
	o.pieces, o.small, o.cut, o.bytes = o.pieces[:0], o.small[:0], 0, 0
	return o.err
}

func (o *outgoing) writePieces() error {
	if to, ok := o.to.(vecWriter); ok {
		_, err := to.WriteVec(o.pieces)
		return err
	}
	for _, piece := range o.pieces {
		if _, err := o.to.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// unwritten returns what is left of pieces after n bytes are written. It changes the list.
func unwritten(pieces [][]byte, n int) [][]byte {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}
