package redis

import (
	"fmt"
	"strings"

	"redstalk/storage"
	"redstalk/tube"
)

const (
	// maxOps bounds how many operations go into one script call, and so how
	// long Redis does nothing else: about a millisecond.
	maxOps = 512

	// maxBytes bounds the bodies in one script call; one may be larger.
	maxBytes = 1 << 20

	// maxTubes bounds in how many tubes one operation looks, or how many it lists.
	maxTubes = 1000

	// maxMoves bounds how many jobs a single operation moves in one call.
	maxMoves = 250

	// maxTogether bounds how many jobs one command of Redis is about: Lua hands
	// over a few thousand arguments at most.
	maxTogether = 250

	// rangeFrom is from how many puts that follow each other with one priority
	// and TTR their jobs are made a range, see lua/10_batch.lua.
	rangeFrom = 4

	// maxID is the largest id there can be: clients and Lua read ids as
	// doubles.
	maxID = 1<<53 - 1

	// headArgs are how many arguments come before the operations.
	headArgs = 10

	// idLen is the length of an id in keys.
	idLen = 16
)

// call is one call of the script being put together, and how its answers are
// to be read. What is in args may point into the operations: they stay as they
// are until they are done.
type call struct {
	prefix string // of all keys of the partition

	args  []any // of EVALSHA: headArgs, then the operations, see lua/
	steps []step
	puts  int
	ops   int
	bytes int
	told  []string // tubes whose attendance is told
	over  []string // lease sets of which it is told that they are over
	since uint64   // the first job that Redis was told to be in the body cache
	text  []byte   // what args point into
	most  int      // bytes of the largest record put

	largest int // what Redis is told of that, if it is news, else 0

	// The operations of whole units that are all of one kind. They come last
	// in the call, in this order, as sequences: it is the same to their
	// connections which of them is first.
	gone, put, taken []*storage.Op

	last   []func(*call) // encode what has to come after all that
	sealed bool          // nothing is added any more
}

// step reads the answers of a sequence of operations.
type step struct {
	ops  []*storage.Op
	read func(*partition, *reply, []*storage.Op)
}

func (c *call) reset(prefix string) {
	c.prefix = prefix
	clear(c.args)
	clear(c.steps)
	clear(c.gone)
	clear(c.put)
	clear(c.taken)
	c.args = append(c.args[:0], make([]any, headArgs)...)
	c.steps, c.text = c.steps[:0], c.text[:0]
	c.gone, c.put, c.taken = c.gone[:0], c.put[:0], c.taken[:0]
	c.puts, c.ops, c.bytes, c.told, c.over = 0, 0, 0, c.told[:0], nil
	c.since, c.most, c.largest = 0, 0, 0
	clear(c.last)
	c.last, c.sealed = c.last[:0], false
}

func (c *call) full() bool { return c.ops >= maxOps || c.bytes >= maxBytes }

// add appends an operation and how its answer is to be read.
func (c *call) add(read func(*reply), words ...any) {
	c.args = append(c.args, words...)
	c.steps = append(c.steps, step{read: func(_ *partition, r *reply, _ []*storage.Op) { read(r) }})
	c.ops++
}

// appendID appends how the key of a job ends.
func appendID(b []byte, id uint64) []byte {
	if id > maxID {
		return append(b, '-') // no job has that id
	}
	var digits [idLen]byte
	for i := range digits {
		digits[idLen-1-i] = byte('0' + id%10)
		id /= 10
	}
	return append(b, digits[:]...)
}

// isID returns whether that is how the key of a job ends.
func isID(key string) bool {
	return len(key) == idLen && strings.Trim(key, "0123456789") == ""
}

// addID appends the key of a job, which is also its name in ZSETs.
func (c *call) addID(id uint64) {
	from := len(c.text)
	c.text = append(c.text, c.prefix...)
	c.text = appendID(c.text, id)
	c.args = append(c.args, c.text[from:])
}

func (c *call) addRecord(op *storage.Op, created int64) {
	from := len(c.text)
	c.text = appendRecord(c.text, op, created)
	c.args = append(c.args, c.text[from:len(c.text):len(c.text)])
	c.most = max(c.most, len(c.text)-from)
}

