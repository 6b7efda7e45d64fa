package tube

import "time"

// RecordKind is a kind of named records that are due at some time, which stores keep besides jobs.
type RecordKind uint8

const (
	Schedules  RecordKind = iota // each a *Schedule
	JobBatches                   // each a *JobBatch

	NumRecordKinds
)

// NamedRecord is a record of one of these kinds.
type NamedRecord interface {
	RecordName() string
	DueAt() Instant // Never: it is not due
}

// dueRecord is a schedule or a batch of a Machine: a record that is due at a time, and then handed out to somebody.
type dueRecord interface {
	comparable
	key() string
	slot() *dueSlot

	// listed returns the record as a page shows it, handedOut as it is claimed.
	listed(*base) NamedRecord
	handedOut(*base) NamedRecord
}

// dueSlot is what a dueRecord has for dues.
type dueSlot struct {
	due     Instant // Never: it is not due
	pos     int     // its index in dues.heap, counted from 1; 0: it is not there
	claimed Instant // when its claim ends; 0: it has none
}

// dues has the records that are due at some time.
type dues[T dueRecord] struct {
	heap   heap[dueAt[T]] // those with a time, except the claimed ones
	claims []claim[T]     // in the order in which they end
	alarm  alarm

	reported   bool    // take has something to report
	reportedAt Instant // what was due by then was reported
}

func newDues[T dueRecord]() dues[T] {
	return dues[T]{heap: heap[dueAt[T]]{moved: func(d dueAt[T], to int) { d.of.slot().pos = to + 1 }}}
}

// claim is void if its record has another claim by now, or none.
type claim[T dueRecord] struct {
	of    T
	until Instant
}

// reportAgain is after how long it is reported again that a record is due, if nobody has claimed it.
const reportAgain = Instant(time.Second)

// queue puts x, which is not claimed, where it belongs. It is reported once it is due, also if
// others that were due before were reported already.
func (d *dues[T]) queue(x T) {
	s := x.slot()
	s.claimed = 0
	switch {
	case s.due == Never:
		d.unqueue(x)
		return
	case s.pos == 0:
		d.heap.add(dueAt[T]{s.due, x})
	default:
		d.heap.fix(s.pos-1, dueAt[T]{s.due, x})
	}
	d.reportedAt = min(d.reportedAt, s.due-1)
}

// clockSet is called when the clock has jumped ahead by that much, or back if it is negative. Claims last as
// long as before.
func (d *dues[T]) clockSet(by Instant) {
	d.reportedAt += by
	for i := range d.claims {
		c := &d.claims[i]
		if s := c.of.slot(); s.claimed == c.until {
			s.claimed += by
		}
		c.until += by
	}
}

// unqueue takes x out of the heap, if it is there. Its claim is void.
func (d *dues[T]) unqueue(x T) {
	s := x.slot()
	if s.claimed = 0; s.pos > 0 {
		d.heap.remove(s.pos - 1)
	}
}

// claim returns up to count records that are due, at most MaxListed, the earliest first, and
// claims them: for ClaimTime they are not returned again.
func (d *dues[T]) claim(now Instant, count int) (due []T) {
	for n := 0; n < MaxListed && d.endClaim(now); n++ { // if there are more, Ticks end them
	}
	for range min(count, MaxListed) {
		if d.heap.len() == 0 || d.heap.first().at > now {
			break
		}
		x := d.heap.first().of
		d.unqueue(x)
		until := now + Instant(ClaimTime)
		x.slot().claimed = until
		d.claims = append(d.claims, claim[T]{x, until})
		due = append(due, x)
	}
	return due
}

// endClaim ends the claim that ends first, if that is over by now. It returns whether it was.
func (d *dues[T]) endClaim(now Instant) bool {
	if len(d.claims) == 0 || d.claims[0].until > now {
		return false
	}
	c := d.claims[0]
	d.claims[0] = claim[T]{}
	if d.claims = d.claims[1:]; len(d.claims) == 0 {
		d.claims = nil
	}
	if c.of.slot().claimed == c.until {
		d.queue(c.of)
	}
	return true
}

// fire ends a claim or, if none has ended, reports that a record is due.
func (d *dues[T]) fire(now Instant) {
	if !d.endClaim(now) {
		d.reported, d.reportedAt = true, now
	}
}

// next returns when fire is to be called.
func (d *dues[T]) next() Instant {
	at := Never
	if d.heap.len() > 0 {
		if at = d.heap.first().at; at <= d.reportedAt {
			at = d.reportedAt + reportAgain
		}
	}
	if len(d.claims) > 0 {
		at = min(at, d.claims[0].until)
	}
	return at
}

// take returns whether fire has found that a record is due, since the last call.
func (d *dues[T]) take() bool {
	due := d.reported
	d.reported = false
	return due
}

// dueAt is a record and when it is due.
type dueAt[T dueRecord] struct {
	at Instant
	of T
}

// before orders records that are due at the same time by their names.
func (d dueAt[T]) before(other dueAt[T]) bool {
	return d.at < other.at || d.at == other.at && d.of.key() < other.of.key()
}
