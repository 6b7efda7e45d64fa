package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// An exhausted job goes to its dead-letter tube in the call in which it is parked, if that tube
// is in the same partition and the record is small. Otherwise it becomes a pending dead letter,
// and each of these steps is a call of its own:
//
//  1. The job is parked as pending (lua/tagged/pending.lua).
//  2. It is read, with other pending ones; then what its holders have reported, if they have.
//  3. In the partition of its dead-letter tube it becomes a job. A mark records that, so that
//     it happens only once.
//  4. It is removed where it came from.
//  5. The mark is set to expire after some minutes.
//
// If an instance dies between two steps, the next instance that ticks in the partition
// continues from step 2. Two instances can do so at the same time: the mark exists for every
// instance that has read the dead letter before it was removed. An instance that was paused for
// so long that the mark has expired was declared dead, and does not send the dead letter under
// another name.

const (
	// maxDeadLetters is about how many dead letters a partition sends together,
	// maxDeadLettersTotal all partitions of this Store: all of them may have the same target,
	// and other calls there wait for them. minDeadLetters is the minimum for each partition.
	maxDeadLetters      = 32
	maxDeadLettersTotal = 128
	minDeadLetters      = 4

	// deadLetterWeight is as how many operations an arriving dead letter counts.
	deadLetterWeight = 4
)

// deadLetterSender is the progress of a partition with sending its pending dead letters. It
// scans them from the first to the last, until a whole scan finds none: after many were removed
// a part of the scan can be empty although there are more.
type deadLetterSender struct {
	sending atomic.Bool

	// The rest belongs to the goroutine that has set sending.
	from  string // cursor of the next part, as Redis has returned it
	found bool   // a dead letter was found, or this scan did not begin at the start
}

// scanStart is the cursor of the beginning, and what Redis returns at the end.
const scanStart = "0"

// deadLetter is a job on its way to another tube.
type deadLetter struct {
	from       *partition
	targetName string // name of this instance in the target partition, when the job was read
	id         uint64
	to, key    string
	job        job
	arrivedAs  uint64 // the id of the job that it has become; 0: not known

	isMove       bool   // it is not a dead letter but moved, see movejobs.go
	state, score string // its state in the target, and its score in that queue
	metadata     *tube.Metadata
	checkpoint   string // of the job; "": it has none
}

// name is unique among dead letters.
func (l *deadLetter) name() string { return fmt.Sprintf("%d:%d", l.from.number, l.id) }

// target is the partition of its tube.
func (l *deadLetter) target() *partition { return l.from.all(schema.PartitionOf(l.to, l.from.of)) }

// begin starts to send what is pending in p, unless that is under way.
func (ls *deadLetterSender) begin(p *partition) {
	if !ls.sending.Swap(true) {
		p.senders.Add(1)
		ls.from = cmp.Or(ls.from, scanStart)
		ls.found = ls.from != scanStart
		p.sendDeadLetters()
	}
}

// sendDeadLetters reads some pending dead letters, and sends them.
func (p *partition) sendDeadLetters() {
	ls, next, some := &p.deadLetters, "", []*deadLetter(nil)
	u := &unit{background: func(c *call) {
		some = nil
		p.encodePending(c, ls.from, func(from string, read []*deadLetter) { next, some = from, read })
	}}
	u.after = func(err error) {
		if err != nil {
			p.endDeadLetters()
			return
		}
		ls.from, ls.found = next, ls.found || len(some) > 0
		p.transferEach(some)
	}
	p.submitOrEnd(u)
}

// sendMoreDeadLetters continues with the next part, unless there are none left.
func (p *partition) sendMoreDeadLetters() {
	ls := &p.deadLetters
	if ls.from == scanStart {
		if !ls.found {
			p.endDeadLetters()
			return
		}
		ls.found = false
	}
	p.sendDeadLetters()
}

// endDeadLetters ends the sending, until the next begin.
func (p *partition) endDeadLetters() {
	p.senders.Add(-1)
	p.deadLetters.sending.Store(false)
}

// deadLetterLimit is how many dead letters p sends together: its share of maxDeadLettersTotal
// while other partitions send too.
func (p *partition) deadLetterLimit() int {
	return min(max(maxDeadLettersTotal/max(int(p.senders.Load()), 1), minDeadLetters), maxDeadLetters)
}

// submitOrEnd submits a unit. If the partition has ended, the unit ends with ErrClosed.
func (p *partition) submitOrEnd(u *unit) {
	if !p.submit(u) {
		u.end(storage.ErrClosed)
	}
}

// encodePending asks for some pending dead letters, and for the cursor of the next part.
func (p *partition) encodePending(c *call, from string, take func(next string, some []*deadLetter)) {
	c.add(func(r *reply) {
		next := r.text()
		take(next, p.readPending(r))
	}, "pending", from, p.deadLetterLimit())
}

// readPending reads what the operation pending answers after the cursor.
func (p *partition) readPending(r *reply) (some []*deadLetter) {
	for range r.int64() {
		l := &deadLetter{from: p, to: r.text()}
		l.targetName = l.target().instance.name()
		place := r.text()
		l.id, l.job = p.nextTaken(r)
		if l.id != 0 && !r.recordless && r.err == nil && l.parseDestination(place) {
			some = append(some, l)
		}
	}
	return some
}

// transferEach sends dead letters, and continues with more when all of them are done. After a
// failure a later tick tries again.
func (p *partition) transferEach(some []*deadLetter) {
	if len(some) == 0 {
		p.sendMoreDeadLetters()
		return
	}
	transferAll(some, func(err error) {
		if err != nil {
			p.endDeadLetters()
			return
		}
		p.sendMoreDeadLetters()
	})
}

