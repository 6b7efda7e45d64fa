package beanstalkd

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"redstalk/tube"
)

// Job is a job of a binlog.
type Job struct {
	ID              uint64
	Tube            string
	State           tube.State // Ready, Delayed or Buried: reserved ones are ready again
	Pri, Delay, TTR uint32     // delay and TTR in seconds, as last set
	Created         tube.Instant
	Due             tube.Instant // of delayed jobs, also if that has passed
	Counters        tube.Counters
	Body            []byte // nil from Log.Headers
	Size            int    // of the body, in bytes
}

// Damage is a place from which on a file cannot be read, or that shows that beanstalkd itself could not
// read one.
type Damage struct {
	File   string // its path
	Offset int64  // of the record, in bytes
	What   string
	Lost   int64 // bytes that were not read: from Offset to the end, or none

	id uint64 // of the job whose record is torn; 0: it is not known
}

// String is a line for the operator.
func (d Damage) String() string {
	if d.Lost == 0 {
		return fmt.Sprintf("%s, byte %d: %s", d.File, d.Offset, d.What)
	}
	return fmt.Sprintf("%s, byte %d: %s; %d bytes were not read", d.File, d.Offset, d.What, d.Lost)
}

// Log is a binlog that was read. Close it: it holds the lock of the directory.
type Log struct {
	Files   int
	Records int      // read
	Damage  []Damage // in the order of the files
	LastID  uint64   // the largest id of a job, also of those that are gone; 0: there was none

	files   []string
	lock    *os.File // nil: there is none to be had
	alive   map[uint64]int
	jobs    []known // those with id 0 are free
	free    []int
	renamed []int // slots of jobs whose id another one has got
	first   int   // numbers first appearances
	names   map[string]string
}

// known is what is known of a job.
type known struct {
	fields
	tube  string
	file  int   // in Log.files, that has the body
	at    int64 // where the body begins in it
	first int   // when the job appeared
}

// ErrNone: the directory has no binlog.
var ErrNone = errors.New("there is no binlog of beanstalkd")

// ErrLocked: a beanstalkd uses the directory.
var ErrLocked = errors.New("a beanstalkd uses the directory")

// Is tells whether a name is that of a file of a binlog, and its number.
func Is(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "binlog.")
	if !ok || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// In tells whether a directory has a binlog. One that does not exist has none.
