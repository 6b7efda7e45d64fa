package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// reply is what a call of the script has returned, being read from the front,
// see lua/10_batch.lua. The first thing that is not as expected is kept
// in err.
type reply struct {
	clock    int64 // of Redis, ms; 0 in an answer given again
	recorded bool
	id       uint64        // number of the next job put
	due      time.Duration // until the first thing that the call made due; negative: none
	hints    []string

	prefixed int    // bytes of a key before the id
	said     string // what is not read yet
	err      error

	// Of jobs taken in bulk, what is not given out yet.
	taken   string // ids
	records []any
	more    int       // how many more jobs of the range that is being read
	set     *leaseSet // in which they and the last one are, nil if in none
	last    uint64    // the last one
	step    uint64    // from one of its ids to the next

	cached bool // they and the last one are in the body cache, and have no records here

	bare bool                 // it has no records, see void in lua/10_batch.lua
	cut  map[*storage.Op]bool // operations that have to be asked for again
}

// cutOff notes that operations have to be asked for again.
func (r *reply) cutOff(ops []*storage.Op) {
	if r.cut == nil {
		r.cut = make(map[*storage.Op]bool)
	}
	for _, op := range ops {
		r.cut[op] = true
	}
}

// verdict is what an operation that brings a body came to.
type verdict int64

const (
	refused verdict = iota // there is no such job
	done
	cutOff // it has to be asked for again
)

// verdict reads one, and takes down if the operation was cut.
func (r *reply) verdict(op *storage.Op) verdict {
	v := verdict(r.int64())
	if v == cutOff {
		r.cutOff([]*storage.Op{op})
	}
	return v
}

var errReply = errors.New("the script returned something else than expected")

// parseReply reads what comes before the answers.
func parseReply(raw any, prefix string, partitions int) (*reply, error) {
	parts, ok := raw.([]any)
	if !ok || len(parts) < 2 {
		return nil, fmt.Errorf("%w: %T", errReply, raw)
	}
	r := &reply{records: parts[2:], prefixed: len(prefix), step: uint64(partitions)}
	said, is := parts[0].(string)
	taken, are := parts[1].(string)
	if !is || !are {
		return nil, fmt.Errorf("%w: %T, %T", errReply, parts[0], parts[1])
	}
	r.said, r.taken = said, taken
	r.clock = r.int64()*1000 + r.int64()/1000
	r.recorded = r.found()
	r.id = uint64(r.int64())
	r.due = time.Duration(r.int64()) * time.Microsecond
	for range r.int64() {
		r.hints = append(r.hints, r.text())
	}
	return r, r.err
}

// until reads up to a mark.
func (r *reply) until(mark byte) string {
	at := strings.IndexByte(r.said, mark)
	if at < 0 {
		r.err, r.said = errReply, ""
		return ""
	}
	head := r.said[:at]
	r.said = r.said[at+1:]
	return head
}

// first reads n bytes.
func (r *reply) first(n int) string {
	if n < 0 || n > len(r.said) {
		r.err, r.said = errReply, ""
		return ""
	}
	head := r.said[:n]
	r.said = r.said[n:]
	return head
}

func (r *reply) parse(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		r.err = errReply
	}
	return n
}

func (r *reply) int64() int64 { return r.parse(r.until(';')) }
func (r *reply) int() int     { return int(r.int64()) }
func (r *reply) found() bool  { return r.int64() == 1 }
func (r *reply) text() string { return r.first(int(r.parse(r.until(':')))) }

// key reads the id of a job from its key.
func (r *reply) key() uint64 {
	r.first(r.prefixed)
	return uint64(r.parse(r.first(idLen)))
}

// ms reads milliseconds.
func (r *reply) ms() time.Duration { return time.Duration(r.int64()) * time.Millisecond }

// record reads the record of a job.
func (r *reply) record() record {
	rec := record(r.text())
	if !rec.valid() {
		r.err = errReply
		return ""
	}
	return rec
}

