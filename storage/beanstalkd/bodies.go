package beanstalkd

import (
	"errors"
	"io"
	"os"
)

// bodies reads bodies. It keeps one file open until another one is needed, and reads ahead while the
// bodies come in the order of the file. One system call per body would take as long as everything else.
type bodies struct {
	files []string
	open  *os.File
	which int
	ahead []byte // the bytes of the file from begin on
	begin int64
	end   int64 // of the body that was read last
}

const (
	// aheadSize is how many bytes are read ahead.
	aheadSize = 256 << 10

	// aheadGap is the largest gap in bytes between two bodies that still count as in order.
	aheadGap = 4 << 10
)

// openFile opens a file, unless it is open already.
func (r *bodies) openFile(file int) error {
	if r.open != nil && r.which == file {
		return nil
	}
	r.close()
	f, err := os.Open(r.files[file])
	if err != nil {
		return err
	}
	r.open, r.which = f, file
	return nil
}

// read returns the body of size bytes at an offset of a file.
func (r *bodies) read(file int, at int64, size int) ([]byte, error) {
	if err := r.openFile(file); err != nil {
		return nil, err
	}
	body, end := make([]byte, size), at+int64(size)
	ordered := at >= r.end && at-r.end <= aheadGap
	r.end = end
	if size > aheadSize/2 || !ordered {
		_, err := r.open.ReadAt(body, at)
		return body, err
	}
	if at < r.begin || end > r.begin+int64(len(r.ahead)) {
		if err := r.readAhead(at); err != nil {
			return nil, err
		}
	}
	if n := copy(body, r.ahead[min(at-r.begin, int64(len(r.ahead))):]); n < size {
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}

// readAhead reads the file from an offset on.
func (r *bodies) readAhead(at int64) error {
	if r.ahead == nil {
		r.ahead = make([]byte, aheadSize)
	}
	n, err := r.open.ReadAt(r.ahead[:aheadSize], at)
	r.ahead, r.begin = r.ahead[:n], at
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (r *bodies) close() {
	if r.open != nil {
		r.open.Close()
		r.open, r.ahead, r.begin, r.end = nil, r.ahead[:0], 0, 0
	}
}
