package redis

import "io"

const (
	// bufferSize is that of what is sent, and of what is received, in bytes.
	bufferSize = 64 << 10

	// ownPiece is from how many bytes on a text is not copied into what is sent.
	ownPiece = 8 << 10

	// maxPieces bounds how many pieces are sent at once.
	maxPieces = 512
)

// outgoing is what is on its way to Redis: small texts, which are copied, and between
// them large ones, which are not. They have to stay as they are until Flush.
type outgoing struct {
	to     io.Writer
	small  []byte   // texts, one behind the other
	cut    int      // up to where small is in pieces
	pieces [][]byte // in their order; parts of small, or large texts
	bytes  int      // in pieces
	err    error    // the first one; nothing is written after it
}

// vecWriter writes pieces one behind the other. It may change the list.
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

// cutSmall makes a piece of the small texts behind the last large one.
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

// Flush writes all that was appended, and returns the first error there was.
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

// unwritten returns what is left of pieces when so many bytes of them are written. It
// changes the list.
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
