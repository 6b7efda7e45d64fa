package ledger

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Ledger records one load. Run, Check and Drain must be called one at a
// time; the other methods can be called at any time.
type Ledger struct {
	config Config
	tubes  []string
	keyed  []string      // tubes of leasers; the last one is that of dead letters
	slots  chan struct{} // of the backlog: one in it for each that is taken

	lastBuried atomic.Uint64 // an id, for the kickers

	mu      sync.Mutex
	events  uint64 // counted so far
	clients int    // so far
	next    []int  // number of the next put of each producer
	entries map[putKey]*entry
	ids     map[uint64]*entry // every id that was ever seen
	others  map[uint64]bool   // ids of jobs that other programs have put, see Foreign
	past    []lease           // some ended leases
	lanes   map[lane]*laneRecord
	report  Report

	asking     map[*client]time.Time    // clients that have no reply yet, and since when
	unanswered map[string]time.Duration // see TakeSilences
}

// putKey names a put; it is in the body.
type putKey struct{ producer, seq int }

// entry records one put and its job.
type entry struct {
	putKey
	size    int           // of the body, without its first line
	ttr     time.Duration // of the job
	id      uint64        // 0: neither acknowledged nor seen
	hasSlot bool          // it uses a slot in the backlog
	held    []*hold       // reservations that were not given up

	refused  bool   // the put; later also: it was unknown, and there is no job
	open     int    // deletes under way or of unknown outcome
	deleted  bool   // acknowledged
	deleter  string // which client had it then, and the time of the reply
	gone     uint64 // the event that showed that it does not exist any more; 0 if none has
	verified bool   // an audit has found that it is

	// For keyed puts only. They are repeated until there is a reply.
	key   string
	tube  string
	group string // "" for none
	line  string // the command, without its end
	tried bool
	acked uint64 // the event of the first reply that notified of the job
	known []*identity
}

func (e *entry) String() string {
	return fmt.Sprintf("job %d (put %d of producer %d)", e.id, e.seq, e.producer)
}

// New returns an empty ledger.
func New(config Config) *Ledger {
	config.setDefaults()
	l := &Ledger{
		config: config, slots: make(chan struct{}, config.Backlog), next: make([]int, config.Producers+config.Bursters+config.Leasers),
		entries: make(map[putKey]*entry), ids: make(map[uint64]*entry), others: make(map[uint64]bool),
		report: Report{Shared: make(map[string]int)}, lanes: make(map[lane]*laneRecord),
		asking: make(map[*client]time.Time), unanswered: make(map[string]time.Duration),
	}
	for i := range config.Tubes {
		l.tubes = append(l.tubes, fmt.Sprintf("%s-%d", config.Name, i))
	}
	if config.Leasers > 0 {
		for i := range keyedTubes {
			l.keyed = append(l.keyed, fmt.Sprintf("%s-keyed-%d", config.Name, i))
		}
		l.keyed = append(l.keyed, config.Name+"-dead")
	}
	return l
}

// event returns the number of a new event. The lock is held.
func (l *Ledger) event() uint64 {
	l.events++
	return l.events
}

// sending returns a new event for a command that is about to be sent: what was known
// before that event binds its reply.
func (l *Ledger) sending() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.event()
}

// fault counts a fault of the server. The lock is held.
func (l *Ledger) fault(count *int, format string, args ...any) {
	*count++
	if len(l.report.Faults) < maxFaults {
		l.report.Faults = append(l.report.Faults, fmt.Sprintf(format, args...))
	}
}

// begin makes the entry of a put that is about to be sent.
func (l *Ledger) begin(producer, size int, ttr time.Duration) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{putKey: putKey{producer, l.next[producer]}, size: size, ttr: ttr}
	l.next[producer]++
	l.entries[e.putKey] = e
	l.report.Puts++
	return e
}

