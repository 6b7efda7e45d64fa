package redis

import (
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
)

const (
	// maxOps bounds how many operations go into one call, and so how long Redis
	// does nothing else: about a millisecond.
	maxOps = 512

	// maxBytes bounds the bodies in one call; one may be larger.
	maxBytes = 1 << 20

	// headArgs are how many arguments come before the operations.
	headArgs = 10
)

// call is one call of the script, from its first unit to the last answer: what it
// carries, how that is encoded, when it was sent, and what Redis has answered. Its way
// is
//
//	newCall, load      units are added and encoded
//	seal, writeHead    nothing is added any more
//	exchange           it is sent, and answered; if that fails see recover
//	decode             the answer is read into the answers of the operations
//	finish             units are told, or go on with a later call
//
// It belongs to the caller of the partition. What is in args points into the
// operations: they stay as they are until they are done.
type call struct {
	prefix string // of all keys of the partition
	number uint64 // that no other call of the instance has
	units  []*unit
	kind   callKind

	// noMemory is not nil if no jobs are to be put, or Redis has refused to write for want of memory: then
	// puts are not sent but answered with this.
	noMemory error

	body   int    // bytes that a body may have, for Redis to take it
	sentAs uint64 // its number when it was last sent

	// largeFrom is from how many bytes on a record is staged, see staged.go; it may
	// be stageNothing.
	largeFrom int

	encoding
	sequences
	last   []func(*call) // encode what has to come behind all that
	sealed bool          // nothing is added any more

	before    int             // answers that come before that to the call itself
	node      *goredis.Client // of the server to which it was sent
	begun     time.Time       // when it was last sent, by the local clock
	sent      time.Time       // the same, by clock.now; zero if it was not
	confirmed time.Time       // when a later call was sent that Redis has answered
	reply     *reply          // nil if Redis has not answered, or was not asked
	decoded   bool
}

// callKind says what a call is for.
type callKind int

const (
	work         callKind = iota // carry out units
	registration                 // say that there is an instance, see registration.go
	question                     // ask whether the instance is alive, see stale.go
	void                         // ask what became of units that were answered with an error, see recover.go
)

// encoding is what is sent, and how the answer is to be read.
type encoding struct {
	args     []any // of EVALSHA: headArgs, then the operations, see lua/
	steps    []step
	text     []byte         // what args and staged point into
	staged   []stagedRecord // sent before the call, see staged.go
	stagedAs []string       // the keys to which that was sent, as long as Redis may have them
	created  int64          // when its jobs are put, ms by the clock of Redis
	puts     int            // jobs
	imports  bool           // jobs are imported
	ops      int            // operations, those that are much work counting as several
	bytes    int            // of bodies
	most     int            // bytes of the largest record put
	largest  int            // what Redis is told of that, if it is news, else 0
	since    uint64         // the first job that Redis was told to be in the body cache
	told     []string       // tubes whose attendance is told
	over     []string       // lease sets of which it is told that they are over
	paced    []*pace        // of the steps in it, see pace.go
	moved    int            // how many of ops are jobs of a move, or dead letters
}

// sequence is operations of whole units that are all of one kind. The sequences come
// last in the call, one after the other: it is the same to their connections which of
// them is first.
type sequence []*storage.Op

// sequences are those of a call, in their order. Who waits for a job that is put comes
// before who asks for one only now.
type sequences struct{ gone, put, tagged, foreseen, taken sequence }

func (s *sequences) empty() {
	for _, seq := range []*sequence{&s.gone, &s.put, &s.tagged, &s.foreseen, &s.taken} {
		clear(*seq)
		*seq = (*seq)[:0]
	}
}

// step is how the answers of operations that were encoded together are decoded.
type step struct {
	ops    []*storage.Op
	decode func(*partition, *reply, []*storage.Op)
}

// clear makes c an empty call, which keeps its buffers.
func (c *call) clear() {
	clear(c.units)
	clear(c.last)
	c.forgetEncoded()
	*c = call{
		prefix: c.prefix, units: c.units[:0], last: c.last[:0], encoding: c.encoding, sequences: c.sequences,
	}
}

// forgetEncoded empties what is encoded, so that it can be done anew.
func (c *call) forgetEncoded() {
	clear(c.args)
	clear(c.steps)
	clear(c.staged)
	c.sequences.empty()
	clear(c.last)
	c.encoding = encoding{
		args: append(c.args[:0], make([]any, headArgs)...), steps: c.steps[:0], text: c.text[:0], told: c.told[:0],
		staged: c.staged[:0], stagedAs: c.stagedAs[:0], paced: c.paced[:0],
	}
	c.last, c.sealed = c.last[:0], false
}

// isFull returns whether no more units go into the call.
func (c *call) isFull() bool { return c.ops >= maxOps || c.bytes >= maxBytes }

// isEmpty returns whether nothing is encoded.
func (c *call) isEmpty() bool { return len(c.args) == headArgs }

// hasUpkeep returns whether one of the units is upkeep.
func (c *call) hasUpkeep() bool {
	for _, u := range c.units {
		if u.upkeep != nil {
			return true
		}
	}
	return false
}

// vouched is when the instance is known to have been alive.
func (c *call) vouched() time.Time {
	if c.confirmed.After(c.sent) {
		return c.confirmed
	}
	return c.sent
}

// words appends arguments.
func (c *call) words(words ...any) { c.args = append(c.args, words...) }

// expect says how the answers of operations are to be decoded.
func (c *call) expect(decode func(*partition, *reply, []*storage.Op), ops ...*storage.Op) {
	c.steps = append(c.steps, step{ops, decode})
}

// add appends an operation of the engine itself, and how its answer is to be decoded.
func (c *call) add(decode func(*reply), words ...any) {
	c.words(words...)
	c.expect(func(_ *partition, r *reply, _ []*storage.Op) { decode(r) })
	c.ops++
}

// addID appends the key of a job, which is also its name in ZSETs.
func (c *call) addID(id uint64) {
	from := len(c.text)
	c.text = append(c.text, c.prefix...)
	c.text = appendID(c.text, id)
	c.args = append(c.args, c.text[from:])
}

// addRecord appends the record of a job that is put.
func (c *call) addRecord(op *storage.Op) {
	from := len(c.text)
	c.text = appendHead(c.text, op, c.created)
	head := c.text[from:len(c.text):len(c.text)]
	size := len(head) + len(op.Body)
	c.most = max(c.most, size)
	if size >= c.largeFrom {
		c.stage(stagedRecord{head: head, body: op.Body})
		return
	}
	c.text = append(c.text, op.Body...)
	c.args = append(c.args, c.text[from:len(c.text):len(c.text)])
}

// addTubes appends names of tubes.
func (c *call) addTubes(names []string) {
	for i := range names {
		c.args = append(c.args, &names[i])
	}
}
