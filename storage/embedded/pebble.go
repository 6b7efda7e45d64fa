package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"redstalk/storage/embedded/wal"
	"redstalk/storage/telemetry"
)

// tablesDir is the directory of Pebble's files, in the engine's directory.
const tablesDir = "tables"

const (
	// memTableSize is how many bytes Pebble collects in memory before it writes a
	// table. Nearly all comes to it as a table already, see ingest.
	memTableSize = 1 << 20

	// cacheSize is how many bytes of its files Pebble keeps in memory.
	cacheSize = 32 << 20
)

// openTables opens the tables. It makes them if there are none.
func openTables(o *Options) (*tables, error) {
	if err := checkTables(o); err != nil {
		return nil, err
	}
	path := o.fs.PathJoin(o.Dir, tablesDir)
	if err := makeDir(o.fs, path); err != nil {
		return nil, err
	}
	dir, err := openDirectory(o.fs, path)
	if err != nil {
		return nil, err
	}
	cache := pebble.NewCache(cacheSize)
	db, err := openPebble(o, dir, cache)
	if err != nil {
		cache.Unref()
		return nil, errors.Join(err, dir.file.Close())
	}
	return &tables{fs: o.fs, db: db, cache: cache, dir: dir}, nil
}

// checkTables refuses tables that lack something which is not in the log any more.
// Pebble would not refuse them: it takes a damaged record of its manifest for the end
// of it, and a directory without the marker of a manifest for a new one, and then
// removes the files that it does not know. So the tables are opened for reading first.
func checkTables(o *Options) error {
	numbers, err := wal.Numbers(o.fs, o.Dir)
	if err != nil {
		return err
	}
	oldest := unbrokenFrom(numbers)
	if oldest <= 1 {
		return nil // there are no tables, or the log has all that is in them
	}
	db, err := pebble.Open(o.fs.PathJoin(o.Dir, tablesDir), &pebble.Options{
		FS: o.fs, ReadOnly: true, ErrorIfNotExists: true, FormatMajorVersion: pebble.FormatNewest,
		Logger: pebbleLog{o.Log, o.Fatal, o.Dir, new(telemetry.Log)}, EventListener: listener(o),
	})
	if err != nil {
		return err
	}
	first, err := (&tables{db: db}).checkLayout()
	if err == nil && first < oldest {
		missing := max(first, 1)
		for slices.Contains(numbers, missing) {
			missing++
		}
		err = fmt.Errorf("%w: %s/log.%d is missing", wal.ErrDamaged, o.Dir, missing)
	}
	return errors.Join(err, db.Close())
}

// unbrokenFrom returns the number from which on no segment is missing; 0 if there is no
// segment. There may be a segment before a gap, which is kept to be used again.
func unbrokenFrom(numbers []uint64) uint64 {
	if len(numbers) == 0 {
		return 0
	}
	i := len(numbers) - 1
	for i > 0 && numbers[i-1] == numbers[i]-1 {
		i--
	}
	return numbers[i]
}

func openPebble(o *Options, dir *directory, cache *pebble.Cache) (*pebble.DB, error) {
	return pebble.Open(o.fs.PathJoin(o.Dir, tablesDir), &pebble.Options{
		FS: &tablesFS{o.fs, o.Fatal, dir}, Cache: cache,
		DisableWAL:                  true,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      pebbleLog{o.Log, o.Fatal, o.Dir, new(telemetry.Log)},
		EventListener:               listener(o),
	})
}

// listener gets from Pebble what goes wrong in the background. Without one, Pebble ends
// the process when it finds a damaged file, and the jobs in all other files would be
// out of reach.
func listener(o *Options) *pebble.EventListener {
	background, damage := complaint(o), complaint(o)
	return &pebble.EventListener{
		BackgroundError: background,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			damage(fmt.Errorf("%s is damaged: %w", i.Path, i.Details))
		},
	}
}

// complaint returns a function that logs errors in the background. Pebble tries again
// at once after such an error. The text of the error is logged, not the error itself:
// that carries a stack, which a log handler would print.
func complaint(o *Options) func(error) {
	var said telemetry.Log
	return func(err error) {
		said.Error(o.Log, "the journal's tables cannot be read or written; trying again", "dir", o.Dir, "err", err.Error())
	}
}

// pebbleLog passes on what Pebble logs.
type pebbleLog struct {
	log   *slog.Logger
	fatal func(error)
	dir   string
	said  *telemetry.Log // errors
}

func (l pebbleLog) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.said.Error(l.log, fmt.Sprintf(format, args...), "from", "pebble", "dir", l.dir)
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
