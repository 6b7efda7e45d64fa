package redis

import (
	"time"

	"redstalk/storage/redis/lua"
)

// fewOps is the number of operations below which the fixed cost of a call exceeds that of its
// content. If fewer have come while Redis worked, and fewer than were in that call, its units
// are completed before the next call is sent: their clients may send more, which can be part of
// it.
const fewOps = 128

// pipeline is what the caller of a partition has in addition to the call that is under way.
// While Redis works on that, the caller completes the units of the call before, polls for new
// units, and encodes the next call. So Redis need not wait for replies to be written, nor for
// commands to be read.
//
// A call that is encoded while another one is under way does not know its answers. It need not:
// a connection has one batch at a time, so the units of one connection are never in both. While
// a call is under way that changes what other connections hold, nothing else is, see isAlone.
//
// It belongs to the caller of the partition.
type pipeline struct {
	poll     func(read bool) int // submits what has come meanwhile; nil if there is no poller
	answered *call               // answered by Redis, but its units are not completed; nil if none
	next     *call               // has units already, and is sent next; nil if none
	spare    []*call             // to be reused
}

// maxSpare limits how many calls are kept for reuse: at most three exist at a time.
const maxSpare = 3

// newCall starts a new call.
func (p *partition) newCall() *call {
	c := &call{}
	if n := len(p.pipeline.spare); n > 0 {
		c, p.pipeline.spare = p.pipeline.spare[n-1], p.pipeline.spare[:n-1]
	}
	c.clear()
	c.prefix, c.largeFrom = p.prefix, p.options.largeFrom
	c.number = p.instance.nextNumber()
	c.created = p.clock.redis()
	p.limit(c)
	return c
}

// limit applies what the server allows to a call that is about to be encoded.
func (p *partition) limit(c *call) {
	caps := p.server.capabilities.Load()
	c.body = caps.body()
	c.revived = !p.revivedAt.IsZero() && elapsed(p.revivedAt, p.clock.now()) < lateFor
	if c.noMemory == nil {
		c.noMemory = caps.refusal
	}
	if caps.cannotStage() {
		c.largeFrom = stageNothing
	}
}

// recycle keeps a call for reuse.
func (p *partition) recycle(c *call) {
	c.reply = nil
	clear(c.staged)
	if len(p.pipeline.spare) < maxSpare {
		p.pipeline.spare = append(p.pipeline.spare, c)
	}
}

// load encodes units from the inbox into a call until it is full.
func (p *partition) load(c *call) {
	for !c.isFull() {
		u := p.inbox.next()
		if u == nil {
			return
		}
		c.units = append(c.units, u)
		p.encode(c, u)
	}
}

// beCaller makes a call, and with poll all that follow. It leaves the rest to the worker, in
// particular a call that has failed.
func (p *partition) beCaller(poll func(read bool) int) {
	for p.inbox.keepCaller() {
		if f := p.makeCalls(poll != nil, poll); f.call != nil || poll == nil {
			p.inbox.handOver(f)
			return
		}
		poll(true)
	}
}

// work is the worker: it makes calls while there is something to do and no other goroutine
// makes them.
func (p *partition) work() {
	defer close(p.ended)
	for {
		f, ok := p.inbox.await()
		if !ok {
			return
		}
		p.finishFailed(f)
		for p.inbox.keepCaller() {
			p.finishFailed(p.makeCalls(p.of == 1, nil))
		}
	}
}

// finishFailed completes a failed call, if there is one, and then the one before it if that was
// waiting for it.
func (p *partition) finishFailed(f failure) {
	if f.call == nil {
		return
	}
	p.recover(f.call, f.err)
	p.finish(f.call)
	p.recycle(f.call)
	if c := p.pipeline.answered; c != nil {
		p.confirmAnswered(c.sent)
	}
}

