package httpserve

import "encoding/binary"

// The form of what an HTTP/2 client sends: RFC 9113, sections 3.4 and 4.1.
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeader = 9
	typeHeaders = 1
)

// frames finds the requests in what an HTTP/2 client sends, in whatever parts it arrives.
type frames struct {
	other   bool // it is not HTTP/2
	begun   int  // bytes of the preface that have arrived
	header  [frameHeader]byte
	arrived int    // bytes of header
	rest    int    // bytes that are missing from the frame
	last    uint32 // the last request
}

// requestsIn returns how many requests begin in p, which is what has arrived next.
func (f *frames) requestsIn(p []byte) (n int) {
	for len(p) > 0 && f.begun < len(preface) && !f.other {
		f.other = p[0] != preface[f.begun]
		f.begun++
		p = p[1:]
	}
	for len(p) > 0 && !f.other {
		if skip := min(f.rest, len(p)); skip > 0 {
			f.rest -= skip
			p = p[skip:]
			continue
		}
		m := copy(f.header[f.arrived:], p)
		f.arrived += m
		p = p[m:]
		if f.arrived < frameHeader {
			break
		}
		f.arrived, f.rest = 0, int(binary.BigEndian.Uint32(f.header[:4])>>8)
		if f.beginsRequest() {
			n++
		}
	}
	return n
}

// beginsRequest reports whether the frame of header begins a request, and not the trailers of
// an earlier one.
func (f *frames) beginsRequest() bool {
	id := binary.BigEndian.Uint32(f.header[5:]) &^ (1 << 31)
	if f.header[3] != typeHeaders || id <= f.last {
		return false
	}
	f.last = id
	return true
}
