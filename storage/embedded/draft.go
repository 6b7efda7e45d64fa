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

// draft is files that are to become part of the tables, all at once. They are
// written in the order of their keys and taken over as they are: that costs
// Pebble nothing, where it would write what it gets key by key to a file, and
// again when it merges that with others.
type draft struct {
	fs      vfs.FS
	options sstable.WriterOptions
	paths   [numParts]string
	parts   [numParts]*sstable.Writer // nil while there is nothing in it
	records uint64                    // so far
	now     []current                 // scratch
}

// part is the keys of one file of a draft. New jobs have files of their own:
// their keys are beyond all others', so that no file has to be merged with
// theirs; what is said of old jobs may be about any of them.
type part int

const (
	oldBodies part = iota
	newBodies
	changes
	oldJobs
	newJobs
	others // next id, pauses, next segment
	numParts
)

// draftName is what the files are called, by part.
const draftName = "new-%d.sst"

// syncTables is after how many bytes the operating system is told to begin to
// write them to the disk. If it got all of a large file at once, in the end, the
// syncs of the log would have to wait for that.
const syncTables = 512 << 10

// newDraft begins a draft, in place of what may be left of another.
func newDraft(fs vfs.FS, dir string, db *pebble.DB) *draft {
	var o pebble.Options
	o.EnsureDefaults()
	d := &draft{fs: fs, options: o.MakeWriterOptions(0, db.TableFormat())}
	for p := range d.paths {
		d.paths[p] = fs.PathJoin(dir, fmt.Sprintf(draftName, p))
	}
	return d
}

// set sets a key, whose part must have got none beyond it.
func (d *draft) set(p part, key, value []byte) error {
	w, err := d.part(p)
	if err != nil {
		return err
	}
	return w.Set(key, value)
}

// remove is set for a key that is to be gone.
func (d *draft) remove(p part, key []byte) error {
	w, err := d.part(p)
	if err != nil {
		return err
	}
	return w.Delete(key)
}

func (d *draft) part(p part) (*sstable.Writer, error) {
	if d.parts[p] == nil {
		f, err := d.fs.Create(d.paths[p], vfs.WriteCategoryUnspecified)
		if err != nil {
			return nil, fmt.Errorf("creating a table: %w", err)
		}
		f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: syncTables})
		d.parts[p] = sstable.NewWriter(objstorageprovider.NewFileWritable(f), d.options)
	}
	return d.parts[p], nil
}

// finish has the files on the disk and returns their paths.
func (d *draft) finish() (paths []string, err error) {
	for p, w := range d.parts {
		if w == nil {
			continue
		}
		d.parts[p] = nil
		paths = append(paths, d.paths[p])
		if e := w.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("writing %s: %w", d.paths[p], e))
		}
	}
	return paths, err
}

// takeOver makes the draft a part of the tables: all of it, or, if there is an
// error, nothing.
func (d *draft) takeOver(db *pebble.DB) error {
	paths, err := d.finish()
	if err != nil {
		return err
	}
	if err := db.Ingest(context.Background(), paths); err != nil {
		return fmt.Errorf("taking over tables: %w", err)
	}
	return nil
}

// drop removes what there is of the files.
func (d *draft) drop() {
	d.finish()
	for _, path := range d.paths {
		d.fs.Remove(path) // if it is there, and if not it is written anew later
	}
}
