package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Ingest is a set of files of Pebble's format that become part of the tables all at once or
// not at all. Each file is written in the order of its keys, and Pebble takes it over as it
// is. Keys given to Pebble one by one would be written to a file first, and again whenever
// Pebble merges that file with others.
type Ingest struct {
	tables   *Tables
	options  sstable.WriterOptions
	paths    [numFiles]string
	writers  [numFiles]*sstable.Writer // nil: nothing was written to the file
	records  uint64                    // written so far
	index    indexChanges
	complete []string // paths of complete files
	yield    func()   // is called after each small piece of work

	key, value []byte // buffers
}

// ingestFile is one of the files. New jobs have files of their own: their keys are
// behind all others, so Pebble need not merge these files with others. What is
// written about old jobs can have any of their keys.
type ingestFile int

const (
	checkpoints ingestFile = iota
	tallies
	oldCold
	newCold
	oldBodies
	newBodies
	changes
	endedJobs
	oldJobs
	newJobs
	others // tombstones, groups, imports, last id, schedules, pauses, batches, policies, first segment
	index
	coldCounts
	numFiles
)

// The names of the files, by their numbers: of a window, and of records of ended jobs that are dropped without one, perhaps at the
// same time.
const (
	ingestName = "new-%d.sst"
	dropName   = "drop-%d.sst"
)

// syncIngest is how many bytes are written to a file before the operating system is
// told to start writing them to the disk. If it had to write all of a large file at
// the end, syncs of the log would have to wait for that.
const syncIngest = 512 << 10

// NewIngest begins the files. Each replaces a file that an earlier ingest may have left.
// yield is called after each small piece of work.
func (t *Tables) NewIngest(yield func()) *Ingest { return t.newIngest(ingestName, yield) }

func (t *Tables) newIngest(name string, yield func()) *Ingest {
	var o pebble.Options
	o.EnsureDefaults()
	in := &Ingest{tables: t, options: o.MakeWriterOptions(0, t.db.TableFormat()), yield: yield}
	for f := range in.paths {
		in.paths[f] = t.fs.PathJoin(t.parent, fmt.Sprintf(name, f))
	}
	return in
}

// RemoveIngestFiles removes the files that an earlier process may have left.
func (t *Tables) RemoveIngestFiles() {
	t.NewIngest(nil).Remove()
	t.newIngest(dropName, nil).Remove()
}

// set writes a key to a file. The keys of a file must come in ascending order.
func (in *Ingest) set(f ingestFile, key, value []byte) error {
	w, err := in.writer(f)
	if err != nil {
		return err
	}
	in.yield()
	return w.Set(key, value)
}

// delete is set for a key that is to be removed from the tables.
func (in *Ingest) delete(f ingestFile, key []byte) error {
	w, err := in.writer(f)
	if err != nil {
		return err
	}
	in.yield()
	return w.Delete(key)
}

// writer returns the writer of a file, which it creates the first time.
func (in *Ingest) writer(f ingestFile) (*sstable.Writer, error) {
	if in.writers[f] == nil {
		file, err := in.tables.fs.Create(in.paths[f], vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, fmt.Errorf("creating an ingest file: %w", err)
		}
		file = vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: syncIngest})
		in.writers[f] = sstable.NewWriter(objstorageprovider.NewFileWritable(file), in.options)
	}
	return in.writers[f], nil
}

// Finish completes the files. Commit does it, too, but takes longer then.
func (in *Ingest) Finish() error { return in.close() }

// Commit makes the files a part of the tables: all of them or, if there is an error,
// none.
func (in *Ingest) Commit() error {
	if err := in.close(); err != nil {
		return err
	}
	if err := in.tables.db.Ingest(context.Background(), in.complete); err != nil {
		return fmt.Errorf("ingesting files into the tables: %w", err)
	}
	in.tables.migrated.Add(in.records)
	in.tables.countCold(&in.index)
	return nil
}

// close completes the files that something was written to, and syncs them.
func (in *Ingest) close() (err error) {
	for f, w := range in.writers {
		if w == nil {
			continue
		}
		in.writers[f] = nil
		in.complete = append(in.complete, in.paths[f])
		if e := w.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("writing %s: %w", in.paths[f], e))
		}
	}
	return err
}

// Remove removes the files, if they exist. Errors do not matter: the next ingest
// replaces files that are left.
func (in *Ingest) Remove() {
	in.close()
	for _, path := range in.paths {
		in.tables.fs.Remove(path)
	}
}
