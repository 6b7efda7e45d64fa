package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

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

	fs    vfs.FS           // for tests; nil is the real one
	clock func() time.Time // for tests; nil is time.Now
}

const (
	// DefaultFileSize is that of beanstalkd's -s. A small file of the log is
	// soon used again rather than made anew, and syncs faster then.
	DefaultFileSize = 10 << 20

	minFileSize = 1 << 20
	maxFileSize = 512 << 20

	// DefaultKeepBodies is enough for a queue that is kept short.
	DefaultKeepBodies = 64 << 20

	// cacheSize is how much of the files Pebble keeps in memory, in bytes.
	cacheSize = 32 << 20

	// progressEvery is how often the operator is told that jobs are still
	// being read.
	progressEvery = time.Second
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
			log.Error("the journal cannot go on; what was acknowledged is on disk", "err", err)
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
	if err := j.load(e.now()); err != nil {
		j.abandon()
		return nil, fmt.Errorf("reading the journal in %s: %w", o.Dir, err)
	}
	e.journal = j
	e.machine.SetJournal(j)
	go j.run()
	return e, nil
}

func openJournal(o *Options, e *Engine) (*journal, error) {
	if err := o.fs.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := refuseForeign(o.fs, o.Dir); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(o.Dir, o.fs)
	if errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLocked, err)
	}
	j := &journal{
		lock: lock, fs: o.fs, dir: o.Dir, machine: e.machine, log: o.Log, keep: o.KeepBodies,
		maxSize: uint64(o.FileSize), mu: &e.mu, more: sync.NewCond(&e.mu), done: make(chan struct{}),
		guard: &guard{fs: o.fs, dir: o.Dir, reserve: o.Reserve, log: o.Log, clock: o.clock},
	}
	fs := o.fs
	if o.SyncEvery != 0 {
		j.lazy = newLazyFS(o.fs, o.SyncEvery, o.Fatal)
		fs = j.lazy
	}
	if j.db, err = openPebble(o, fs, lock); err != nil {
		lock.Close()
		return nil, err
	}
	j.filling = j.newGroup()
	return j, nil
}

func openPebble(o *Options, fs vfs.FS, lock *pebble.Lock) (*pebble.DB, error) {
	cache := pebble.NewCache(cacheSize)
	defer cache.Unref()
	return pebble.Open(o.Dir, &pebble.Options{
		FS: fs, Lock: lock, Cache: cache,
		MemTableSize:                uint64(o.FileSize),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      pebbleLog{o.Log, o.Fatal},
		EventListener: &pebble.EventListener{BackgroundError: func(err error) {
			o.Log.Error("the journal's files cannot be tidied up; trying again", "dir", o.Dir, "err", err)
		}},
	})
}

// pebbleLog passes on what Pebble says.
type pebbleLog struct {
	log   *slog.Logger
	fatal func(error)
}

func (l pebbleLog) Infof(format string, args ...any) {
	l.log.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.log.Error(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l pebbleLog) Fatalf(format string, args ...any) { l.fatal(fmt.Errorf(format, args...)) }

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

// abandon closes what was opened when the journal turned out to be unusable.
func (j *journal) abandon() {
	j.filling.records.Close()
	j.db.Close()
	if j.lazy != nil {
		j.lazy.stop()
	}
	j.lock.Close()
}

// load brings the machine back from the records.
func (j *journal) load(now tube.Instant) error {
	if err := j.checkLayout(); err != nil {
		return err
	}
	if err := j.loadJobs(now); err != nil {
		return err
	}
	if err := j.loadPauses(now); err != nil {
		return err
	}
	value, closer, err := j.db.Get([]byte{lastIDKey})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("reading the last id: %w", err)
	}
	defer closer.Close()
	if len(value) != 8 {
		return fmt.Errorf("reading the last id: it has %d bytes", len(value))
	}
	j.machine.SkipTo(binary.BigEndian.Uint64(value))
	return nil
}

// checkLayout marks a new journal and refuses one of another layout.
func (j *journal) checkLayout() error {
	value, closer, err := j.db.Get([]byte{layoutKey})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return j.db.Set([]byte{layoutKey}, []byte{layoutVersion}, pebble.Sync)
	case err != nil:
		return fmt.Errorf("reading the layout: %w", err)
	}
	defer closer.Close()
	if len(value) != 1 || value[0] != layoutVersion {
		return fmt.Errorf("its layout is %x, and this redstalk knows %d", value, layoutVersion)
	}
	return nil
}

func (j *journal) loadJobs(now tube.Instant) error {
	names := make(map[string]string) // one string for each tube
	intern := func(b []byte) string {
		if s, have := names[string(b)]; have {
			return s
		}
		s := string(b)
		names[s] = s
		return s
	}
	begun, told, n := time.Now(), time.Now(), 0
	err := j.each(jobKey, func(key, value []byte) error {
		r, err := decodeRecord(key, value, intern)
		if err != nil {
			return err
		}
		if n++; n%10_000 == 0 && time.Since(told) >= progressEvery {
			told = time.Now()
			j.log.Warn("reading the jobs; clients wait until that is done", "so far", n)
		}
		return j.machine.Restore(now, r)
	})
	if err == nil {
		j.log.Info("the jobs are read", "jobs", n, "took", time.Since(begun))
	}
	return err
}

func (j *journal) loadPauses(now tube.Instant) error {
	return j.each(pauseKey, func(key, value []byte) error {
		if len(value) != 12 {
			return fmt.Errorf("reading the pause of tube %q: it has %d bytes", key[1:], len(value))
		}
		seconds, until := binary.BigEndian.Uint32(value), tube.Instant(binary.BigEndian.Uint64(value[4:]))
		if j.machine.RestorePause(now, string(key[1:]), seconds, until) {
			return nil
		}
		return j.db.Delete(key, pebble.NoSync)
	})
}

// each calls do with every entry whose key begins with kind.
func (j *journal) each(kind byte, do func(key, value []byte) error) error {
	it, err := j.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kind}, UpperBound: []byte{kind + 1}})
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		err = do(it.Key(), it.Value())
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}
