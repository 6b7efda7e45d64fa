package embedded

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/tube"
)

// journal writes what the machine says has changed, in groups: one is being
// committed while the next one fills. All fields behind mu are guarded by the
// engine's lock, which mu is.
type journal struct {
	db      *pebble.DB
	lock    *pebble.Lock
	fs      vfs.FS
	lazy    *lazyFS // nil if every commit is synced at once
	dir     string
	guard   *guard
	machine *tube.Machine
	log     *slog.Logger
	keep    int64 // bytes of bodies to keep in memory at most
	maxSize uint64

	mu         *sync.Mutex
	more       *sync.Cond // filling or ending has changed
	filling    *group
	committing *group   // nil if none is
	spare      []*group // to fill next
	written    uint64   // records so far
	ending     bool
	idle       bool // run waits for more
	done       chan struct{}

	key, value []byte // scratch
}

// group is changes that are committed together.
type group struct {
	records *pebble.Batch
	waiters []*storage.Batch // done when it is committed
	shed    []uint64         // jobs whose bodies need not stay in memory then
	lastID  bool             // ids were given out
}

func (g *group) empty() bool { return g.records.Empty() }

func (j *journal) newGroup() *group {
	if n := len(j.spare); n > 0 {
		g := j.spare[n-1]
		j.spare = j.spare[:n-1]
		return g
	}
	return &group{records: j.db.NewBatch()}
}

// Put implements tube.Journal.
func (j *journal) Put(r tube.Record, body []byte) {
	j.write(&r)
	j.filling.lastID = true
	if len(body) == 0 {
		return
	}
	j.key = idKey(j.key[:0], bodyKey, r.ID)
	j.set(j.key, body)
	if r.State != tube.Ready || j.machine.BodyBytes() > j.keep {
		j.filling.shed = append(j.filling.shed, r.ID)
	}
}

// Changed implements tube.Journal.
func (j *journal) Changed(r tube.Record) { j.write(&r) }

func (j *journal) write(r *tube.Record) {
	j.key = idKey(j.key[:0], jobKey, r.ID)
	j.value = encodeRecord(j.value[:0], r)
	j.set(j.key, j.value)
}

// Deleted implements tube.Journal. A body is written once and so can be
// deleted by the cheaper way.
func (j *journal) Deleted(id uint64) {
	j.key = idKey(j.key[:0], jobKey, id)
	j.check(j.filling.records.Delete(j.key, nil))
	j.key[0] = bodyKey
	j.check(j.filling.records.SingleDelete(j.key, nil))
	j.written++
}

// Paused implements tube.Journal.
func (j *journal) Paused(name string, seconds uint32, until tube.Instant) {
	j.key = append(append(j.key[:0], pauseKey), name...)
	if until == 0 {
		j.check(j.filling.records.Delete(j.key, nil))
		return
	}
	j.value = binary.BigEndian.AppendUint32(j.value[:0], seconds)
	j.value = binary.BigEndian.AppendUint64(j.value, uint64(until))
	j.set(j.key, j.value)
}

func (j *journal) set(key, value []byte) {
	j.check(j.filling.records.Set(key, value, nil))
	j.written++
}

// check is for errors that a batch in memory cannot have.
func (j *journal) check(err error) {
	if err != nil {
		panic(fmt.Errorf("adding to a group: %w", err))
	}
}

// await has the batches done when everything that is not yet committed is;
// false if that is nothing. The lock is held.
func (j *journal) await(batches []*storage.Batch) bool {
	switch {
	case !j.filling.empty():
		j.filling.waiters = append(j.filling.waiters, batches...)
		if j.idle {
			j.idle = false
			j.more.Signal()
		}
	case j.committing != nil:
		j.committing.waiters = append(j.committing.waiters, batches...)
	default:
		return false
	}
	return true
}

// run commits groups until the journal ends. While the disk syncs one group,
// the batches that waited for the one before are ended; and the next one has
// begun to be synced before that is done for this one.
func (j *journal) run() {
	defer close(j.done)
	for g := j.next(true); g != nil; {
		// An error of writing or syncing does not come back from here: it
		// ends in the logger's Fatalf.
		if err := g.records.SyncWait(); err != nil {
			panic(fmt.Errorf("committing a group: %w", err))
		}
		waiters := j.settle(g)
		following := j.next(false)
		for _, b := range waiters {
			b.Done()
		}
		clear(waiters)
		g.waiters = waiters[:0]
		j.recycle(g)
		if g = following; g == nil {
			g = j.next(true)
		}
	}
}

// next begins to commit the group that is being filled, and has another one
// fill. If there is nothing to commit it returns nil, or waits for something
// and returns nil only when the journal ends.
func (j *journal) next(wait bool) *group {
	g := j.take(wait)
	if g == nil {
		return nil
	}
	if err := j.db.ApplyNoSyncWait(g.records, pebble.Sync); err != nil {
		panic(fmt.Errorf("committing a group: %w", err))
	}
	return g
}

func (j *journal) take(wait bool) *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	for wait && j.filling.empty() && !j.ending {
		j.idle = true
		j.more.Wait()
	}
	g := j.filling
	if g.empty() {
		return nil
	}
	if g.lastID {
		value := binary.BigEndian.AppendUint64(nil, j.machine.LastID())
		j.check(g.records.Set([]byte{lastIDKey}, value, nil))
	}
	j.committing, j.filling = g, j.newGroup()
	return g
}

// settle notes that g is committed and returns who has waited for it.
func (j *journal) settle(g *group) []*storage.Batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.committing = nil
	for _, id := range g.shed {
		if job := j.machine.Find(id); job != nil {
			j.machine.DropBody(job)
		}
	}
	return g.waiters
}

// recycle makes g ready to be filled again.
func (j *journal) recycle(g *group) {
	g.records.Reset()
	g.shed, g.lastID = g.shed[:0], false
	j.mu.Lock()
	j.spare = append(j.spare, g)
	j.mu.Unlock()
}

// close commits what there is and closes the files.
func (j *journal) close() error {
	j.mu.Lock()
	j.ending = true
	j.more.Signal()
	j.mu.Unlock()
	<-j.done
	j.filling.records.Close()
	err := j.db.Close()
	if j.lazy != nil {
		j.lazy.stop()
	}
	if e := j.lock.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("closing the journal in %s: %w", j.dir, err)
	}
	return nil
}

// file is what stats-job says of the file that holds the job's record: the
// journal counts as one.
func (j *journal) file() int {
	if j == nil {
		return 0
	}
	return 1
}

// figures are the journal's numbers on the stats page. Records are never
// migrated by hand: Pebble compacts by itself.
func (j *journal) figures() storage.Log {
	if j == nil {
		return storage.Log{}
	}
	l := storage.Log{RecordsWritten: j.written, MaxSize: j.maxSize}
	names, err := j.fs.List(j.dir)
	if err != nil {
		return l
	}
	for _, name := range names {
		number, is := strings.CutSuffix(filepath.Base(name), ".log")
		n, err := strconv.ParseUint(number, 10, 64)
		if !is || err != nil {
			continue
		}
		if l.OldestIndex == 0 || n < l.OldestIndex {
			l.OldestIndex = n
		}
		l.CurrentIndex = max(l.CurrentIndex, n)
	}
	return l
}
