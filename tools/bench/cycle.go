package main

import (
	"bytes"
	"math/rand/v2"

	"redstalk/protocol/client"
)

// A phase is the command whose replies a cycler waits for.
type phase uint8

const (
	betweenCycles phase = iota
	putting
	reserving
	deleting
)

// A cycler repeatedly puts N jobs, reserves as many as were accepted and deletes
// them; with putOnly it only puts, and records the ids for cleaning up. Since
// it reserves no more than it put, a reserve never waits for a job that nobody
// puts, even when all connections share a tube.
type cycler struct {
	t        *counters
	pipeline int
	putOnly  bool
	body     []byte
	puts     []byte // N puts
	groups   *grouped
	reserves []byte // N reserves
	deletes  []byte // rebuilt for each stage

	phase phase
	last  uint64   // id of the last job put
	put   int      // jobs this cycle put
	held  []uint64 // jobs this cycle reserved
	made  []uint64 // putOnly: every job put
}

func newCycler(l *load, t *counters, body []byte) *cycler {
	c := &cycler{t: t, pipeline: l.Pipeline, putOnly: l.Mode == modePut, body: body}
	if l.Groups > 0 {
		c.groups = newGrouped(l, body)
		c.puts = c.groups.puts
	}
	for range l.Pipeline {
		if c.groups == nil {
			c.puts = appendPut(c.puts, laterBy(l.Days), body)
		}
	}
	c.reserves = bytes.Repeat([]byte(reserveCommand), l.Pipeline)
	return c
}

// laterBy returns a random delay of up to so many days, in seconds, and at least one day; 0 for 0 days.
func laterBy(days int) int {
	const day = 24 * 60 * 60
	if days == 0 {
		return 0
	}
	return day + rand.N(max(days-1, 1)*day)
}

// next moves to the next stage. A cycle that began before the deadline
// is finished after it.
func (c *cycler) next(now int64) (stage, status) {
	if c.phase == putting && !c.putOnly && c.put > 0 {
		c.phase, c.held = reserving, c.held[:0]
		return stage{c.reserves[:c.put*len(reserveCommand)], c.put, true}, sends
	}
	if c.phase == reserving && len(c.held) > 0 {
		c.phase, c.deletes = deleting, c.deletes[:0]
		for _, id := range c.held {
			c.deletes = client.AppendDelete(c.deletes, id)
		}
		return stage{c.deletes, len(c.held), true}, sends
	}
	if now >= c.t.r.deadline.Load() {
		c.phase = betweenCycles
		return stage{}, done
	}
	c.phase, c.put = putting, 0
	if c.groups != nil {
		c.groups.next()
	}
	return stage{c.puts, c.pipeline, true}, sends
}

func (c *cycler) replied(reply *client.Reply, now int64) {
	c.t.count(now)
	switch c.phase {
	case putting:
		c.inserted(reply)
	case reserving:
		if checkReserved(c.t, reply, c.body) {
			c.held = append(c.held, reply.ID)
		}
	default:
		checkDeleted(c.t, reply)
	}
}

func (c *cycler) inserted(reply *client.Reply) {
	if checkInserted(c.t, reply, &c.last) {
		c.put++
		if c.putOnly {
			c.made = append(c.made, reply.ID)
		}
	}
}