// inserted records the result of a put.
func (l *Ledger) inserted(e *entry, id uint64, end outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch end {
	case done:
		l.report.PutsAcked++
		l.learn(e, id)
		if e.gone == 0 {
			e.hasSlot = true
			return
		}
	case refused:
		l.report.PutsRefused++
		e.refused = true
		if e.id != 0 {
			l.fault(&l.report.Strange, "%v was handed out, and then its put was refused", e)
		}
	default:
		l.report.PutsUnknown++
	}
	<-l.slots
}

// learn records that a put has made the job id. The lock is held.
func (l *Ledger) learn(e *entry, id uint64) {
	if other := l.ids[id]; other != nil && other != e {
		l.fault(&l.report.Reused, "%v: its id was given to put %d of producer %d, too", other, e.seq, e.producer)
		return
	}
	if l.others[id] {
		l.fault(&l.report.Reused, "%v: its id %d was given to a put of somebody else, too", e, id)
	}
	if e.key != "" && e.identity(id) == nil {
		e.known = append(e.known, &identity{id: id})
		l.ids[id] = e
	}
	switch {
	case e.id == 0:
		e.id = id
		l.ids[id] = e
	case e.id != id && e.key == "":
		l.fault(&l.report.Twice, "%v is there as job %d, too", e, id)
		l.ids[id] = e
	}
}

// Foreign records that a put of another program got this id, so that no put of
// the ledger may have it.
func (l *Ledger) Foreign(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.ids[id]; e != nil || l.others[id] {
		l.fault(&l.report.Reused, "the id %d was given to a put of somebody else, too", id)
	}
	l.others[id] = true
}

// seen records that a job was delivered or shown in reply to a command sent
// at that event, and returns its entry; nil if there is none.
func (l *Ledger) seen(id uint64, body []byte, sent uint64) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, err := l.parse(body)
	e := l.entries[key]
	if err != nil || e == nil {
		if e = l.ids[id]; e == nil {
			l.fault(&l.report.Strange, "job %d was put by nobody: %.40q", id, body)
			return nil
		}
		l.fault(&l.report.Changed, "%v has another body: %.40q", e, body)
		return e
	}
	if want := l.body(e); string(want) != string(body) {
		l.fault(&l.report.Changed, "%v has a body of %d bytes that is not the one of %d that was put", e, len(body), len(want))
	}
	l.learn(e, id)
	switch {
	case e.refused:
		l.fault(&l.report.Strange, "%v is there though its put was refused, or an audit has not found it", e)
	case e.gone != 0 && sent > e.gone:
		l.fault(&l.report.Undead, "%v is there again", e)
	}
	l.seenUnder(e, id, sent)
	return e
}

// deleting records that a delete is about to be sent.
func (l *Ledger) deleting(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.open++
	l.report.Deletes++
}

// deletion records the result of a delete. h is its client's reservation.
func (l *Ledger) deletion(e *entry, h *hold, end outcome) {
	switch end {
	case done:
		l.deleted(e, h)
	case refused:
		l.denied(e, h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if end == unknown {
		l.report.DeletesUnknown++
	} else {
		e.open--
	}
}

// deleted records that a delete was acknowledged. h is its client's reservation, nil if that
// is unknown.
func (l *Ledger) deleted(e *entry, h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.DeletesAcked++
	if e.deleted {
		l.fault(&l.report.DeletedTwice, "%v could be deleted twice", e)
	}
	e.deleted, e.deleter = true, "somebody else, heard at "+clockTime(time.Now())
	if h != nil {
		e.deleter += ", by a client of " + h.addr + " that asked for it at " + clockTime(h.since)
	}
	l.takenFromHolders(e)
	l.markGone(e)
}

// markGone records that the job is gone. The lock is held.
func (l *Ledger) markGone(e *entry) {
	if e.gone == 0 {
		e.gone = l.event()
	}
	if e.hasSlot {
		e.hasSlot = false
		<-l.slots
	}
}

// count adds to a figure of the report.
func (l *Ledger) count(figure func(*Report)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	figure(&l.report)
}
