package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ingest is files of Pebble's format that become part of the tables, all at once or
// not at all. Keys are written in their order, and Pebble takes the files as they
// are. Keys that are given to Pebble one by one are written to a file first, and
// again whenever Pebble merges that with others.
type ingest struct {
	fs      vfs.FS
	options sstable.WriterOptions
	paths   [numFiles]string
	writers [numFiles]*sstable.Writer // nil: nothing was written to the file
	records uint64                    // written so far

	breather breather // of the one goroutine that writes them
}

// ingestFile is one of the files. New jobs have files of their own: their keys are
// behind all others, so Pebble need not merge these files with others. What is
// written about old jobs may be about any of them.
type ingestFile int

const (
	oldBodies ingestFile = iota
	newBodies
	changes
	oldJobs
	newJobs
	others // kept keys, imports, next id, pauses, policies, next segment
	numFiles
)

// ingestName is the name of a file, by its number.
const ingestName = "new-%d.sst"

// syncIngest is how many bytes are written to a file before the operating system is
// told to begin to write them to the disk. If it had to write all of a large file in
// the end, syncs of the log would have to wait for that.
const syncIngest = 512 << 10

// newIngest begins the files. Each replaces what an earlier ingest may have left.
func newIngest(fs vfs.FS, dir string, db *pebble.DB) *ingest {
	var o pebble.Options
	o.EnsureDefaults()
	in := &ingest{fs: fs, options: o.MakeWriterOptions(0, db.TableFormat())}
	for f := range in.paths {
		in.paths[f] = fs.PathJoin(dir, fmt.Sprintf(ingestName, f))
	}
	return in
}

// set writes a key to a file. The keys of a file must come in their order.
func (in *ingest) set(f ingestFile, key, value []byte) error {
	w, err := in.writer(f)
	if err != nil {
		return err
	}
	in.breather.work()
	return w.Set(key, value)
}

// delete is set for a key that the tables must not have any more.
func (in *ingest) delete(f ingestFile, key []byte) error {
	w, err := in.writer(f)
	if err != nil {
		return err
	}
	in.breather.work()
	return w.Delete(key)
}

// writer returns the writer of a file, which it creates the first time.
func (in *ingest) writer(f ingestFile) (*sstable.Writer, error) {
	if in.writers[f] == nil {
		file, err := in.fs.Create(in.paths[f], vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, fmt.Errorf("creating an ingest file: %w", err)
		}
		file = vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: syncIngest})
		in.writers[f] = sstable.NewWriter(objstorageprovider.NewFileWritable(file), in.options)
	}
	return in.writers[f], nil
}

// into makes the files a part of the tables: all of them, or, if there is an error,
// none.
func (in *ingest) into(db *pebble.DB) error {
	paths, err := in.close()
	if err != nil {
		return err
	}
	if err := db.Ingest(context.Background(), paths); err != nil {
		return fmt.Errorf("ingesting files into the tables: %w", err)
	}
	return nil
}

// close completes the files that something was written to, syncs them, and returns
// their paths.
func (in *ingest) close() (paths []string, err error) {
	for f, w := range in.writers {
		if w == nil {
			continue
		}
		in.writers[f] = nil
		paths = append(paths, in.paths[f])
		if e := w.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("writing %s: %w", in.paths[f], e))
		}
	}
	return paths, err
}

// remove removes the files, if they are there. Errors do not matter: the next ingest
// replaces what is left.
func (in *ingest) remove() {
	in.close()
	for _, path := range in.paths {
		in.fs.Remove(path)
	}
}
