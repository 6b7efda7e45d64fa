package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/wal"
	"redstalk/tube"
)

// Options say where and how the jobs are kept.
type Options struct {
	// Dir is the directory, made if it is not there.
	Dir string

	// SyncEvery says when changes are synced to the disk: 0 before every
	// reply, d > 0 within d, < 0 never. See the package comment.
	SyncEvery time.Duration

	// FileSize is about how large a file of the log gets, in bytes; 0 means
	// DefaultFileSize.
	FileSize int64

	// Reserve is how many bytes of the disk stay free: below it put is
	// answered OUT_OF_MEMORY. 0 means that the disk is not watched.
	Reserve int64

	// KeepBodies is how many bytes of bodies stay in memory though they are
	// on disk; 0 means DefaultKeepBodies.
	KeepBodies int64

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger

	// Fatal is called when the engine cannot go on, with the cause. It must
	// not return; nil logs the cause and ends the process with code 1.
	Fatal func(error)

	segment int64            // for tests; bytes, instead of FileSize if it is not 0
	fs      vfs.FS           // for tests; nil is the real one
	clock   func() time.Time // for tests; nil is time.Now
}

const (
	// DefaultFileSize is that of beanstalkd's -s. A small file of the log is
	// soon used again rather than made anew, and syncs faster then.
	DefaultFileSize = 10 << 20

	minFileSize = 1 << 20
	maxFileSize = 512 << 20

	// DefaultKeepBodies is enough for a queue that is kept short.
	DefaultKeepBodies = 64 << 20

	// memTableSize is how much Pebble keeps in memory before it writes a table,
	// in bytes. Nearly all gets there as a table already, see draft.
	memTableSize = 1 << 20

	// cacheSize is how much of the files Pebble keeps in memory, in bytes.
	cacheSize = 32 << 20
)

// ErrLocked is in the chain of Open's error when another process has the
// directory.
var ErrLocked = errors.New("another process uses the directory")

func (o *Options) setDefaults() {
	if o.FileSize == 0 {
		o.FileSize = DefaultFileSize
	}
	o.FileSize = min(max(o.FileSize, minFileSize), maxFileSize)
	if o.KeepBodies == 0 {
		o.KeepBodies = DefaultKeepBodies
	}
	if o.segment > 0 {
		o.FileSize = o.segment
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
	if o.clock == nil {
		o.clock = time.Now
	}
	if o.Fatal == nil {
		log := o.Log
		o.Fatal = func(err error) {
			log.Error("the journal cannot go on", "err", err)
			os.Exit(1)
		}
	}
}

// Open opens the engine on a directory and brings back the jobs in it.
func Open(o Options) (*Engine, error) {
	o.setDefaults()
	e := newEngine(o.clock)
	j, err := openJournal(&o, e)
	if err != nil {
		return nil, fmt.Errorf("opening the journal in %s: %w", o.Dir, err)
	}
	e.journal = j
	e.machine.SetJournal(j)
	return e, nil
}

func openJournal(o *Options, e *Engine) (*journal, error) {
	if err := makeDir(o.fs, o.Dir); err != nil {
		return nil, err
	}
	if err := refuseForeign(o.fs, o.Dir); err != nil {
		return nil, err
	}
	lock, err := lockDirectory(o)
	if err != nil {
		return nil, err
	}
	j := &journal{
		lock: lock, own: &ownership{dir: lock.dir, clock: o.clock}, eager: o.SyncEvery == 0, fatal: o.Fatal, dir: o.Dir, machine: e.machine, slog: o.Log,
		keep: o.KeepBodies, maxSize: uint64(o.FileSize),
		mu: &e.mu, more: sync.NewCond(&e.mu), room: sync.NewCond(&e.mu),
		window: newWindow(0), checkpoints: make(chan *window, maxWindows),
		ended: make(chan struct{}), trouble: &trouble{log: o.Log, dir: o.Dir},
		roomMade: e.roomMade, reads: reads{log: o.Log, clock: o.clock},
		guard: &guard{fs: o.fs, dir: o.Dir, reserve: o.Reserve, log: o.Log, clock: o.clock},
	}
	j.guard.stuck = j.stuck
	if err := j.open(o, e.now()); err != nil {
		lock.Close()
		return nil, err
	}
	return j, nil
}

// directoryLock is the two locks on the engine's directory: on itself, and on a
// file in it, which older programs look at, and which holds where the other one
// is not known.
type directoryLock struct {
	dir  *directory
	file *pebble.Lock
}

func lockDirectory(o *Options) (*directoryLock, error) {
	dir, err := openDirectory(o.fs, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := dir.lock(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrLocked, err), dir.file.Close())
	}
	file, err := pebble.LockDirectory(o.Dir, o.fs)
	if err == nil {
		return &directoryLock{dir, file}, nil
	}
	if !errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return nil, errors.Join(err, dir.file.Close())
}

