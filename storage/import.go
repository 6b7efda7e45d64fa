package storage

import (
	"errors"
	"fmt"
	"sync"

	"redstalk/tube"
)

// Importer is a Store that can import the jobs of another server unchanged: with their states,
// terms and counters, and the times at which they were put and are due. The operations
// BeginImport and ImportJobs do that, in any order with other operations; Importing issues them.
//
// An import has a name, its source, which stands for exactly these jobs in this order. The
// store records how many of them it has, atomically with the jobs and as durably. So an import
// that was interrupted for any reason resumes where it stopped, and a finished one is not
// repeated.
//
// A store can be divided into parts. Each tube is in one part, and each part numbers its jobs
// on its own; IDOf turns the number of a part into an id. With a single part they are equal.
type Importer interface {
	Store

	// Parts returns the number of parts of the store.
	Parts() int

	// PartOf returns the part of a tube, counted from 0.
	PartOf(tube string) int

	// IDOf returns the id that a number of a part stands for.
	IDOf(part int, number uint64) uint64
}

// Import has the arguments of the operations of an import.
type Import struct {
	Source string // up to 64 letters, digits and -
	Part   int

	// Least and Largest are for BeginImport, see there.
	Least, Largest uint64

	// From is how many jobs of this part come before Jobs. Jobs are the next ones, at most
	// MaxImport.
	From uint64
	Jobs []ImportJob
}

// ImportJob is a job to be imported. Its State is Ready, Delayed or Buried. The Rank of a
// delayed job is when it is due, which may have passed; the Rank of others is ignored. It has
// no Metadata.
type ImportJob struct {
	tube.Record
	Body []byte // kept, not copied
}

// ImportState is the progress of an import in a part of the store.
type ImportState struct {
	Offset uint64 // what is added to the old number of a job to get its new one
	Done   uint64 // how many jobs have been imported
}

// MaxImport is the largest number of jobs in an Import.
const MaxImport = 500

// maxImportBytes is the number of bytes of bodies from which on an Import gets no more jobs.
const maxImportBytes = 512 << 10

// importsAtOnce is how many Imports are under way at a time.
const importsAtOnce = 8

// maxNumber is the largest id that is allowed: many clients read ids as doubles.
const maxNumber = 1<<53 - 1

// ErrImportDisturbed means that another process makes the same import at the same time.
var ErrImportDisturbed = errors.New("another process makes the same import")

// Importing is an import in progress. Its methods are for one goroutine.
type Importing struct {
	store  Importer
	source string
	parts  []importPart
	now    func() tube.Instant
	slots  chan struct{} // has an element for each Import that is under way

	mu     sync.Mutex
	failed error // the first error of an Import
}

// importPart is the progress of the import in a part.
type importPart struct {
	ImportState
	seen  uint64 // jobs passed to Add
	jobs  []ImportJob
	bytes int
}

// StartImport begins an import, or reads how far it is. lastID is the largest id that the other
// server has used. Jobs keep their ids if the store has used none and is not divided; otherwise
// each job gets a new id, in the same order. The ids up to that of lastID are not used again.
// now is the time by the clock of the other server.
func StartImport(s Importer, source string, lastID uint64, now func() tube.Instant) (*Importing, error) {
	im := &Importing{store: s, source: source, now: now, slots: make(chan struct{}, importsAtOnce), parts: make([]importPart, s.Parts())}
	if err := im.begin(0, 0); err != nil {
		return nil, err
	}
	least := uint64(0)
	for i := range im.parts {
		least = max(least, im.parts[i].Offset)
	}
	if s.IDOf(len(im.parts)-1, least+max(lastID, 1)) > maxNumber || lastID > maxNumber {
		return nil, fmt.Errorf("the largest id is %d: ids would be too large", lastID)
	}
	return im, im.begin(least, max(lastID, 1))
}

// begin begins the import in every part. If largest is 0 it only reads the progress.
func (im *Importing) begin(least, largest uint64) error {
	ops := make([]Op, len(im.parts))
	for i := range ops {
		ops[i] = Op{Kind: BeginImport, Args: &Args{Import: &Import{Source: im.source, Part: i, Least: least, Largest: largest}}}
	}
	DoWait(im.store, ops)
	for i := range ops {
		if err := ops[i].Answer.Err; err != nil {
			return fmt.Errorf("beginning the import: %w", err)
		}
		im.parts[i].ImportState = *ops[i].Answer.Result.Import
	}
	return nil
}

// Done returns how many jobs an earlier process has imported already.
func (im *Importing) Done() (n uint64) {
	for i := range im.parts {
		n += im.parts[i].Done
	}
	return n
}

// KeepsIDs reports whether the jobs keep their ids.
func (im *Importing) KeepsIDs() bool { return len(im.parts) == 1 && im.parts[0].Offset == 0 }

// IDOf returns the new id of a job.
func (im *Importing) IDOf(tube string, old uint64) uint64 {
	part := im.store.PartOf(tube)
	return im.store.IDOf(part, old+im.parts[part].Offset)
}

// Add imports a job, given with its old id: soon, and at the latest at the next Flush. It
// ignores a job that was imported already. The jobs of the source must come in their order,
// beginning with the first one. The error can be that of any job so far.
func (im *Importing) Add(j ImportJob) error {
	part := im.store.PartOf(j.Tube)
	p := &im.parts[part]
	if p.seen++; p.seen <= p.Done {
		return nil
	}
	j.ID = im.store.IDOf(part, j.ID+p.Offset)
	j.Size = uint32(len(j.Body))
	if j.State == tube.Delayed && tube.Instant(j.Rank) <= im.now() {
		j.State = tube.Ready
	}
	p.jobs, p.bytes = append(p.jobs, j), p.bytes+len(j.Body)
	if len(p.jobs) < MaxImport && p.bytes < maxImportBytes {
		return nil
	}
	return im.submitPart(part)
}

// submitPart submits the jobs collected for a part.
func (im *Importing) submitPart(part int) error {
	p := &im.parts[part]
	im.slots <- struct{}{}
	if err := im.err(); err != nil || len(p.jobs) == 0 {
		<-im.slots
		return err
	}
	want := p.seen
	b := &Batch{Ops: []Op{{Kind: ImportJobs, Args: &Args{Import: &Import{
		Source: im.source, Part: part, From: want - uint64(len(p.jobs)), Jobs: p.jobs,
	}}}}}
	p.jobs, p.bytes = nil, 0
	b.Done = func() {
		im.finish(&b.Ops[0].Answer, want)
		<-im.slots
	}
	im.store.Do(b)
	return nil
}

// finish records the result of an Import, after which the part should have want jobs.
func (im *Importing) finish(a *Answer, want uint64) {
	err := a.Err
	if err == nil && a.Result.Import.Done != want {
		err = ErrImportDisturbed
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.failed == nil && err != nil {
		im.failed = fmt.Errorf("importing jobs: %w", err)
	}
}

func (im *Importing) err() error {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.failed
}

// Flush returns when all jobs passed to Add are imported, as durably as the store promises.
func (im *Importing) Flush() error {
	for part := range im.parts {
		if err := im.submitPart(part); err != nil {
			break
		}
	}
	for range importsAtOnce {
		im.slots <- struct{}{}
	}
	for range importsAtOnce {
		<-im.slots
	}
	return im.err()
}
