package redis

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
)

const (
	// maxOps limits the operations of one call, so that Redis is busy for about a millisecond.
	maxOps = 512

	// maxBytes limits the bodies in one call, except that a single one can be larger.
	maxBytes = 1 << 20
)

// call is one call of the script, from its first unit to its last answer: what it carries, how
// that is encoded, when it was sent, and the reply. Its life:
//
//	newCall, load      units are added and encoded
//	seal, writeHead    nothing more is added
//	exchange           it is sent and answered; if that fails see recover.go
//	decode             the reply becomes the answers of the operations
//	finish             units are done, or continue with a later call
//
// It belongs to the caller of the partition. args points into the operations, which must not
// change until they are done.
type call struct {
	prefix string // of all keys of the partition
	number uint64 // unique among the calls of the instance
	units  []*unit
	kind   callKind

	// noMemory is the error with which what needs memory is answered instead of being sent; nil if puts are
	// allowed. It is set if Redis has refused a write for lack of memory, or must not get new
	// jobs.
	noMemory error

	revived bool // the instance has just learned that it was declared dead, see refusal

	body   int    // largest body, in bytes, that Redis accepts
	sentAs uint64 // its number when it was last sent

	// largeFrom is the size from which on a record is staged, see large.go; or stageNothing.
	largeFrom int

	encoding
	sequences
	last   []func(*call) // encode what must come after all that
	sealed bool          // nothing more is added

	before    int       // replies that come before that of the call itself
	node      conn.Node // server to which it was sent
	begun     time.Time // when it was last sent, by the local clock
	sent      time.Time // the same, by clock.now; zero if it was not sent
	confirmed time.Time // when a later call was sent that Redis has answered
	reply     *reply    // nil if Redis has not answered, or was not called
	decoded   bool
}

// callKind is the purpose of a call.
type callKind int

const (
	work         callKind = iota // carry out units
	registration                 // register the instance, see registration.go
	question                     // ask whether the instance is alive, see registration.go
	void                         // ask for the outcome of units that were answered with an error, see recover.go
)

// encoding is what is sent, and how the reply is decoded.
type encoding struct {
	args          []any // of EVALSHA: lua.HeadArgs, then the operations, see lua/
	steps         []step
	text          []byte         // memory into which args and staged point
	staged        []stagedRecord // sent before the call, see large.go
	stagedAs      []string       // the keys of staged, as long as Redis may have them
	reads         []string       // keys that are read behind the call, see jobreports.go
	read          []any          // the answers to that
	created       int64          // when its jobs are put, in ms by the clock of Redis
	puts          int            // jobs
	imports       bool           // whether jobs are imported
	storesMuch    bool           // whether an operation has a checkpoint or a long result
	ops           int            // operations, weighted by their work
	bytes         int            // of bodies
	most          int            // size of the largest record put, in bytes
	largest       int            // what Redis is told of that, if it is larger than before, else 0
	since         uint64         // the first job that the call says to be in the body cache
	reportedTubes []string       // tubes whose refs are reported
	emptySets     []string       // lease sets that are reported as empty
	measuredBy    []*stepSize    // sizes of the steps in it
	moved         int            // how many of ops are jobs of a move, or dead letters

	takenBack map[uint64]bool // jobs that are taken back in it: whoever holds one here has lost it from there on
}

// sequence is operations of one kind from whole units. Sequences come last in the call, one
// after the other: for their connections the order among them does not matter.
type sequence []*storage.Op

// sequences are those of a call, in their order: deletes, each form of puts, and takes.
type sequences struct {
	deletes sequence
	putsAs  [numPutForms]sequence
	taken   sequence
}

// each calls a function for every sequence, in their order.
func (s *sequences) each(do func(*sequence)) {
	do(&s.deletes)
	for form := range s.putsAs {
		do(&s.putsAs[form])
	}
	do(&s.taken)
}

func (s *sequences) empty() {
	s.each(func(seq *sequence) {
		clear(*seq)
		*seq = (*seq)[:0]
	})
}

// step says how the answers of operations that were encoded together are decoded.
type step struct {
	ops    []*storage.Op
	decode func(*partition, *reply, []*storage.Op)
}

// clear makes c an empty call that keeps its buffers.
func (c *call) clear() {
	clear(c.units)
	clear(c.last)
	c.forgetEncoded()
	*c = call{
		prefix: c.prefix, units: c.units[:0], last: c.last[:0], encoding: c.encoding, sequences: c.sequences,
	}
}

// forgetEncoded empties what is encoded, so that it can be encoded again.
func (c *call) forgetEncoded() {
	clear(c.args)
	clear(c.steps)
	clear(c.staged)
	c.sequences.empty()
	clear(c.last)
	c.encoding = encoding{
		args: append(c.args[:0], make([]any, lua.HeadArgs)...), steps: c.steps[:0], text: c.text[:0], reportedTubes: c.reportedTubes[:0],
		staged: c.staged[:0], stagedAs: c.stagedAs[:0], reads: c.reads[:0], measuredBy: c.measuredBy[:0],
	}
	c.last, c.sealed = c.last[:0], false
}

