package beanstalkd

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
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
	State           tube.State // Ready, Delayed or Buried: reserved jobs are ready again
	Pri, Delay, TTR uint32     // delay and TTR in seconds, as last set
	Created         tube.Instant
	Due             tube.Instant // of delayed jobs, also if that has passed
	Counters        tube.Counters
	Body            []byte // nil in Binlog.Headers
	Size            int    // of the body, in bytes
}

// Damage is a place from which on a file cannot be read, or a sign that beanstalkd itself could not
// read a file.
type Damage struct {
	File   string // its path
	Offset int64  // of the record, in bytes
	What   string
	Lost   int64 // bytes that were not read: from Offset to the end, or 0

	id uint64 // of the job whose record is torn; 0: unknown
}

// String returns a line for the operator.
func (d Damage) String() string {
	if d.Lost == 0 {
		return fmt.Sprintf("%s, byte %d: %s", d.File, d.Offset, d.What)
	}
	return fmt.Sprintf("%s, byte %d: %s; %d bytes were not read", d.File, d.Offset, d.What, d.Lost)
}

// Binlog is the contents of a binlog in memory, without the bodies. It holds the lock of the directory until Close.
type Binlog struct {
	Files   int
	Records int      // read
	Damage  []Damage // in the order of the files
	LastID  uint64   // the largest id of a job, including deleted ones; 0: there was none

	files  []string
	lock   *os.File // nil: there is no lock file
	alive  map[uint64]int
	jobs   []liveJob // entries with id 0 are free
	free   []int
	reused []int // indexes of jobs whose id was used again for another job
	order  int   // counts jobs in the order of their first records
	names  map[string]string
}

// liveJob is a job without its body.
type liveJob struct {
	fields
	tube  string
	file  int   // index in Binlog.files of the file that has the body
	at    int64 // offset of the body
	order int   // position of its first record among those of other jobs
}

// ErrNone means that the directory has no binlog.
var ErrNone = errors.New("there is no binlog of beanstalkd")

// ErrLocked means that a beanstalkd uses the directory.
var ErrLocked = errors.New("a beanstalkd uses the directory")

// FileNumber reports whether a name is that of a file of a binlog, and returns its number.
func FileNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "binlog.")
	if !ok || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// HasBinlog reports whether a directory has a binlog. A directory that does not exist has none.
func HasBinlog(dir string) (bool, error) {
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
		if n, ok := FileNumber(e.Name()); ok {
			path := filepath.Join(dir, e.Name())
			numbers[path], paths = n, append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
	return paths, nil
}

// Open reads the binlog of a directory. It calls reading, which may be nil, from time to time with
// the current file and the number of records so far. The error is ErrNone, ErrLocked, ErrVersion,
// or that of a file that cannot be read. Damaged files are no error, see Binlog.Damage.
func Open(dir string, reading func(file string, records int)) (*Binlog, error) {
	paths, err := list(dir)
	if err == nil && len(paths) == 0 {
		err = ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("reading the binlog in %s: %w", dir, err)
	}
	l := &Binlog{Files: len(paths), files: paths, alive: make(map[uint64]int), names: make(map[string]string)}
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
	l.finish()
	return l, nil
}

// Close releases the lock.
func (l *Binlog) Close() error {
	if l.lock == nil {
		return nil
	}
	return l.lock.Close()
}

// replay reads a file.
func (l *Binlog) replay(number int, reading func(string, int)) error {
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
		l.apply(number, e)
	})
	if damage != nil {
		damage.File = path
		l.LastID = max(l.LastID, damage.id) // a client may know it
		l.Damage = append(l.Damage, *damage)
	}
	return err
}

// apply applies a record.
func (l *Binlog) apply(file int, e *entry) {
	slot, known := l.alive[e.id]
	l.LastID = max(l.LastID, e.id)
	switch {
	case !known && e.name == nil:
		return // its job is gone, and so is the file that had it
	case e.state == deleted:
		l.remove(e.id)
	case !known:
		l.add(file, e)
	case e.name != nil && e.created != l.jobs[slot].created:
		l.addReusedID(file, e, slot)
	default:
		l.jobs[slot].update(file, e)
	}
}

// update sets the job to what a later record says.
func (k *liveJob) update(file int, e *entry) {
	size := k.body
	k.fields = e.fields
	if e.name == nil {
		k.body = size
		return
	}
	k.file, k.at = file, e.at
}

// addReusedID adds a job whose id another live job has. It cannot be a copy of that job, because a copy has
// the time at which its job was put. It happens when beanstalkd could not read a file to its end: it did not
// know the jobs after that point and used their ids again. The older job was never deleted; finish gives it
// a new id.
func (l *Binlog) addReusedID(file int, e *entry, slot int) {
	old := &l.jobs[slot]
	l.Damage = append(l.Damage, Damage{File: l.files[file], Offset: e.from, What: fmt.Sprintf(
		"the id %d was used again: beanstalkd must have lost the job with this id in %s, byte %d, which gets a new id", e.id, l.files[old.file], old.at)})
	l.reused = append(l.reused, slot)
	l.add(file, e)
}

// remove removes a job that was deleted.
func (l *Binlog) remove(id uint64) {
	slot, known := l.alive[id]
	if !known {
		return
	}
	delete(l.alive, id)
	l.jobs[slot] = liveJob{}
	l.free = append(l.free, slot)
}

// add adds a new job.
func (l *Binlog) add(file int, e *entry) {
	name, known := l.names[string(e.name)]
	if !known {
		name = string(e.name)
		l.names[name] = name
	}
	l.order++
	k := liveJob{fields: e.fields, tube: name, file: file, at: e.at, order: l.order}
	if n := len(l.free); n > 0 {
		slot := l.free[n-1]
		l.free = l.free[:n-1]
		l.jobs[slot], l.alive[e.id] = k, slot
		return
	}
	l.alive[e.id] = len(l.jobs)
	l.jobs = append(l.jobs, k)
}

// finish gives new ids to the jobs whose ids were used again, and sorts all jobs by their first records.
func (l *Binlog) finish() {
	for _, slot := range l.reused {
		l.LastID++
		l.jobs[slot].id = l.LastID
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(k liveJob) bool { return k.id == 0 })
	slices.SortFunc(l.jobs, func(a, b liveJob) int { return cmp.Compare(a.order, b.order) })
	l.alive, l.free, l.names = nil, nil, nil
}

// Len returns the number of jobs.
func (l *Binlog) Len() int { return len(l.jobs) }

// Bytes returns the number of bytes in all bodies.
func (l *Binlog) Bytes() (all int64) {
	for i := range l.jobs {
		all += int64(l.jobs[i].body) - crlf
	}
	return all
}

// Source returns a name for exactly these jobs in this order. It does not depend on the time.
func (l *Binlog) Source() string {
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

// Headers calls do with each job, without its body, in the order of their first records. It stops
// at the first error of do.
func (l *Binlog) Headers(do func(Job) error) error {
	for i := range l.jobs {
		if err := do(l.jobs[i].job()); err != nil {
			return err
		}
	}
	return nil
}

// Each is Headers with the bodies, for all jobs beginning with number from, counted from 0.
func (l *Binlog) Each(from int, do func(Job) error) error {
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

// job converts the job for callers.
func (k *liveJob) job() Job {
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