func In(dir string) (bool, error) {
	paths, err := list(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(paths) > 0, err
}

// list returns the paths of the files of a binlog, in the order of their numbers.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	numbers := make(map[string]uint64)
	var paths []string
	for _, e := range entries {
		if n, ok := Is(e.Name()); ok {
			path := filepath.Join(dir, e.Name())
			numbers[path], paths = n, append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
	return paths, nil
}

// Open reads the binlog of a directory. reading, which may be nil, is told now and then which
// file is read, and how many records were so far. The error is ErrNone, ErrLocked, ErrVersion,
// or that a file cannot be read; damaged ones are no error, see Log.Damage.
func Open(dir string, reading func(file string, records int)) (*Log, error) {
	paths, err := list(dir)
	if err == nil && len(paths) == 0 {
		err = ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("reading the binlog in %s: %w", dir, err)
	}
	l := &Log{Files: len(paths), files: paths, alive: make(map[uint64]int), names: make(map[string]string)}
	if l.lock, err = lock(filepath.Join(dir, "lock")); err != nil {
		return nil, fmt.Errorf("reading the binlog in %s: %w", dir, err)
	}
	if reading == nil {
		reading = func(string, int) {}
	}
	for i := range paths {
		if err := l.replay(i, reading); err != nil {
			l.Close()
			return nil, fmt.Errorf("reading %s: %w", paths[i], err)
		}
	}
	l.settle()
	return l, nil
}

// Close gives back the lock.
func (l *Log) Close() error {
	if l.lock == nil {
		return nil
	}
	return l.lock.Close()
}

// replay reads a file.
func (l *Log) replay(number int, reading func(string, int)) error {
	path := l.files[number]
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	damage, err := scan(f, info.Size(), func(e *entry) {
		if l.Records++; l.Records%10_000 == 0 {
			reading(path, l.Records)
		}
		l.take(number, e)
	})
	if damage != nil {
		damage.File = path
		l.LastID = max(l.LastID, damage.id) // a client may know it
		l.Damage = append(l.Damage, *damage)
	}
	return err
}

// take takes in a record.
func (l *Log) take(file int, e *entry) {
	slot, have := l.alive[e.id]
	l.LastID = max(l.LastID, e.id)
	switch {
	case !have && e.name == nil:
		return // its job is gone, and so is the file that had it
	case e.state == deleted:
		l.forget(e.id)
	case !have:
		l.add(file, e)
	case e.name != nil && e.created != l.jobs[slot].created:
		l.addAgain(file, e, slot)
	default:
		l.jobs[slot].update(file, e)
	}
}

// update has the job be what a later record says.
func (k *known) update(file int, e *entry) {
	size := k.body
	k.fields = e.fields
	if e.name == nil {
		k.body = size
		return
	}
	k.file, k.at = file, e.at
}

// addAgain is for a job that appears with the id of another one. A copy has the time at which its job was
// put, so it is none: when beanstalkd could not read a file to its end, it did not know the jobs behind,
// and gave their ids out again. The other one was never deleted: it gets an id when all are known.
func (l *Log) addAgain(file int, e *entry, slot int) {
	old := &l.jobs[slot]
	l.Damage = append(l.Damage, Damage{File: l.files[file], Offset: e.from, What: fmt.Sprintf(
		"job %d is another one than that in %s, byte %d, which beanstalkd must have lost: that one gets another id", e.id, l.files[old.file], old.at)})
	l.renamed = append(l.renamed, slot)
	l.add(file, e)
}

// forget is for a job that is gone.
func (l *Log) forget(id uint64) {
	slot, have := l.alive[id]
	if !have {
		return
	}
	delete(l.alive, id)
	l.jobs[slot] = known{}
	l.free = append(l.free, slot)
}

// add is for a job that appears.
func (l *Log) add(file int, e *entry) {
	name, have := l.names[string(e.name)]
	if !have {
		name = string(e.name)
		l.names[name] = name
	}
	l.first++
	k := known{fields: e.fields, tube: name, file: file, at: e.at, first: l.first}
	if n := len(l.free); n > 0 {
		slot := l.free[n-1]
		l.free = l.free[:n-1]
		l.jobs[slot], l.alive[e.id] = k, slot
		return
	}
	l.alive[e.id] = len(l.jobs)
	l.jobs = append(l.jobs, k)
}

// settle gives ids to the jobs whose id another one has got, and puts all in the order in which they
// appeared.
func (l *Log) settle() {
	for _, slot := range l.renamed {
		l.LastID++
		l.jobs[slot].id = l.LastID
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(k known) bool { return k.id == 0 })
	slices.SortFunc(l.jobs, func(a, b known) int { return cmp.Compare(a.first, b.first) })
	l.alive, l.free, l.names = nil, nil, nil
}

// Len is how many jobs there are.
func (l *Log) Len() int { return len(l.jobs) }

// Bytes is how many bytes their bodies have.
func (l *Log) Bytes() (all int64) {
	for i := range l.jobs {
		all += int64(l.jobs[i].body) - crlf
	}
	return all
}

// Source is a name for exactly these jobs in this order. It does not depend on the time.
func (l *Log) Source() string {
	sum := sha256.New()
	var b []byte
	for i := range l.jobs {
		k := &l.jobs[i]
		b = append(k.fields.encode(b[:0]), k.tube...)
		sum.Write(append(b, 0))
	}
	b = binary.LittleEndian.AppendUint64(b[:0], l.LastID)
	return "binlog-" + hex.EncodeToString(sum.Sum(b)[:16])
}

// Headers calls do with each job, without its body, in the order in which they appeared. It
// ends with the first error of do.
func (l *Log) Headers(do func(Job) error) error {
	for i := range l.jobs {
		if err := do(l.jobs[i].job()); err != nil {
			return err
		}
	}
	return nil
}

// Each is Headers with the bodies, of all jobs from the one numbered from on, counted from 0.
func (l *Log) Each(from int, do func(Job) error) error {
	r := bodies{files: l.files}
	defer r.close()
	for i := from; i < len(l.jobs); i++ {
		j := l.jobs[i].job()
		var err error
		if j.Body, err = r.read(l.jobs[i].file, l.jobs[i].at, j.Size); err != nil {
			return fmt.Errorf("reading the body of job %d: %w", j.ID, err)
		}
		if err := do(j); err != nil {
			return err
		}
	}
	return nil
}

// job is what the caller gets.
func (k *known) job() Job {
	j := Job{
		ID: k.id, Tube: k.tube, State: tube.Ready, Pri: k.pri, Delay: k.delay, TTR: k.ttr,
		Created: tube.Instant(k.created), Counters: k.counters, Size: int(k.body) - crlf,
	}
	switch k.state {
	case buried:
		j.State = tube.Buried
	case delayed:
		j.State, j.Due = tube.Delayed, tube.Instant(k.due)
	}
	return j
}

// bodies reads bodies. It keeps a file open until another one is wanted, and reads ahead while the
// bodies come in the order of the file: one call of the system for each would take as long as all else.
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

	// aheadGap is how many bytes there may be between a body and the next one for them to be in order.
	aheadGap = 4 << 10
)

// use opens a file, if it is not the one that is open.
func (r *bodies) use(file int) error {
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

// read returns the body of size bytes at a place of a file.
func (r *bodies) read(file int, at int64, size int) ([]byte, error) {
	if err := r.use(file); err != nil {
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

// readAhead reads what is in the file from a place on.
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