// transferAll makes dead letters, or jobs that are moved, jobs in their targets, in their order, and then removes them from their source. It
// calls ended once, with an error if it was not done with all of them.
func transferAll(some []*deadLetter, ended func(error)) {
	var reported []*deadLetter
	for _, l := range some {
		if l.job.record.HasReports() {
			reported = append(reported, l)
		}
	}
	forEach(reported, (*deadLetter).readReports, func(err error) {
		if err != nil {
			ended(err)
			return
		}
		forEach(some, (*deadLetter).arrive, ended)
	})
}

// forEach begins something with each of all, in their order. It calls ended once when all of that has ended, with an error if some of it has failed.
func forEach(all []*deadLetter, begin func(*deadLetter, func(error)), ended func(error)) {
	if len(all) == 0 {
		ended(nil)
		return
	}
	var left atomic.Int32
	var failed atomic.Pointer[error]
	left.Store(int32(len(all)))
	for _, l := range all {
		begin(l, func(err error) {
			if err != nil {
				failed.Store(&err)
			}
			if left.Add(-1) > 0 {
				return
			}
			if err := failed.Load(); err != nil {
				ended(*err)
				return
			}
			ended(nil)
		})
	}
}

// arrive makes the dead letter, all of which was read, a job in its target, and then removes it from its source.
func (l *deadLetter) arrive(ended func(error)) {
	to, arrived := l.target(), false
	u := &unit{background: func(c *call) {
		if arrived = false; c.noMemory == nil && to.instance.name() == l.targetName {
			to.encodeArrive(c, l, &arrived)
		}
	}}
	u.after = func(err error) {
		if err == nil && !arrived {
			err = storage.ErrUnavailable
		}
		if err != nil {
			ended(err)
			return
		}
		l.depart(to, ended)
	}
	to.submitOrEnd(u)
}

// encodeArrive appends the operation that makes the dead letter a job.
func (p *partition) encodeArrive(c *call, l *deadLetter, arrived *bool) {
	c.measure(&l.from.stepSizes.move)
	c.words("arrive", l.to, boolArg(p.refs.isReported(l.to)), l.name(), l.key, len(l.job.body), l.state, l.score, l.metadata.Progress, l.checkpoint)
	if l.isMove {
		c.addStaged(l.movedRecord())
	} else {
		op := storage.Op{Tube: l.to, Pri: l.job.pri, TTR: uint32(l.job.ttr.Seconds()), Body: l.job.body}
		metadata := l.metadata.DeadLetter(l.job.tube, l.id, l.job.record.Created())
		metadata.Key = l.key
		c.addRecordWith(&op, &metadata)
	}
	c.puts++
	c.bytes += len(l.job.body) + len(l.checkpoint)
	c.ops += deadLetterWeight
	c.moved += deadLetterWeight
	c.expect(func(_ *partition, r *reply, _ []*storage.Op) {
		*arrived = true
		if r.puts++; !r.found() {
			l.arrivedAs = r.count()
			return
		}
		l.arrivedAs = r.id*uint64(p.of) + uint64(p.number)
		r.id++
		p.ids.order.saw(r.id - 1)
	})
}

// depart removes the dead letter from its source, and then the mark.
func (l *deadLetter) depart(to *partition, ended func(error)) {
	gone := &unit{background: func(c *call) {
		c.measure(&l.from.stepSizes.move)
		c.words("depart")
		c.addID(l.id)
		c.words(strconv.FormatUint(l.arrivedAs, 10))
		c.expect(func(_ *partition, r *reply, _ []*storage.Op) { skipNumber(r) })
		c.ops++
	}}
	gone.after = func(err error) {
		if err == nil {
			to.submit(&unit{background: func(c *call) { c.add(skipNumber, "departed", l.name()) }})
		}
		ended(err)
	}
	l.from.submitOrEnd(gone)
}

// parseDestination parses what the script says of a pending job after its tube: 'KEY' for a
// dead letter, which will be ready, or 'STATE SCORE KEY'. It returns false if the record is
// broken.
func (l *deadLetter) parseDestination(text string) bool {
	var err error
	if l.metadata, err = l.job.record.Metadata(); err != nil {
		l.metadata = new(tube.Metadata)
	}
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		l.state, l.score, l.key = schema.StateWord(tube.Ready), strconv.FormatUint(uint64(l.job.pri), 10), text
		return true
	}
	l.isMove, l.state, l.score, l.key = true, words[0], words[1], words[2]
	return err == nil
}

// movedRecord is the record of a job in its new tube. Its counters begin at zero; the metadata
// has their former values.
func (l *deadLetter) movedRecord() stagedRecord {
	rec, f := l.job.record, *l.metadata
	counters := rec.Counters()
	f.Key = l.key
	f.Move(l.job.tube, l.to, &counters)
	head := append([]byte(rec[:schema.CountersAt]), make([]byte, schema.NameLengthAt-schema.CountersAt)...)
	head = append(append(head, byte(len(l.to))), l.to...)
	head[schema.LetterAt] = schema.Letter(schema.StateOf(l.state))
	moved := stagedRecord{head: head, body: l.job.body}
	if !isPlain(&f) {
		head[schema.LetterAt] += schema.LowerCase
		moved.metadata = schema.AppendMetadata(nil, &f)
	}
	return moved
}

// isPlain returns whether a metadata block says nothing.
func isPlain(f *tube.Metadata) bool {
	block := schema.AppendMetadata(nil, f)
	return !slices.ContainsFunc(block[:len(block)-2], func(b byte) bool { return b != 0 })
}
