package client

import "bytes"

// A Decoder finds replies in the bytes of one connection. The caller reads the
// bytes into Space and then calls Filled. The zero value is ready to use.
type Decoder struct {
	buf        []byte
	start, end int // buf[start:end] is not decoded yet
}

// bufferSize is the first size of a Decoder's buffer, in bytes. It doubles when a
// reply does not fit.
const bufferSize = 16 << 10

// Space returns free space to read into, at least one byte. The slices of replies
// that were decoded before become invalid.
func (d *Decoder) Space() []byte {
	if d.start == d.end {
		d.start, d.end = 0, 0
	}
	if d.buf == nil {
		d.buf = make([]byte, bufferSize)
	}
	if d.end == len(d.buf) {
		if d.start < len(d.buf)/2 {
			d.buf = append(d.buf, make([]byte, len(d.buf))...)
		}
		d.end = copy(d.buf, d.buf[d.start:d.end])
		d.start = 0
	}
	return d.buf[d.end:]
}

// Filled reports that n bytes were read into Space.
func (d *Decoder) Filled(n int) { d.end += n }

// Next decodes the next reply into r. It returns false if the reply has not arrived
// completely.
func (d *Decoder) Next(r *Reply) (bool, error) {
	if d.start == d.end {
		return false, nil
	}
	n, err := r.Parse(d.buf[d.start:d.end])
	d.start += n
	return n > 0, err
}

// NextLine returns the bytes up to and including the next LF, or nil if no LF has
// arrived yet.
func (d *Decoder) NextLine() []byte {
	n := bytes.IndexByte(d.buf[d.start:d.end], '\n') + 1
	if n == 0 {
		return nil
	}
	return d.take(n)
}

// take returns at most n bytes that have arrived, and counts them as decoded.
func (d *Decoder) take(n int) []byte {
	n = min(n, d.end-d.start)
	taken := d.buf[d.start : d.start+n]
	d.start += n
	return taken
}
