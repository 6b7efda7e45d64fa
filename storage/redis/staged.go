package redis

import (
	"math"
	"strconv"
	"time"
)

// The record of a large job does not go through the script, because Lua copies and hashes all
// of its bytes several times. It is staged: a SET sends it into a key of its own, directly
// before the call that puts the job, on the same connection. The script renames the key to that
// of the job, which costs the same for all sizes.
//
// A staged key belongs to one call: its name has the number of the call, so a late one on
// another connection never gets into another job. It expires, so that it disappears if no call
// takes it over because an instance died; and an instance deletes the ones that it knows to be
// left over. If a call does not find its staged keys it does nothing (UNSTAGED).

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

// stage stages a record. Its argument is empty.
func (c *call) stage(r stagedRecord) {
	c.staged = append(c.staged, r)
	c.args = append(c.args, "")
}

// nameStaged names the keys of the staged records, see lua/keys.md.
func (p *partition) nameStaged(c *call) {
	c.stagedAs = c.stagedAs[:0]
	for i := range c.staged {
		key := p.prefix + "put:" + p.instance.name() + ":" + numberArg(c.number) + ":" + strconv.Itoa(i+1)
		c.stagedAs = append(c.stagedAs, key)
	}
}

// addStaging appends the commands that are sent before a call.
func (p *partition) addStaging(c *call, commands [][]any) [][]any {
	if len(p.leftOver) > 0 {
		words := []any{"del"}
		for _, key := range p.leftOver {
			words = append(words, key)
		}
		commands, p.leftOver = append(commands, words), p.leftOver[:0]
	}
	if c.kind == void {
		return commands
	}
	p.nameStaged(c)
	for i, key := range c.stagedAs {
		commands = append(commands, []any{"set", key, c.staged[i], "px", stagedFor.Milliseconds()})
	}
	return commands
}

// leaveStaged is called for a call that will not take over its staged records, or has done so
// before and has staged them again.
func (p *partition) leaveStaged(c *call) {
	if len(p.leftOver)+len(c.stagedAs) <= maxLeftOver {
		p.leftOver = append(p.leftOver, c.stagedAs...)
	}
	c.stagedAs = c.stagedAs[:0]
}