// isFull returns whether the call takes no more units.
func (c *call) isFull() bool { return c.ops >= maxOps || c.bytes >= maxBytes }

func (c *call) isEmpty() bool { return len(c.args) == lua.HeadArgs && len(c.reads) == 0 }

// isAlone returns whether no call may be encoded while this one is under way, since it takes jobs from connections that may
// have a batch in that one: whether one of the units is background work, or a job is taken back.
func (c *call) isAlone() bool {
	if len(c.takenBack) > 0 {
		return true
	}
	for _, u := range c.units {
		if u.background != nil {
			return true
		}
	}
	return false
}

// aliveAt returns the last time at which the instance is known to have been alive.
func (c *call) aliveAt() time.Time {
	if c.confirmed.After(c.sent) {
		return c.confirmed
	}
	return c.sent
}

// words appends arguments.
func (c *call) words(words ...any) { c.args = append(c.args, words...) }

// expect says how the answers of operations are decoded.
func (c *call) expect(decode func(*partition, *reply, []*storage.Op), ops ...*storage.Op) {
	c.steps = append(c.steps, step{ops, decode})
}

// add appends an operation of the engine itself, and how its answer is decoded.
func (c *call) add(decode func(*reply), words ...any) {
	c.words(words...)
	c.expect(func(_ *partition, r *reply, _ []*storage.Op) { decode(r) })
	c.ops++
}

// addID appends the key of a job, which is also its name in sorted sets.
func (c *call) addID(id uint64) {
	from := len(c.text)
	c.text = append(c.text, c.prefix...)
	c.text = schema.AppendID(c.text, id)
	c.args = append(c.args, c.text[from:])
}

// addTubes appends names of tubes.
func (c *call) addTubes(names []string) {
	for i := range names {
		c.args = append(c.args, &names[i])
	}
}

const (
	// stageNothing is larger than any record.
	stageNothing = math.MaxInt

	// stagedFor is when a staged key expires. A call directly follows its staged records, but
	// both can be on a slow line.
	stagedFor = 5 * time.Minute

	// maxLeftOver limits how many keys are remembered for deletion. The others expire.
	maxLeftOver = 4 * maxOps
)

// stagedRecord is a record in the pieces in which it is sent.
type stagedRecord struct{ head, body, metadata []byte }

// len returns its size in bytes.
func (r stagedRecord) len() int { return len(r.head) + len(r.body) + len(r.metadata) }

// pieces returns it as a word of a command.
func (r stagedRecord) pieces() conn.Pieces {
	return conn.Pieces{Head: r.head, Body: r.body, Rest: r.metadata}
}

func boolArg(ok bool) string {
	if ok {
		return "1"
	}
	return "0"
}

func numberArg(n uint64) string { return fmt.Sprintf("%016d", n) }

// alike returns how many of the first operations satisfy like. The first one counts without
// being asked.
func alike(ops []*storage.Op, like func(*storage.Op) bool) int {
	n := 1
	for n < min(len(ops), maxTogether) && like(ops[n]) {
		n++
	}
	return n
}

// stepSize returns how many jobs a step in the call can have. How long the call takes adapts
// size.
func (c *call) stepSize(size *stepSize) int {
	c.measure(size)
	return size.limit()
}

// measure makes the duration of the call adjust the size of a step.
func (c *call) measure(size *stepSize) {
	if !slices.Contains(c.measuredBy, size) {
		c.measuredBy = append(c.measuredBy, size)
	}
}

const (
	// targetStepTime is how much longer than the quickest call a call should take that has a
	// step of many jobs in it: other clients wait for it.
	targetStepTime = 2 * time.Millisecond

	// assumedOpTime is the time allowed for each of the other operations of the call.
	assumedOpTime = 5 * time.Microsecond

	// initialStep and minStep are the initial and the minimum number of jobs of a step;
	// maxMoves is the maximum.
	initialStep = 64
	minStep     = 16
)

// stepSize is the adaptive number of jobs in a step of one kind of work: smaller after slow
// steps, as some jobs are more work than others and some machines are slower.
type stepSize struct{ jobs atomic.Int32 } // 0: the initial value

// stepSizes are those of a partition. They are safe for concurrent use.
type stepSizes struct {
	flush, flushReserved, list, listReserved, move, kick, tick, reclaim stepSize

	quickest atomic.Int64 // the least time that a call has taken, ns; 0: none was answered
}

// limit returns how many jobs the next step can have.
func (size *stepSize) limit() int {
	if n := size.jobs.Load(); n > 0 {
		return int(n)
	}
	return initialStep
}

// adjust adapts the size to how much longer than the quickest call a call with a step has
// taken. A stall of the whole machine at most halves it.
func (size *stepSize) adjust(longer time.Duration) {
	n := size.limit()
	if longer > targetStepTime {
		n = max(n/2, int(time.Duration(n)*targetStepTime/longer), minStep)
	} else {
		n = min(n+n/8, maxMoves)
	}
	size.jobs.Store(int32(n))
}
