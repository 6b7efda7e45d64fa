package beanstalkd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"

	"redstalk/tube"
)

// fileSize is the approximate size in bytes of a file of Write: the default of beanstalkd's -s.
const fileSize = 10 << 20

// ErrTaken means that the directory already has a binlog.
var ErrTaken = errors.New("there is a binlog already")

// Write writes jobs as a binlog of version 7 into a directory that has none; it creates the
// directory if it does not exist. Buried jobs must come in the order of their burial. The next job
// that is put into beanstalkd gets an id above lastID. Write returns the number of jobs it has
// written; after an error it removes the files.
func Write(dir string, jobs iter.Seq2[Job, error], lastID uint64) (n int, err error) {
	switch has, err := HasBinlog(dir); {
	case err != nil:
		return 0, err
	case has:
		return 0, fmt.Errorf("writing a binlog into %s: %w", dir, ErrTaken)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	w := &writer{dir: dir}
	if n, err = w.all(jobs, lastID); err != nil {
		w.remove()
		return 0, fmt.Errorf("writing a binlog into %s: %w", dir, err)
	}
	return n, nil
}

// writer writes the files of a binlog.
type writer struct {
	dir    string
	paths  []string
	file   *os.File // nil: none is open
	out    *bufio.Writer
	size   int64
	lastID uint64 // the largest id so far
	buf    []byte
}

// all writes all jobs.
func (w *writer) all(jobs iter.Seq2[Job, error], lastID uint64) (n int, err error) {
	for j, err := range jobs {
		if err == nil {
			err = w.add(&j)
		}
		if err != nil {
			return n, errors.Join(err, w.end())
		}
		n++
	}
	if lastID > w.lastID {
		err = w.addDeleted(lastID)
	}
	if w.file == nil && err == nil {
		err = w.begin()
	}
	return n, errors.Join(err, w.end(), syncDirectory(w.dir))
}

// addDeleted writes a job and its deletion, so that new ids are larger than id.
func (w *writer) addDeleted(id uint64) error {
	if err := w.add(&Job{ID: id, Tube: tube.Default, State: tube.Ready, TTR: tube.MinTTR}); err != nil {
		return err
	}
	short := fields{id: id, state: deleted}
	return w.write(short.encode(make([]byte, 4)))
}

// add writes a job.
func (w *writer) add(j *Job) error {
	switch {
	case !validName([]byte(j.Tube)):
		return fmt.Errorf("job %d is in the tube %q, a name that beanstalkd does not allow", j.ID, j.Tube)
	case len(j.Body) > math.MaxInt32-crlf:
		return fmt.Errorf("job %d has a body of %d bytes, which is more than beanstalkd allows", j.ID, len(j.Body))
	}
	f := fields{
		id: j.ID, pri: j.Pri, delay: j.Delay, ttr: j.TTR, body: int32(len(j.Body) + crlf),
		created: int64(j.Created), counters: j.Counters, state: ready,
	}
	switch j.State {
	case tube.Buried:
		f.state = buried
	case tube.Delayed:
		f.state, f.due = delayed, int64(j.Due)
	}
	w.lastID = max(w.lastID, j.ID)
	w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(len(j.Tube)))
	w.buf = f.encode(append(w.buf, j.Tube...))
	return w.write(w.buf, j.Body, []byte("\r\n"))
}

// write writes a record in pieces, into a new file if it does not fit into the current one.
func (w *writer) write(pieces ...[]byte) error {
	size := int64(0)
	for _, p := range pieces {
		size += int64(len(p))
	}
	if w.file == nil || w.size+size > fileSize && w.size > headSize {
		if err := errors.Join(w.end(), w.begin()); err != nil {
			return err
		}
	}
	w.size += size
	for _, p := range pieces {
		if _, err := w.out.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// begin creates the next file.
func (w *writer) begin() error {
	path := filepath.Join(w.dir, fmt.Sprintf("binlog.%d", len(w.paths)+1))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return err
	}
	w.file, w.paths, w.size = f, append(w.paths, path), headSize
	w.out = bufio.NewWriterSize(f, 1<<20)
	_, err = w.out.Write(binary.LittleEndian.AppendUint32(nil, current))
	return err
}

// end completes the current file, if there is one.
func (w *writer) end() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return errors.Join(w.out.Flush(), f.Sync(), f.Close())
}

// remove removes all files that were written.
func (w *writer) remove() {
	for _, path := range w.paths {
		os.Remove(path)
	}
}

// syncDirectory makes the names of the files survive a power failure.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