// makeCalls makes a call of what waits, and if calls can overlap also those that are encoded
// meanwhile. It returns the call that has failed, if one has.
func (p *partition) makeCalls(overlapping bool, poll func(read bool) int) failure {
	if overlapping {
		p.pipeline.poll = poll
		defer func() { p.pipeline.poll = nil }()
	}
	c := p.newCall()
	p.load(c)
	for c != nil {
		err := p.exchange(c, overlapping)
		p.completeAnswered()
		if err != nil {
			p.requeueNext()
			return failure{c, err}
		}
		p.confirmAnswered(c.sent)
		if overlapping && p.pipeline.next == nil {
			p.collect(c)
		}
		p.pipeline.answered = c
		c = p.followUp(c.ops, c.sent)
	}
	return failure{}
}

// followUp returns the call that is sent next, nil if there is none. The last one had this many
// operations, and was sent then.
func (p *partition) followUp(ops int, sent time.Time) *call {
	next := p.pipeline.next
	if next != nil && next.ops < min(fewOps, ops) {
		p.completeAnswered()
		p.collect(nil)
	}
	if next == nil {
		p.confirmAnswered(sent)
	}
	p.pipeline.next = nil
	return next
}

// collect adds new units to the next call, unless they must wait for the answer to the call
// under way; nil: there is none.
func (p *partition) collect(underWay *call) {
	if poll := p.pipeline.poll; poll != nil {
		poll(true)
	}
	if !p.instance.isRegistered() || underWay != nil && underWay.isAlone() || p.inbox.empty() {
		return
	}
	if p.pipeline.next == nil {
		p.pipeline.next = p.newCall()
	}
	p.load(p.pipeline.next)
}

// completeAnswered completes the units of the call that Redis has answered, unless it is stale:
// then the next answer of Redis decides, see registration.go.
func (p *partition) completeAnswered() {
	c := p.pipeline.answered
	if c == nil {
		return
	}
	if !c.decoded {
		c.decoded = true
		if err := p.decode(c); err != nil {
			p.log.Error("the reply to a batch cannot be decoded", "err", err)
			p.abandon(c, classify(err))
			p.cancel(c)
			c.reply = nil
		}
	}
	if p.isStale(c) {
		return
	}
	p.pipeline.answered = nil
	p.finish(c)
	p.recycle(c)
}

// requeueNext puts the units of the next call back into the inbox, because the call before it
// has failed.
func (p *partition) requeueNext() {
	c := p.pipeline.next
	if c == nil {
		return
	}
	p.pipeline.next = nil
	p.restoreReports(c)
	for _, u := range c.units {
		u.restart()
	}
	p.inbox.putBack(c.units, nil)
	p.recycle(c)
}

// finish completes the units of a call. Units that are not done continue with the next call,
// or, if they have had much, after those that have come meanwhile.
func (p *partition) finish(c *call) {
	if c.reply != nil {
		p.notifyListener(c.reply)
	}
	var first, last []*unit
	for _, u := range c.units {
		switch {
		case u.abandoned:
		case u.done():
			u.end(nil)
		case u.yields:
			u.yields = false
			last = append(last, u)
		default:
			first = append(first, u)
		}
	}
	p.inbox.putBack(first, last)
}

// decode reads the reply to a call, if it has answers of operations.
func (p *partition) decode(c *call) error {
	r := c.reply
	if r == nil || r.unread == lua.Voided {
		return nil
	}
	p.keeping = r.keeping
	p.flow.mu.Lock()
	err := p.decodeSteps(c, r)
	p.flow.mu.Unlock()
	p.bodies.forget(c.since)
	p.instance.garbled = p.instance.garbled || err != nil
	c.rewind(r)
	return err
}

func (p *partition) decodeSteps(c *call, r *reply) error {
	for i := 0; i < len(c.steps) && r.err == nil; i++ {
		s := &c.steps[i]
		s.decode(p, r, s.ops)
	}
	p.readNoted(r)
	return r.err
}

// rewind makes units continue from their first operation that was cut. What was answered after
// that is not requested again. Redis does answer, so the time limit of these units starts
// again.
func (c *call) rewind(r *reply) {
	if len(r.cut) == 0 {
		return
	}
	for _, u := range c.units {
		if u.batch != nil && u.rewind(r.cut) {
			u.since = time.Now()
		}
	}
}
