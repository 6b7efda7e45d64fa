package tables

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// DirName is the directory of Pebble's files, in the engine's directory.
const DirName = "tables"

// IsFile reports whether a name is that of a file of Pebble's that only its directory has.
func IsFile(name string) bool {
	for _, prefix := range []string{"marker.", "MANIFEST-", "OPTIONS-", "temporary."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

const (
	// memTableSize is how many bytes Pebble collects in memory before it writes a
	// file. Nearly all data comes to it in files, see Ingest.
	memTableSize = 1 << 20

	// cacheSize is how many bytes of its files Pebble keeps in memory.
	cacheSize = 32 << 20
)

// Options say where the tables are.
type Options struct {
	FS  vfs.FS
	Dir string // the engine's directory: the tables are in a directory in it
	Log *slog.Logger

	// OpenFiles is how many files of the tables are kept open at most, in so far as no more are read at the same time. 0 means
	// 1000.
	OpenFiles int

	// Fatal is called with the cause when the tables cannot go on. It must not return.
	Fatal func(error)
}

// LockDirectory locks a directory for this process, with a file in it.
func LockDirectory(fs vfs.FS, dir string) (io.Closer, error) { return pebble.LockDirectory(dir, fs) }

// Open opens the tables. It creates them if they do not exist.
func Open(o Options) (*Tables, error) {
	if err := wal.MakeDir(o.FS, o.FS.PathJoin(o.Dir, DirName)); err != nil {
		return nil, err
	}
	return open(&o, false)
}

// OpenReadOnly opens tables that must exist. It writes nothing, and nothing may be written: in
// contrast to Open it finds out that tables are damaged or missing. Open takes a damaged
// record of Pebble's manifest for the end of it, and a directory without the marker of a
// manifest for a new one, and then removes the files that it does not know.
func OpenReadOnly(o Options) (*Tables, error) { return open(&o, true) }

func open(o *Options, readOnly bool) (*Tables, error) {
	dir, err := wal.OpenDirectory(o.FS, o.FS.PathJoin(o.Dir, DirName))
	if err != nil {
		return nil, err
	}
	cache := pebble.NewCache(cacheSize)
	files := pebble.NewFileCache(1, cmp.Or(o.OpenFiles, 1000))
	defer files.Unref() // Pebble has a reference of its own
	db, err := openPebble(o, dir, cache, files, readOnly)
	if err != nil {
		cache.Unref()
		return nil, errors.Join(err, dir.Close())
	}
	return &Tables{fs: o.FS, parent: o.Dir, db: db, cache: cache, dir: dir, cold: make(map[tube.ColdQueue]ColdCount)}, nil
}

// ReadFirstSegment returns the FirstSegment of tables that must exist, see OpenReadOnly.
func ReadFirstSegment(o Options) (first uint64, err error) {
	t, err := OpenReadOnly(o)
	if err != nil {
		return 0, err
	}
	first, err = t.FirstSegment()
	return first, errors.Join(err, t.Close())
}

func openPebble(o *Options, dir *wal.Directory, cache *pebble.Cache, files *pebble.FileCache, readOnly bool) (*pebble.DB, error) {
	return pebble.Open(o.FS.PathJoin(o.Dir, DirName), &pebble.Options{
		FS: &checkedFS{o.FS, o.Fatal, dir}, Cache: cache, FileCache: files,
		ReadOnly: readOnly, ErrorIfNotExists: readOnly,
		DisableWAL:                  true,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      pebbleLog{o.Log, o.Fatal, o.Dir, new(telemetry.Throttle)},
		EventListener:               listener(o),
	})
}

// listener returns a listener for Pebble's errors in the background. Without one, Pebble
// ends the process when it finds a damaged file, and the jobs in all other files could not
// be reached.
func listener(o *Options) *pebble.EventListener {
	background, damage := errorLogger(o), errorLogger(o)
	return &pebble.EventListener{
		BackgroundError: background,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			damage(fmt.Errorf("%s is damaged: %w", i.Path, i.Details))
		},
	}
}

// errorLogger returns a function that logs errors in the background. Pebble tries again
// at once after such an error. The text of the error is logged, not the error itself:
// the error carries a stack, which a log handler would print.
func errorLogger(o *Options) func(error) {
	var limited telemetry.Throttle
	return func(err error) {
		limited.Error(o.Log, "the journal's tables cannot be read or written; trying again", "dir", o.Dir, "err", err.Error())
	}
}

// pebbleLog passes Pebble's log messages on.
type pebbleLog struct {
	log    *slog.Logger
	fatal  func(error)
	dir    string
	errors *telemetry.Throttle // limits how often errors are logged
}

func (l pebbleLog) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.errors.Error(l.log, fmt.Sprintf(format, args...), "from", "pebble", "dir", l.dir)
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	err := &pebbleError{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err.causes = append(err.causes, cause)
		}
	}
	l.fatal(fmt.Errorf("writing the tables in %s: %w", l.dir, err))
}

// pebbleError is the error with which Pebble ends.
type pebbleError struct {
	text   string
	causes []error
}

func (e *pebbleError) Error() string { return e.text }

func (e *pebbleError) Unwrap() []error { return e.causes }
