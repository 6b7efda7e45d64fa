package storage

import (
	"errors"
	"fmt"
	"sync"

	"redstalk/tube"
)

// Importer is a Store that takes over the jobs of another server as they are: their states,
// terms, counters, and the times at which they were put and are due. Operations of the kinds
// BeginImport and Import do that, in any order with those of others; Importing makes them.
//
// An import has a name, its source, which stands for exactly these jobs in this order. The
// store knows how many of them it has, and keeps that with them, at once and as safely. So an
// import that was interrupted, whatever by, goes on where it was, and one that was done is not
// done again.
//
// A store may be divided into parts. Each tube is in one, and each part counts by itself.
// Numbers are given out by each part; IDOf makes an id of one. With a single part they are the
// same.
type Importer interface {
	Store

	// Parts is into how many parts the store is divided.
	Parts() int

	// PartOf returns the part of a tube, from 0 on.
	PartOf(tube string) int

	// IDOf returns the id that a number of a part stands for.
	IDOf(part int, number uint64) uint64
}

// Import is what the operations of an import have.
type Import struct {
	Source string // up to 64 letters, digits and -
	Part   int

	// Least and Largest are for BeginImport, see there.
	Least, Largest uint64

	// From is how many jobs of this part come before Jobs, and Jobs are the next ones, at most
	// MaxImport.
	From uint64
	Jobs []ImportJob
}

// ImportJob is a job that is taken over. Its State is Ready, Delayed or Buried. The Rank of a
// delayed one is when it is due, which may have passed; of others it means nothing. It has
// no Facts.
type ImportJob struct {
	tube.Record
	Body []byte // kept, not copied
}

// ImportState is how far a part of the store has come with an import.
type ImportState struct {
	Offset uint64 // what is added to the number that a job had, to get the one that it has
	Done   uint64 // how many jobs are there
}

// MaxImport is how many jobs an Import has at most.
const MaxImport = 500

// maxImportBytes is from how many bytes of bodies on an Import has no more jobs.
const maxImportBytes = 512 << 10

// importsAtOnce is how many Imports are under way at a time.
const importsAtOnce = 8

// maxNumber is the largest id that there may be: many clients read ids as doubles.
const maxNumber = 1<<53 - 1

// ErrImportDisturbed: another process makes the same import at the same time.
var ErrImportDisturbed = errors.New("somebody else makes the same import")

// Importing is an import that was begun. Its methods are for one goroutine.
type Importing struct {
	store  Importer
	source string
	parts  []importPart
	now    func() tube.Instant
	room   chan struct{} // has one for each Import that is under way

	mu     sync.Mutex
	failed error // the first error of what was under way
}

// importPart is how far the import has come in a part.
type importPart struct {
	ImportState
	seen  uint64 // jobs that Add was given
	jobs  []ImportJob
	bytes int
}

// StartImport begins an import, or finds out how far it is. lastID is the largest id that the
// other server has given out: jobs keep their ids if the store has given out none, and is not
// divided; otherwise each gets another one, in the same order. Ids up to that of lastID are not
// given out again. now is the time by the clock of the other server.
func StartImport(s Importer, source string, lastID uint64, now func() tube.Instant) (*Importing, error) {
	im := &Importing{store: s, source: source, now: now, room: make(chan struct{}, importsAtOnce), parts: make([]importPart, s.Parts())}
	if err := im.ask(0, 0); err != nil {
		return nil, err
	}
	least := uint64(0)
	for i := range im.parts {
		least = max(least, im.parts[i].Offset)
	}
	if s.IDOf(len(im.parts)-1, least+max(lastID, 1)) > maxNumber || lastID > maxNumber {
		return nil, fmt.Errorf("the largest id is %d: ids would be too large", lastID)
	}
	return im, im.ask(least, max(lastID, 1))
}

// ask begins the import in every part, or with largest 0 asks how far it is.
func (im *Importing) ask(least, largest uint64) error {
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

// Done is how many jobs are there already, as an earlier process has imported them.
func (im *Importing) Done() (n uint64) {
	for i := range im.parts {
		n += im.parts[i].Done
	}
	return n
}

// KeepsIDs tells whether jobs have the ids that they had.
func (im *Importing) KeepsIDs() bool { return len(im.parts) == 1 && im.parts[0].Offset == 0 }

// IDOf returns the id of a job that had another one.
func (im *Importing) IDOf(tube string, old uint64) uint64 {
	part := im.store.PartOf(tube)
	return im.store.IDOf(part, old+im.parts[part].Offset)
}

// Add takes over a job, with the id that it had: soon, and at the latest at the next Flush. It
// does nothing with a job that is there already. The jobs of the source must come in their order,
// from the first one on. An error is one of any job so far.
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
	return im.submit(part)
}

// submit hands over what was collected for a part.
func (im *Importing) submit(part int) error {
	p := &im.parts[part]
	im.room <- struct{}{}
	if err := im.err(); err != nil || len(p.jobs) == 0 {
		<-im.room
		return err
	}
	want := p.seen
	b := &Batch{Ops: []Op{{Kind: ImportJobs, Args: &Args{Import: &Import{
		Source: im.source, Part: part, From: want - uint64(len(p.jobs)), Jobs: p.jobs,
	}}}}}
	p.jobs, p.bytes = nil, 0
	b.Done = func() {
		im.note(&b.Ops[0].Answer, want)
		<-im.room
	}
	im.store.Do(b)
	return nil
}

// note takes down what came of an Import, behind which there should be so many jobs.
func (im *Importing) note(a *Answer, want uint64) {
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

// Flush returns when all jobs are there that Add was given, as safely as the store promises.
func (im *Importing) Flush() error {
	for part := range im.parts {
		if err := im.submit(part); err != nil {
			break
		}
	}
	for range importsAtOnce {
		im.room <- struct{}{}
	}
	for range importsAtOnce {
		<-im.room
	}
	return im.err()
}
