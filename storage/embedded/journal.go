package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// journal records the changes of the machine. It writes them to the log in commits (commit.go),
// and writes what is in old segments of the log to the tables (checkpoint.go). It is the
// tube.Journal of the machine (changes.go).
//
// The fields from mu on are guarded by mu, which is the engine's lock.
type journal struct {
	dir         string
	log         *wal.Log
	tables      *tables.Tables
	lock        *directoryLock
	ownership   *ownership
	machine     *tube.Machine
	imports     map[string]tables.ImportMark // those of the engine
	tallies     *tallies                     // those of the engine
	saved       *jobCheckpoints              // those of the engine
	cold        *coldJobs                    // those of the engine
	slog        *slog.Logger
	fatal       func(error)
	syncFirst   bool   // a commit is synced before its onDurable batches end
	keep        int64  // bodies, in bytes, that stay in memory although they are on disk
	windowBytes int64  // bodies, in bytes, that are put in a window before it ends; negative: windows are not held back
	maxSize     uint64 // of a segment, for the stats page
	now         func() tube.Instant
	syncs       *telemetry.Histogram // how long batches waited for a sync

	ended        chan struct{}  // closed when the journal ends
	watcher      sync.WaitGroup // the goroutine that watches the directory
	committers   sync.WaitGroup // goroutines that commit what no caller commits
	checkpoints  chan *window   // has room for all windows that can exist
	checkpointer sync.WaitGroup // the goroutine that writes windows to the tables

	// Owned by the checkpointer:
	failures *failures
	gaveUp   bool                    // a window could not be written; the later ones depend on it
	kept     [tube.NumPeriods]uint64 // the first period whose tallies are kept

	mu             *sync.Mutex
	commits        *sync.Cond   // signals that handedOver, writing, syncing or ending has changed
	cond           *sync.Cond   // signals that behind, failing or ending has changed, or that filling is empty again
	filling        *commit      // receives the next changes
	writing        *commit      // is being written; nil: none is
	syncing        []*commit    // are written and will be durable soon, in order
	handedOver     bool         // writing waits for a committer
	spare          []*commit    // empty commits to use again
	durableID      uint64       // the puts of all ids up to this one are durable
	written        uint64       // entries so far
	window         *window      // receives the next changes
	held           *window      // the window before it, if it is not handed to the checkpointer yet
	segmentEndedAt tube.Instant // when a segment of the log last ended
	queued         []*window    // those that are not in the tables yet, of the ones before held
	behind         int          // windows that are not in the tables yet
	windowsDone    uint64       // windows that have become part of the tables
	failing        bool         // the last attempt to write the oldest of them failed
	unwritten      int64        // bytes of the bodies in commits that are not written yet
	roomMade       func()       // is called when unwritten or behind has shrunk
	guard          *guard
	ends           *endedJobs // of the engine
	bodyReads      bodyReads
	lastBackup     time.Time // when the last backup was made; zero: never
	closing        bool      // close waits until no commit is being written
	ending         bool
	frameLimit     int   // for tests: overrides maxFrame unless it is 0
	unwrittenAt    int64 // for tests: overrides maxUnwritten unless it is 0
}

// close commits all changes, ends the goroutines, and closes the files.
func (j *journal) close() error {
	j.commitAll()
	j.mu.Lock()
	j.ending = true
	close(j.ended)
	j.commits.Broadcast()
	j.cond.Broadcast()
	j.mu.Unlock()
	j.watcher.Wait()
	j.committers.Wait()
	close(j.checkpoints)
	j.checkpointer.Wait()
	if err := errors.Join(j.ownership.check(), j.log.Close(), j.tables.Close(), j.lock.Close()); err != nil {
		return fmt.Errorf("closing the journal in %s: %w", j.dir, err)
	}
	return nil
}

// file is what stats-job prints as the file with a job's record. The journal counts as one
// file. It can be called on nil.
func (j *journal) file() int {
	if j == nil {
		return 0
	}
	return 1
}

// figures are the journal's numbers on the stats page. beanstalkd calls records that were
// written to the tables migrated. It can be called on nil. The lock is held.
func (j *journal) figures() storage.Log {
	if j == nil {
		return storage.Log{}
	}
	oldest, current := j.log.Segments()
	return storage.Log{
		OldestIndex: oldest, CurrentIndex: current, MaxSize: j.maxSize,
		RecordsWritten: j.written, RecordsMigrated: j.tables.Migrated(),
		Refusing: j.guard.refusing(), LastBackup: j.lastBackup,
	}
}
