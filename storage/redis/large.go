package redis

import (
	"errors"
	"fmt"
	"strconv"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/schema"
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

// Of a large job that was taken, the script returns only the beginning of the record. The rest
// is read with a GET, which is cheap, before the reply is decoded, unless this instance has
// recently put the job itself and has the body in its cache. The job is reserved by then, so
// nobody deletes it meanwhile. One call takes as much as one reply can carry, large jobs
// included, which limits how much is read at once.

// errFetch: a call was carried out, but a record that belongs to the reply could not be read.
var errFetch = errors.New("a job was reserved, and its record could not be read")

// fetch completes the large records of a reply.
func (p *partition) fetch(node conn.Node, r *reply) error {
	if len(r.large) == 0 {
		return nil
	}
	ids := r.idsOfRecords()
	var missing []large
	var commands [][]any
	for _, body := range r.large {
		if body.index >= len(ids) {
			return errReply
		}
		id := ids[body.index]
		if !r.begins(body).HasMetadata() { // the script marks those with a group itself: a peek must leave them
			if cached, ok := p.bodies.take(id); ok {
				r.records[body.index] = cached
				continue
			}
		}
		missing = append(missing, body)
		commands = append(commands, []any{"get", p.prefix + string(schema.AppendID(nil, id))})
	}
	return p.get(node, r, missing, commands)
}

// begins returns the beginning of a large record.
func (r *reply) begins(body large) schema.Record {
	text, _ := r.records[body.index].(string)
	if text == "" {
		return " " // there is none
	}
	return schema.Record(text)
}

// get sends these GETs, and completes their records. A record that is gone, which happens only
// if somebody has changed keys by hand, becomes nil.
func (p *partition) get(node conn.Node, r *reply, which []large, commands [][]any) error {
	if len(commands) == 0 {
		return nil
	}
	if err := p.link.Send(node, commands...); err != nil {
		return fmt.Errorf("%w: %v", errFetch, err)
	}
	var failed error
	for _, body := range which {
		answer, err := p.link.Receive()
		if err != nil {
			failed = fmt.Errorf("%w: %v", errFetch, err)
			if conn.CodeOf(err) == "" {
				return failed
			}
			continue
		}
		text, _ := answer.(string)
		if r.records[body.index] = nil; len(text) == body.bytes {
			r.records[body.index] = text
		}
	}
	return failed
}

// idsOfRecords returns the ids of the jobs whose records are in the reply.
func (r *reply) idsOfRecords() (ids []uint64) {
	rest := *r
	for rest.err == nil && (rest.more > 0 || rest.taken != "") {
		if id := rest.nextID(); !rest.cached {
			ids = append(ids, id)
		}
	}
	return ids
}

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
		commands = append(commands, []any{"set", key, c.staged[i].pieces(), "px", stagedFor.Milliseconds()})
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
