package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// A stage is one write of a connection and the answers it awaits. The bytes
// are the session's and stay as they are until its next stage.
type stage struct {
	out     []byte
	answers int
	timed   bool // whether the time to the last answer counts as a latency
}

// A status tells whether a session has something to send.
type status uint8

const (
	sends status = iota
	waits        // nothing yet: ask again within a millisecond
	done         // nothing any more
)

// A session is what one connection does, without the doing: the driver sends
// its stages and hands it the answers, in order. Times are in nanoseconds since
// the run's start. A session belongs to one goroutine.
type session interface {
	next(now int64) (stage, status)
	answer(a *answer, now int64)
}

// A tally is what the sessions of one driver counted. It belongs to one
// goroutine until the driver has ended.
type tally struct {
	r *run

	ops      int64 // commands answered within the duration
	puts     int64 // jobs put, within the duration or after
	reserves int64
	deletes  int64
	errors   int64
	samples  map[string]int64 // the first few kinds of error, with counts
	latency  histogram        // of timed stages
	journey  histogram        // pc: put sent to job received; delayed, expire: lateness
}

// maxSamples bounds how many kinds of error are kept by name.
const maxSamples = 8

// count counts one command as answered.
func (t *tally) count(now int64) {
	if now <= t.r.deadline.Load() {
		t.ops++
	}
}

// fail counts one error under the name what.
func (t *tally) fail(what string) {
	t.errors++
	if t.samples == nil {
		t.samples = make(map[string]int64)
	}
	if _, known := t.samples[what]; known || len(t.samples) < maxSamples {
		t.samples[what]++
	}
}

// wrong counts an answer that command should not have got.
func (t *tally) wrong(command string, a *answer) {
	t.fail(fmt.Sprintf("%s answered %.60q", command, a.line))
}

// merge adds what o counted.
func (t *tally) merge(o *tally) {
	t.ops += o.ops
	t.puts += o.puts
	t.reserves += o.reserves
	t.deletes += o.deletes
	t.latency.merge(&o.latency)
	t.journey.merge(&o.journey)
	for what, n := range o.samples {
		t.fail(what)
		t.errors--
		t.samples[what] += n - 1
	}
	t.errors += o.errors
}

// appendPut appends a put of body to out. TTR is long beside any stage, so a job
// comes back only if its connection dies. Delay is in seconds.
func appendPut(out []byte, delay int, body []byte) []byte {
	return appendPutTTR(out, delay, 120, body)
}

// appendPutTTR appends a put of body with a TTR in seconds.
func appendPutTTR(out []byte, delay, ttr int, body []byte) []byte {
	out = append(out, "put 0 "...)
	out = strconv.AppendInt(out, int64(delay), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(ttr), 10)
	out = append(out, ' ')
	out = strconv.AppendInt(out, int64(len(body)), 10)
	out = append(out, "\r\n"...)
	out = append(out, body...)
	return append(out, "\r\n"...)
}

// appendDelete appends a delete of job id to out.
func appendDelete(out []byte, id uint64) []byte {
	out = append(out, "delete "...)
	out = strconv.AppendUint(out, id, 10)
	return append(out, "\r\n"...)
}

// makeBody gives a body of n printable bytes.
func makeBody(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[i%36]
	}
	return body
}

const reserveCommand = "reserve\r\n"

// A phase is the command whose answers a cycler awaits.
type phase uint8

const (
	resting phase = iota
	putting
	reserving
	deleting
)

// A cycler puts N jobs, reserves as many as were taken and deletes those, over
// and over; with putOnly it only puts, and remembers the ids for cleaning. Since
// it reserves no more than it put, a reserve never waits for a job that nobody
// will put, even when all connections share a tube.
type cycler struct {
	t        *tally
	pipeline int
	putOnly  bool
	body     []byte
	puts     []byte // N puts
	reserves []byte // N reserves
	deletes  []byte // built anew for each stage

	phase phase
	last  uint64   // id of the last job put
	put   int      // jobs this cycle put
	held  []uint64 // jobs this cycle reserved
	made  []uint64 // putOnly: every job put
}

func newCycler(l *load, t *tally, body []byte) *cycler {
	c := &cycler{t: t, pipeline: l.Pipeline, putOnly: l.Mode == modePut, body: body}
	for range l.Pipeline {
		c.puts = appendPut(c.puts, 0, body)
	}
	c.reserves = bytes.Repeat([]byte(reserveCommand), l.Pipeline)
	return c
}

// next moves to the stage that follows; a cycle that began before the deadline
// is finished after it.
func (c *cycler) next(now int64) (stage, status) {
	if c.phase == putting && !c.putOnly && c.put > 0 {
		c.phase, c.held = reserving, c.held[:0]
		return stage{c.reserves[:c.put*len(reserveCommand)], c.put, true}, sends
	}
	if c.phase == reserving && len(c.held) > 0 {
		c.phase, c.deletes = deleting, c.deletes[:0]
		for _, id := range c.held {
			c.deletes = appendDelete(c.deletes, id)
		}
		return stage{c.deletes, len(c.held), true}, sends
	}
	if now >= c.t.r.deadline.Load() {
		c.phase = resting
		return stage{}, done
	}
	c.phase, c.put = putting, 0
	return stage{c.puts, c.pipeline, true}, sends
}

func (c *cycler) answer(a *answer, now int64) {
	c.t.count(now)
	switch c.phase {
	case putting:
		c.inserted(a)
	case reserving:
		if takeReserved(c.t, a, c.body) {
			c.held = append(c.held, a.id)
		}
	default:
		takeDeleted(c.t, a)
	}
}

func (c *cycler) inserted(a *answer) {
	if takeInserted(c.t, a, &c.last) {
		c.put++
		if c.putOnly {
			c.made = append(c.made, a.id)
		}
	}
}

// takeInserted verifies the answer to a put: a job id, and not the one this
// connection got last.
func takeInserted(t *tally, a *answer, last *uint64) bool {
	if a.word != wordInserted {
		t.wrong("put", a)
		return false
	}
	if a.id == 0 || a.id == *last {
		t.fail("put answered with an id that is zero or was the last job's")
	}
	*last = a.id
	t.puts++
	return true
}

// takeReserved verifies the answer to a reserve: a job with the body that
// was put.
func takeReserved(t *tally, a *answer, body []byte) bool {
	if a.word != wordReserved {
		t.wrong("reserve", a)
		return false
	}
	if a.id == 0 || !bytes.Equal(a.body, body) {
		t.fail("reserve answered with a body that was not put")
	}
	t.reserves++
	return true
}

// takeDeleted verifies the answer to a delete.
func takeDeleted(t *tally, a *answer) {
	if a.word != wordDeleted {
		t.wrong("delete", a)
		return
	}
	t.deletes++
}