// job is what is to be known of a job that was taken.
type job struct {
	body []byte
	tube string
	ttr  time.Duration
}

func (r record) job() job {
	return job{r.body(), r.tube(), time.Duration(r.ttr()) * time.Second}
}

// nextTaken returns the next job taken in bulk.
func (p *partition) nextTaken(r *reply) (id uint64, its job) {
	if id = r.nextID(); r.err != nil {
		return 0, job{}
	}
	if r.cached {
		its, ok := p.bodies.take(id)
		if !ok {
			r.err = fmt.Errorf("%w: job %d is not in the body cache", errReply, id)
		}
		return id, its
	}
	if r.bare {
		return id, job{}
	}
	if len(r.records) == 0 {
		r.err = errReply
		return 0, job{}
	}
	text, _ := r.records[0].(string)
	r.records = r.records[1:]
	rec := record(text)
	if !rec.valid() {
		r.err = errReply
		return 0, job{}
	}
	return id, rec.job()
}

// nextID reads the next of the ids of jobs taken in bulk: 'KEY', or for a range
// 'KEY;how many;' and its terms, or the deadline of the lease set that it is. At the
// end there is '!' if the instance has them in its body cache.
func (r *reply) nextID() uint64 {
	if r.more > 0 {
		r.more--
		r.last += r.step
		return r.last
	}
	end := r.prefixed + idLen
	if len(r.taken) < end {
		r.err = errReply
		return 0
	}
	r.last = uint64(r.parse(r.taken[r.prefixed:end]))
	key := r.taken[:end]
	behind, rest, _ := strings.Cut(r.taken[end:], ",")
	r.taken, r.set = rest, nil
	if behind, r.cached = strings.CutSuffix(behind, "!"); behind != "" {
		many, what, _ := strings.Cut(behind[1:], ";")
		r.more = int(r.parse(many)) - 1
		if strings.HasPrefix(what, "g") {
			r.set = &leaseSet{name: key + behind, left: r.more + 1}
		}
	}
	return r.last
}

// readPuts numbers the jobs of a sequence of puts.
func (p *partition) readPuts(r *reply, ops []*storage.Op) {
	for _, op := range ops {
		op.Answer.ID = r.id*uint64(p.of) + uint64(p.number)
		r.id++
	}
	p.order.saw(r.id - 1)
}

// readOwnRange is readPuts for a range whose bodies are to be cached.
func (p *partition) readOwnRange(r *reply, ops []*storage.Op) {
	p.readPuts(r, ops)
	p.bodies.keep(ops, p.sent)
}

// readTakes reads a sequence of takes, of which the first have got a job. The others
// have none, or are cut.
func (p *partition) readTakes(r *reply, ops []*storage.Op) {
	got := r.int()
	if got < 0 {
		got = min(-got-1, len(ops))
		r.cutOff(ops[got:])
		ops = ops[:got]
	}
	for i, op := range ops {
		if i >= got {
			p.noJob(op)
			continue
		}
		id, its := p.nextTaken(r)
		p.take(r, op, id, its, r.set)
	}
}

// readTakeAny reads a take from several tubes.
func (p *partition) readTakeAny(r *reply, ops []*storage.Op) {
	switch op := ops[0]; r.verdict(op) {
	case done:
		id, its := p.nextTaken(r)
		p.take(r, op, id, its, r.set)
	case refused:
		p.noJob(op)
	}
}

func (p *partition) take(r *reply, op *storage.Op, id uint64, its job, in *leaseSet) {
	if r.err != nil {
		return
	}
	op.Answer.ID, op.Answer.Body = id, its.body
	p.holdings.hold(op.Holder, id, nameFor(op, its.tube), its.ttr, p.sent, in)
}

// takeWhole is take of a job that is by itself.
func (p *partition) takeWhole(r *reply, op *storage.Op, id uint64, rec record) {
	if r.err == nil {
		p.take(r, op, id, rec.job(), nil)
	}
}

