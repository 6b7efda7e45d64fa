package embedded

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
)

// ErrGone is in the chain of an error when somebody has removed, renamed or
// replaced the directory or files in it that are in use.
var ErrGone = wal.ErrGone

// directory is one that is kept open, so that it can be told from another one
// that gets its name.
type directory struct {
	fs   vfs.FS
	path string
	file vfs.File
	info vfs.FileInfo
}

func openDirectory(fs vfs.FS, path string) (*directory, error) {
	file, err := fs.OpenDir(path)
	if err != nil {
		return nil, fmt.Errorf("opening the directory %s: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the directory %s: %w", path, err), file.Close())
	}
	return &directory{fs, path, file, info}, nil
}

// check fails with ErrGone if the path does not lead to the directory any more.
func (d *directory) check() error { return wal.LeadsTo(d.fs, d.path, d.info) }

// removed tells whether the directory exists no more, not even under another
// name.
func (d *directory) removed() bool {
	info, err := d.file.Stat()
	return err == nil && wal.Unlinked(info)
}

const (
	// ownEvery is how often it is checked at most, while there are changes,
	// that the directory is still the engine's: that takes a few microseconds.
	ownEvery = 10 * time.Millisecond

	// ownAnyway is how often that is checked though nothing changes.
	ownAnyway = 500 * time.Millisecond
)

// ownership is whether what is written would be found by the next Open: the
// directory, the current segment of the log and the tables are those that were
// opened.
type ownership struct {
	dir    *directory
	tables *directory
	log    *wal.Log
	clock  func() time.Time

	mu      sync.Mutex
	checked time.Time
	lost    error // ErrGone; that does not change any more
}

// check fails with ErrGone if the directory is not the engine's any more.
func (o *ownership) check() error { return o.checkedWithin(0) }

// lately is check, unless that was done a short while ago.
func (o *ownership) lately() error { return o.checkedWithin(ownEvery) }

func (o *ownership) checkedWithin(d time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock()
	if o.lost != nil || d > 0 && now.Sub(o.checked) < d {
		return o.lost
	}
	o.checked = now
	if o.lost = o.dir.check(); o.lost == nil {
		o.lost = o.log.Check()
	}
	if o.lost == nil {
		o.lost = o.tablesLost()
	}
	return o.lost
}

// tablesLost fails if the tables will not be there again. While they are only
// renamed they may be, and the log keeps what they lack.
func (o *ownership) tablesLost() error {
	err := o.tables.check()
	if errors.Is(err, wal.ErrReplaced) || err != nil && o.tables.removed() {
		return err
	}
	return nil
}

// watch looks now and then whether the directory is still the engine's, until
// the journal ends.
func (j *journal) watch() {
	ticker := time.NewTicker(ownAnyway)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			j.mustOwn()
		case <-j.ended:
			return
		}
	}
}

// mustOwn ends the process if the directory is not the engine's any more.
func (j *journal) mustOwn() {
	if err := j.own.check(); err != nil {
		j.fatal(err)
	}
}
