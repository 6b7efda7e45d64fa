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

// fileSize is about how many bytes a file has that Write makes: that of beanstalkd's -s.
const fileSize = 10 << 20

// ErrTaken: the directory has a binlog already.
var ErrTaken = errors.New("there is a binlog already")

// Write makes a binlog of version 7 of jobs, in a directory that has none; it makes the
// directory if it does not exist. Buried jobs are in the order of their burial. The next job
// that beanstalkd puts gets an id above lastID. It returns how many jobs it has written; with an
// error the files are removed.
func Write(dir string, jobs iter.Seq2[Job, error], lastID uint64) (n int, err error) {
	switch has, err := In(dir); {
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
	dir   string
	paths []string
	file  *os.File // nil: none was begun
	out   *bufio.Writer
	size  int64
	most  uint64 // the largest id so far
	room  []byte
}

// all writes everything.
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
	if lastID > w.most {
		err = w.addGone(lastID)
	}
	if w.file == nil && err == nil {
		err = w.begin()
	}
	return n, errors.Join(err, w.end(), syncDirectory(w.dir))
}

// addGone writes a job, and that it is gone: so ids go on behind its.
func (w *writer) addGone(id uint64) error {
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
		return fmt.Errorf("job %d is in a tube %q, which beanstalkd cannot have", j.ID, j.Tube)
	case len(j.Body) > math.MaxInt32-crlf:
		return fmt.Errorf("job %d has a body of %d bytes, which is more than beanstalkd can have", j.ID, len(j.Body))
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
	w.most = max(w.most, j.ID)
	w.room = binary.LittleEndian.AppendUint32(w.room[:0], uint32(len(j.Tube)))
	w.room = f.encode(append(w.room, j.Tube...))
	return w.write(w.room, j.Body, []byte("\r\n"))
}

// write writes a record in pieces, into another file if it does not fit into this one.
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

// begin makes the next file.
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

// end completes the file that was begun, if there is one.
func (w *writer) end() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return errors.Join(w.out.Flush(), f.Sync(), f.Close())
}

// remove removes what was written.
func (w *writer) remove() {
	for _, path := range w.paths {
		os.Remove(path)
	}
}

// syncDirectory has the names of the files survive a power cut.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
