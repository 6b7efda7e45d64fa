package embedded

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/storetest"
	"redstalk/tube"
)

// jobState is what a restart keeps of the state of a job.
type jobState uint8

const (
	missing jobState = iota // not put yet, or deleted
	ready                   // or reserved, which is ready after a restart
	buried
)

func (s jobState) String() string { return [...]string{"missing", "ready", "buried"}[s] }

// ledgerEntry is what a ledger knows about one job.
type ledgerEntry struct {
	id   uint64 // 0 until the put is acknowledged
	tube string
	size int
	now  jobState // the last acknowledged state
	next jobState // the same, or the state after a change in progress
	ever [3]bool  // the states it may have had since some moment, see since
	late bool     // its put was acknowledged since then
}

// may reports whether the job may be in that state.
func (a *ledgerEntry) may(s jobState) bool { return s == a.now || s == a.next || a.ever[s] }

// ledger records what the clients of an engine have requested, and which replies they got. It
// is compared with the engine that is opened later. A job is identified by its tag, with which
// its body begins, because the id of a put that was never acknowledged is not known. At most
// one change of a job is in progress at a time.
type ledger struct {
	mu      sync.Mutex
	jobs    map[string]*ledgerEntry
	live    map[string][]string // by tube: tags of jobs that may exist, in the order of their puts
	acked   int                 // batches
	refused error               // the first error of an operation
}

var errNotFound = errors.New("not found")

func newLedger() *ledger {
	return &ledger{jobs: make(map[string]*ledgerEntry), live: make(map[string][]string)}
}

// order is an operation and the state that it leads to.
type order struct {
	op   storage.Op
	tag  string
	next jobState
}

// bodyOf returns the body of the job with a tag.
func bodyOf(tag string, size int) []byte {
	return bytes.Repeat([]byte(tag+" "), size/(len(tag)+1)+1)[:max(size, len(tag)+1)]
}

func tagOf(body []byte) string {
	tag, _, _ := strings.Cut(string(body[:min(len(body), 64)]), " ")
	return tag
}

func (l *ledger) put(tag, in string, size int) order {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[tag] = &ledgerEntry{tube: in, size: size}
	l.live[in] = append(l.live[in], tag)
	return order{storage.Op{Kind: storage.Put, Tube: in, TTR: 1000, Body: bodyOf(tag, size)}, tag, ready}
}

// move returns a move on behalf of a holder.
func (l *ledger) move(m tube.Move, holder tube.Holder, tag string) order {
	next := map[tube.Move]jobState{tube.Delete: missing, tube.Bury: buried, tube.KickJob: ready, tube.ReserveJob: ready}
	l.mu.Lock()
	defer l.mu.Unlock()
	return order{storage.Op{Kind: storage.Move, Move: m, Holder: holder, ID: l.jobs[tag].id}, tag, next[m]}
}

// batch makes a batch of orders. They are in progress from now on. When the batch is done they
// are recorded, and then finished is called, if it is not nil.
func (l *ledger) batch(finished func(), orders ...order) *storage.Batch {
	b := &storage.Batch{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range orders {
		l.jobs[o.tag].next = o.next
		b.Ops = append(b.Ops, o.op)
	}
	storetest.Lend(b.Ops)
	b.Done = func() {
		l.record(b, orders)
		if finished != nil {
			finished()
		}
	}
	return b
}

func (l *ledger) record(b *storage.Batch, orders []order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked++
	for i, o := range orders {
		a := &b.Ops[i].Answer
		a.Buffer.Release()
		if a.Err != nil || a.NotFound {
			if l.refused == nil {
				l.refused = fmt.Errorf("%s to %s: %w", o.tag, o.next, cmp.Or(a.Err, errNotFound))
			}
			continue
		}
		account := l.jobs[o.tag]
		account.id, account.now = max(account.id, a.ID), o.next
	}
}

// do carries out orders as one batch and returns when it is done.
func (l *ledger) do(s storage.Store, orders ...order) {
	done := make(chan struct{})
	s.Do(l.batch(func() { close(done) }, orders...))
	<-done
}

// copy returns the ledger as it is now, without what is acknowledged later.
func (l *ledger) copy() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newLedger()
	for tag, a := range l.jobs {
		account := *a
		c.jobs[tag] = &account
	}
	c.acked, c.refused = l.acked, l.refused
	return c
}