// nameFor returns the name of the tube of a job that op has taken; mostly one
// that is in op. A part of the record would keep the body in memory.
func nameFor(op *storage.Op, name string) string {
	for _, its := range op.Tubes {
		if its == name {
			return its
		}
	}
	return strings.Clone(name)
}

func (p *partition) noJob(op *storage.Op) {
	op.Answer.NotFound = true
	op.Answer.Soon = p.holdings.soon(op.Holder, p.now())
}

// readGone reads a sequence of deletes of jobs that their connections held.
func (p *partition) readGone(r *reply, ops []*storage.Op) {
	each := ""
	if !r.found() {
		each = r.text()
	}
	for i, op := range ops {
		p.holdings.drop(op.ID)
		op.Answer.NotFound = each != "" && each[min(i, len(each)-1)] == '0'
	}
}

// readMove reads the answer of a move, and keeps in step what the holder has.
func (p *partition) readMove(r *reply, ops []*storage.Op) {
	op := ops[0]
	switch r.verdict(op) {
	case refused:
		op.Answer.NotFound = true
		return
	case cutOff:
		return
	}
	switch reserved := r.found(); {
	case op.Move == tube.ReserveJob:
		id, rec := uint64(r.int64()), r.record()
		p.takeWhole(r, op, id, rec)
	case reserved:
		p.holdings.touch(op.ID, p.sent)
	default:
		p.holdings.drop(op.ID)
	}
}

func (p *partition) readPeek(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	v := r.verdict(ops[0])
	if a.NotFound = v == refused; v != done {
		return
	}
	a.ID = uint64(r.int64())
	if rec := r.record(); r.err == nil {
		a.Body = rec.body()
	}
}

func readFound(r *reply, ops []*storage.Op) { ops[0].Answer.NotFound = !r.found() }

func readJobStats(r *reply, ops []*storage.Op) {
	a := &ops[0].Answer
	if a.NotFound = !r.found(); a.NotFound {
		return
	}
	s := &tube.JobStats{ID: ops[0].ID, State: stateOf(r.text()), Age: r.ms(), TimeLeft: r.ms()}
	rec := r.record()
	if r.err != nil {
		return
	}
	s.Tube, s.Pri, s.Delay, s.TTR, s.Counters = rec.tube(), rec.pri(), rec.delay(), rec.ttr(), rec.counters()
	if s.State == tube.Reserved {
		s.Counters[tube.Reserves]++ // the record has it when it is over
	}
	a.Job = s
}

// readTubeStats reads what Redis knows of a tube; using and watching are how
// many connections of this instance do, which it does not tell.
func readTubeStats(r *reply, op *storage.Op, using, watching int) {
	if op.Answer.NotFound = !r.found(); op.Answer.NotFound {
		return
	}
	s := &tube.TubeStats{Name: op.Tube, Urgent: r.count(), Ready: r.count(), Delayed: r.count(), Buried: r.count(), Total: r.count(), Deletes: r.count(), Pauses: r.count()}
	s.Pause, s.PauseLeft = uint32(r.int64()), r.ms()
	s.Using, s.Watching, s.Waiting = r.count()+uint64(using), r.count()+uint64(watching), r.count()
	s.Reserved = s.Total - s.Deletes - s.Ready - s.Delayed - s.Buried
	op.Answer.TubeStats = s
}

func (r *reply) count() uint64 { return uint64(r.int64()) }

func readStats(r *reply, ops []*storage.Op) {
	t := tube.Totals{Urgent: r.count(), Ready: r.count(), Reserved: r.count(), Delayed: r.count(), Buried: r.count(), Jobs: r.count()}
	t.Timeouts, t.Tubes = r.count(), r.count()
	ops[0].Answer.Stats = &storage.Figures{Totals: t, Instances: r.count()}
}