// Close gives the directory to whoever wants it.
func (l *directoryLock) Close() error { return errors.Join(l.file.Close(), l.dir.file.Close()) }

// open opens tables and log, brings back what is in them, and begins to work.
func (j *journal) open(o *Options, now tube.Instant) error {
	db, dir, err := openTables(o)
	if err != nil {
		return fmt.Errorf("opening the tables: %w", err)
	}
	j.tables = &tables{fs: o.fs, db: db, dir: dir}
	first, err := j.tables.checkLayout()
	if err != nil {
		return errors.Join(fmt.Errorf("reading the tables: %w", err), j.tables.close())
	}
	later := newHistory(make(interner))
	if j.log, err = openLog(o, first, later.replay); err != nil {
		return errors.Join(err, j.tables.close())
	}
	j.own.tables, j.own.log = dir, j.log
	j.filling = j.newGroup()
	if first == 0 {
		err = j.tables.mark()
	}
	if err == nil {
		err = j.load(later, now)
	}
	if err != nil {
		j.log.Abandon()
		return errors.Join(fmt.Errorf("reading the tables: %w", err), j.tables.close())
	}
	j.begin(o)
	return nil
}

func openLog(o *Options, first uint64, replay func([]byte) error) (*wal.Log, error) {
	every := o.SyncEvery
	if every == 0 {
		every = lateSync
	}
	return wal.Open(wal.Options{
		FS: o.fs, Dir: o.Dir, Size: o.FileSize, SyncEvery: every, Never: o.SyncEvery < 0, Log: o.Log, Fatal: o.Fatal,
	}, first, replay)
}

func (j *journal) load(later *history, now tube.Instant) error {
	lastID, err := j.tables.number(lastIDKey)
	if err != nil {
		return err
	}
	j.machine.SkipTo(lastID)
	l := &loader{
		tables: j.tables, machine: j.machine, now: now, log: j.slog, later: later, window: j.window, keep: j.keep,
	}
	if err := l.load(); err != nil {
		return err
	}
	for _, name := range l.over {
		j.Paused(name, 0, 0) // or it would come back if the log is replayed once more
	}
	return nil
}

// begin starts the journal's goroutines, and has the tables catch up with the
// log that was replayed.
func (j *journal) begin(o *Options) {
	j.durable = j.machine.LastID()
	j.window.base, j.window.last = j.durable, j.durable
	newDraft(o.fs, o.Dir, j.tables.db).drop() // the process may have ended over one
	j.follower.Add(1)
	go j.follow()
	j.checkpoint.Add(1)
	go j.writeWindows()
	go j.watch()
	if oldest, current := j.log.Segments(); oldest < current {
		j.mu.Lock()
		j.endWindow(current - 1)
		j.mu.Unlock()
	}
}

// tablesDir is where Pebble's files are, in the engine's directory.
const tablesDir = "tables"