// since returns what may be found on a disk that was copied between two copies of the ledger,
// of which l is the later one. It changes l.
func (l *ledger) since(earlier *ledger) *ledger {
	for tag, a := range l.jobs {
		was := earlier.jobs[tag]
		if was == nil {
			was = &ledgerEntry{}
		}
		a.ever, a.late = [3]bool{}, was.id == 0
		for _, s := range []jobState{was.now, was.next, a.now, a.next} {
			a.ever[s] = true
		}
		if a.now != was.now || a.next != was.next {
			a.ever = [3]bool{true, true, true}
		}
	}
	return l
}

// tags returns the tags of the jobs of a tube that are certainly in a state.
func (l *ledger) tags(in string, s jobState) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[in] = slices.DeleteFunc(l.live[in], func(tag string) bool {
		a := l.jobs[tag]
		return a.id > 0 && a.now == missing
	})
	var tags []string
	for _, tag := range l.live[in] {
		if a := l.jobs[tag]; a.now == s && a.next == s {
			tags = append(tags, tag)
		}
	}
	return tags
}

// found is a job in an engine.
type found struct {
	id   uint64
	now  jobState
	body []byte
}

// readJobs returns all jobs of an engine by their tags, and the ids of those whose bodies
// cannot be read.
func readJobs(t testing.TB, e *Engine) (jobs map[string]found, unreadable []uint64) {
	t.Helper()
	jobs = make(map[string]found)
	e.mu.Lock()
	last := e.machine.LastID()
	e.mu.Unlock()
	for id := uint64(1); id <= last; id++ {
		ops := []storage.Op{{Kind: storage.Peek, ID: id}, {Kind: storage.JobStats, ID: id}}
		storage.DoWait(e, ops)
		switch a := &ops[0].Answer; {
		case a.NotFound:
			continue
		case a.Err != nil:
			unreadable = append(unreadable, id)
			continue
		}
		now := ready
		if ops[1].Answer.Job.State == tube.Buried {
			now = buried
		}
		body := ops[0].Answer.Body
		if twin, have := jobs[tagOf(body)]; have {
			t.Errorf("job %q exists as %d and as %d", tagOf(body), twin.id, id)
		}
		jobs[tagOf(body)] = found{id, now, body}
	}
	return jobs, unreadable
}

// compare compares the ledger with an engine that was opened again. What was
// acknowledged must be there; what was not may be there. The ids of jobs that are
// gone are not used again.
func (l *ledger) compare(t testing.TB, e *Engine) {
	t.Helper()
	jobs, unreadable := readJobs(t, e)
	if len(unreadable) > 0 {
		t.Errorf("bodies that cannot be read: %d", unreadable)
	}
	var largest uint64
	for tag, a := range l.jobs {
		f := jobs[tag]
		delete(jobs, tag)
		if !a.late {
			largest = max(largest, a.id)
		}
		if !a.may(f.now) {
			t.Errorf("job %q (%d) is %s, but was acknowledged as %s, going to be %s", tag, a.id, f.now, a.now, a.next)
		}
		if f.now != missing && (!bytes.Equal(f.body, bodyOf(tag, a.size)) || a.id > 0 && a.id != f.id) {
			t.Errorf("job %q is %d with %d bytes, want %d with %d", tag, f.id, len(f.body), a.id, a.size)
		}
	}
	for tag, f := range jobs {
		t.Errorf("job %q (%d) exists, but was never put", tag, f.id)
	}
	if id := do(t, e, storage.Op{Kind: storage.Put, Tube: "after", Body: []byte("after ")})[0].Answer.ID; id <= largest {
		t.Errorf("the id %d is used again: the largest one acknowledged was %d", id, largest)
	}
}

// comparePart is compare for a disk that may have lost the last acknowledged changes: every job
// must be as it was at some time.
func (l *ledger) comparePart(t testing.TB, e *Engine) {
	t.Helper()
	jobs, unreadable := readJobs(t, e)
	if len(unreadable) > 0 {
		t.Errorf("bodies that cannot be read: %d", unreadable)
	}
	for tag, f := range jobs {
		if a := l.jobs[tag]; a == nil || !bytes.Equal(f.body, bodyOf(tag, a.size)) || a.id > 0 && a.id != f.id {
			t.Errorf("job %q (%d) with %d bytes was never put like that: %+v", tag, f.id, len(f.body), a)
		}
	}
}

// clone returns what a power cut leaves of a disk, with percent of what was not synced. 100 is
// what the end of the process leaves.
func clone(fs *memFS, percent int) *memFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, uint64(percent)))})
}