func boolArg(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// sectionFor tells in which section of the call all these operations may go; nil if
// they have to stay together among others.
func (p *partition) sectionFor(ops []storage.Op) *[]*storage.Op {
	section := p.sectionOf(&ops[0])
	for i := 1; section != nil && i < len(ops); i++ {
		if p.sectionOf(&ops[i]) != section {
			return nil
		}
	}
	return section
}

func (p *partition) sectionOf(op *storage.Op) *[]*storage.Op {
	switch c := &p.call; {
	case op.Kind == storage.Put:
		return &c.put
	case op.Kind == storage.Take:
		return &c.taken
	case p.gone(op):
		return &c.gone
	}
	return nil
}

// gone returns whether op deletes a job that its connection is sure to hold.
func (p *partition) gone(op *storage.Op) bool {
	if op.Kind != storage.Move || op.Move != tube.Delete {
		return false
	}
	return p.holdings.has(op.Holder, op.ID, p.serial) != nil
}

// encodeSequences appends operations, those of a kind that follow each other as one.
// u is the unit that they come from, nil if they are those of several.
func (p *partition) encodeSequences(ops []*storage.Op, u *unit) {
	for len(ops) > 0 {
		op, n := ops[0], 1
		switch {
		case op.Kind == storage.Put && p.full:
		case op.Kind == storage.Put:
			n = p.encodePuts(ops)
		case op.Kind == storage.Take && len(op.Tubes) == 1:
			n = p.encodeTakes(ops)
		case op.Kind == storage.Take:
			p.encodeTakeAny(op)
		case p.gone(op):
			n = p.encodeGone(ops)
		default:
			p.encodeOp(u, op)
		}
		ops = ops[n:]
	}
}

// alike returns how many of ops are like the first.
func alike(ops []*storage.Op, like func(*storage.Op) bool) int {
	n := 1
	for n < min(len(ops), maxTogether) && like(ops[n]) {
		n++
	}
	return n
}

// encodePuts appends a sequence of puts to one tube.
func (p *partition) encodePuts(ops []*storage.Op) int {
	c, first := &p.call, ops[0]
	n, same := putsTogether(ops)
	ops = ops[:n]
	read := (*partition).readPuts
	known := boolArg(p.attendance.known(first.Tube))
	if first.Delay > 0 {
		c.args = append(c.args, "put-delayed", &first.Tube, known, &first.Delay, n)
		for _, op := range ops {
			c.addRecord(op, p.created)
		}
	} else {
		urgent := 0
		for _, op := range ops {
			if op.Pri < tube.UrgentBelow {
				urgent++
			}
		}
		c.args = append(c.args, "put", &first.Tube, known, n, urgent)
		if same {
			its := fmt.Sprintf("%d;%d;", first.Pri, max(first.TTR, tube.MinTTR))
			if p.bodies.room() {
				its += *p.instance.Load()
				read = (*partition).readOwnRange
			}
			c.args = append(c.args, &first.Pri, its)
		} else {
			c.args = append(c.args, "", "")
		}
		for _, op := range ops {
			if !same {
				c.args = append(c.args, &op.Pri)
			}
			c.addRecord(op, p.created)
		}
	}
	c.puts += n
	c.steps = append(c.steps, step{ops, read})
	return n
}

// putsTogether returns how many of the puts that ops begins with are one
// operation: all to one tube with one delay, and unless there is one either of the
// same priority and TTR, or of such as do not stay the same for long.
func putsTogether(ops []*storage.Op) (n int, same bool) {
	first := ops[0]
	streak := 0 // of how many the last ones have the same priority and TTR
	n = alike(ops, func(op *storage.Op) bool {
		return op.Kind == storage.Put && op.Delay == first.Delay && op.Tube == first.Tube
	})
	if first.Delay > 0 {
		return n, false
	}
	for i := range n {
		if streak > 0 && (ops[i].Pri != ops[i-1].Pri || ops[i].TTR != ops[i-1].TTR) {
			if streak == i && streak >= rangeFrom {
				return i, true
			}
			streak = 0
		}
		streak++
		if streak >= rangeFrom && streak <= i {
			return i + 1 - streak, false
		}
	}
	return n, streak == n && n >= rangeFrom
}

// encodeTakes appends a sequence of takes from one tube.
func (p *partition) encodeTakes(ops []*storage.Op) int {
	first, wait := ops[0], false
	n := alike(ops, func(op *storage.Op) bool {
		return op.Kind == storage.Take && len(op.Tubes) == 1 && op.Tubes[0] == first.Tubes[0]
	})
	for _, op := range ops[:n] {
		wait = wait || op.Wait
	}
	c := &p.call
	c.args = append(c.args, "take", &first.Tubes[0], boolArg(wait), n)
	c.steps = append(c.steps, step{ops[:n], (*partition).readTakes})
	return n
}

// encodeTakeAny appends a take from several tubes.
func (p *partition) encodeTakeAny(op *storage.Op) {
	c := &p.call
	c.args = append(c.args, "take-any", boolArg(op.Wait), len(op.Tubes))
	for i := range op.Tubes {
		c.args = append(c.args, &op.Tubes[i])
	}
	c.steps = append(c.steps, step{[]*storage.Op{op}, (*partition).readTakeAny})
}

// encodeTakeBefore appends a take of a job that comes before another one.
func (p *partition) encodeTakeBefore(op *storage.Op, other *head) {
	c := &p.call
	c.args = append(c.args, "take-before", other.pri)
	c.addID(other.id)
	c.args = append(c.args, len(op.Tubes))
	for i := range op.Tubes {
		c.args = append(c.args, &op.Tubes[i])
	}
	c.steps = append(c.steps, step{[]*storage.Op{op}, (*partition).readTakeAny})
}

// encodeGone appends a sequence of deletes of jobs, all of one tube, that their
// connections hold; all in lease sets, or none.
func (p *partition) encodeGone(ops []*storage.Op) int {
	first := p.holdings.has(ops[0].Holder, ops[0].ID, p.serial)
	first.spent = p.serial
	n := alike(ops, func(op *storage.Op) bool {
		if op.Kind != storage.Move || op.Move != tube.Delete {
			return false
		}
		its := p.holdings.has(op.Holder, op.ID, p.serial)
		if its == nil || its.tube != first.tube || its.inSet() != first.inSet() {
			return false
		}
		its.spent = p.serial
		return true
	})
	c := &p.call
	c.args = append(c.args, "gone", first.tube, boolArg(p.attendance.known(first.tube)), boolArg(first.inSet()), n)
	for _, op := range ops[:n] {
		c.addID(op.ID)
	}
	c.steps = append(c.steps, step{ops[:n], (*partition).readGone})
	return n
}

// encodeOver tells of lease sets that are over, in a call that is made anyway.
func (p *partition) encodeOver() {
	c := &p.call
	if len(p.holdings.over) == 0 || len(c.args) == headArgs {
		return
	}
	n := min(len(p.holdings.over), maxTogether)
	c.over, p.holdings.over = p.holdings.over[:n:n], p.holdings.over[n:]
	c.args = append(c.args, "over", n)
	for i := range c.over {
		c.args = append(c.args, c.over[i])
	}
}