// lookAtTables refuses tables that lack something which the log does not have
// any more. Pebble would not: it takes a damaged record of its manifest for the
// end of it, and a directory without the marker of one for new, and removes the
// files that are unknown to it then. So they are opened to be read first.
func lookAtTables(o *Options) error {
	numbers, err := wal.Numbers(o.fs, o.Dir)
	if err != nil {
		return err
	}
	oldest := oldestOf(numbers)
	if oldest <= 1 {
		return nil // there is nothing, or all of it is in the log
	}
	db, err := pebble.Open(o.fs.PathJoin(o.Dir, tablesDir), &pebble.Options{
		FS: o.fs, ReadOnly: true, ErrorIfNotExists: true, FormatMajorVersion: pebble.FormatNewest,
		Logger: pebbleLog{o.Log, o.Fatal, o.Dir, new(seldom)}, EventListener: listener(o),
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

// oldestOf returns the segment from which on none is missing; 0 if there is no
// log. One before it may be left to be used again.
func oldestOf(numbers []uint64) uint64 {
	if len(numbers) == 0 {
		return 0
	}
	i := len(numbers) - 1
	for i > 0 && numbers[i-1] == numbers[i]-1 {
		i--
	}
	return numbers[i]
}

// openTables opens the tables and their directory, and makes them if there are
// none.
func openTables(o *Options) (*pebble.DB, *directory, error) {
	if err := lookAtTables(o); err != nil {
		return nil, nil, err
	}
	path := o.fs.PathJoin(o.Dir, tablesDir)
	if err := makeDir(o.fs, path); err != nil {
		return nil, nil, err
	}
	dir, err := openDirectory(o.fs, path)
	if err != nil {
		return nil, nil, err
	}
	db, err := openPebble(o, dir)
	if err != nil {
		return nil, nil, errors.Join(err, dir.file.Close())
	}
	return db, dir, nil
}

func openPebble(o *Options, dir *directory) (*pebble.DB, error) {
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	return pebble.Open(o.fs.PathJoin(o.Dir, tablesDir), &pebble.Options{
		FS: &tablesFS{o.fs, o.Fatal, dir}, Cache: cache,
		DisableWAL:                  true,
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      pebbleLog{o.Log, o.Fatal, o.Dir, new(seldom)},
		EventListener:               listener(o),
	})
}

// listener hears from Pebble what goes wrong in the background. By default it
// ends the process where it finds a damaged file: then the jobs in all others
// could not be had any more.
func listener(o *Options) *pebble.EventListener {
	background, damage := complaint(o), complaint(o)
	return &pebble.EventListener{
		BackgroundError: background,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			damage(fmt.Errorf("%s is damaged: %w", i.Path, i.Details))
		},
	}
}

// complaint tells the operator of errors in the background, which Pebble meets
// with trying again at once. Their texts are put in words here because they
// carry the stack, which a log handler would print.
func complaint(o *Options) func(error) {
	var limit seldom
	return func(err error) {
		if limit.now() {
			o.Log.Error("the journal's tables cannot be read or written; trying again", "dir", o.Dir, "err", err.Error())
		}
	}
}

// pebbleLog passes on what Pebble says.
type pebbleLog struct {
	log   *slog.Logger
	fatal func(error)
	dir   string
	limit *seldom
}

func (l pebbleLog) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l pebbleLog) Errorf(format string, args ...any) {
	if l.limit.now() {
		l.log.Error(fmt.Sprintf(format, args...), "from", "pebble", "dir", l.dir)
	}
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	err := &pebbleError{text: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if cause, is := a.(error); is {
			err.causes = append(err.causes, cause)
		}
	}
	l.fatal(fmt.Errorf("writing the tables in %s: %w", l.dir, err))
}

// pebbleError is what Pebble ends with.
type pebbleError struct {
	text   string
	causes []error
}

func (e *pebbleError) Error() string { return e.text }

func (e *pebbleError) Unwrap() []error { return e.causes }

// makeDir makes a directory and those above it, and syncs what it has made, so
// that a power cut does not take all jobs away with the directory.
func makeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syncDir(fs, parent)
}

// refuseForeign tells a directory with a binlog of beanstalkd, which we cannot
// read and whose jobs would seem to be lost.
func refuseForeign(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if number, is := strings.CutPrefix(name, "binlog."); is && strings.Trim(number, "0123456789") == "" {
			return fmt.Errorf("there is a binlog of beanstalkd (%s), which redstalk cannot read: let beanstalkd finish its jobs, or choose another directory", name)
		}
	}
	return nil
}
