package embedded

import (
	"cmp"
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/tube"
)

// Options say where and how the jobs are stored.
type Options struct {
	// Dir is the directory. It is created if it does not exist. Its files, existing ones
	// included, are made accessible to their owner only.
	Dir string

	// SyncEvery says when changes are synced to the disk: 0: before every reply; d > 0: within
	// d; < 0: never. See the package comment.
	SyncEvery time.Duration

	// FileSize is the approximate size of a segment of the log, in bytes. 0 means
	// DefaultFileSize.
	FileSize int64

	// Reserve is how many bytes of the disk stay free: a put that would use them is answered
	// with storage.ErrNoSpace. 0 means that free space is not checked.
	Reserve int64

	// KeepBodies is how many bytes of bodies stay in memory although they are in the tables. 0
	// means DefaultKeepBodies.
	KeepBodies int64

	// HistoryBytes is the bound of the records of ended jobs, in bytes, see tube.Ended.Bytes. 0 means
	// tube.DefaultHistoryBytes; negative: there are no records.
	HistoryBytes int64

	// NewStore says that a new store may be made in a directory that has other files in it.
	NewStore bool

	// OpenFiles is how many files of the tables are kept open. 0 means 1000.
	OpenFiles int

	// Log receives messages for the operator. Nil means slog.Default.
	Log *slog.Logger

	// Fatal is called with the cause when the engine cannot go on. It must not return. Nil logs
	// the cause and exits with code 1.
	Fatal func(error)

	restoring   bool             // Dir is not complete, see target
	segment     int64            // for tests: bytes; overrides FileSize unless it is 0
	spare       int64            // size of the spare file; 0 with a file system of tests: there is none
	coldAfter   time.Duration    // for tests: overrides the constant of that name unless it is 0
	mostReady   int              // likewise
	fewReady    int              // likewise
	restored    func(jobs int)   // for tests: is called with the jobs that were brought back, before any of them changes
	windowBytes int64            // for tests: overrides the constant of that name unless it is 0; negative: windows are not held back
	fs          vfs.FS           // for tests: nil is the real file system
	clock       func() time.Time // for tests: nil is time.Now
}

const (
	// DefaultFileSize is the default of beanstalkd's -s. A small segment is soon used again
	// instead of a new one, and syncing it is faster then.
	DefaultFileSize = 10 << 20

	minFileSize = 1 << 20
	maxFileSize = 512 << 20

	// DefaultKeepBodies is enough for a queue that stays short.
	DefaultKeepBodies = 64 << 20
)

func (o *Options) setDefaults() {
	o.FileSize = min(max(cmp.Or(o.FileSize, DefaultFileSize), minFileSize), maxFileSize)
	if o.segment > 0 {
		o.FileSize = o.segment
	}
	o.KeepBodies = cmp.Or(o.KeepBodies, DefaultKeepBodies)
	o.HistoryBytes = max(cmp.Or(o.HistoryBytes, tube.DefaultHistoryBytes), 0)
	o.windowBytes = cmp.Or(o.windowBytes, windowBytes)
	o.coldAfter = cmp.Or(o.coldAfter, coldAfter)
	o.mostReady, o.fewReady = cmp.Or(o.mostReady, mostReady), cmp.Or(o.fewReady, fewReady)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.fs == nil {
		o.fs, o.spare = ownerFS{vfs.Default}, spareBytes
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
