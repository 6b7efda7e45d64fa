package redis

import (
	"math"
	"strconv"
	"time"
)

// The record of a large job does not go through the script: Lua copies and hashes all of
// its bytes several times. It is staged: sent by a SET into a key of its own, directly
// before the call that puts the job and by the same connection. The script renames the
// key to that of the job, which costs the same for all sizes.
//
// A staged key belongs to one call: its name has the number of the call, so what is late
// on another connection never gets into another job. It expires, so what no call takes
// over is gone after a while, whoever dies; and an instance deletes what it knows to be
// left over. If a call does not find its staged keys it does nothing (UNSTAGED).

const (
	// largeFrom is from how many bytes on a record is large. Below it the commands
	// that this saves cost less than those that it takes.
	largeFrom = 4 << 10

	// stageNothing is what no record is as large as.
	stageNothing = math.MaxInt

	// stagedFor is when a staged key expires. A call follows directly behind what it
	// has staged, but both may be on a slow line.
	stagedFor = 5 * time.Minute

	// maxLeftOver bounds how many keys are remembered to be deleted. Others expire.
	maxLeftOver = 4 * maxOps
)

// unstaged begins the error of the script that says that a staged record is not there.
const unstaged = "UNSTAGED"

// stagedRecord is a record in the pieces in which it is sent.
type stagedRecord struct{ head, body, metadata []byte }

// len is how many bytes it has.
func (r stagedRecord) len() int { return len(r.head) + len(r.body) + len(r.metadata) }

// stage has a record staged. Its argument is empty.
func (c *call) stage(r stagedRecord) {
	c.staged = append(c.staged, r)
	c.args = append(c.args, "")
}

// nameStaged gives what the call stages its keys, see lua/keys.md.
func (p *partition) nameStaged(c *call) {
	c.stagedAs = c.stagedAs[:0]
	for i := range c.staged {
		key := p.prefix + "put:" + p.instance.name() + ":" + numberArg(c.number) + ":" + strconv.Itoa(i+1)
		c.stagedAs = append(c.stagedAs, key)
	}
}

// addStaging appends what has to be sent before a call.
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

// leaveStaged is for a call that will not take over what it has staged, or has done so
// before and has staged it again.
func (p *partition) leaveStaged(c *call) {
	if len(p.leftOver)+len(c.stagedAs) <= maxLeftOver {
		p.leftOver = append(p.leftOver, c.stagedAs...)
	}
	c.stagedAs = c.stagedAs[:0]
}
