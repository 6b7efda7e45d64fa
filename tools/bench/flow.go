package main

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
	"time"

	"redstalk/protocol/client"
)

// stampLen is the length of the time at the front of a body: when its put was sent,
// in nanoseconds since the run's start, little-endian.
const stampLen = 8

// A flow is the shared state of the producers and consumers of one run.
type flow struct {
	// outstanding counts jobs sent but not deleted; it throttles producers.
	outstanding atomic.Int64
	producing   atomic.Int64 // producers not done
	window      int64        // most jobs outstanding; 0 for no limit
	interval    int64        // ns between two puts of one producer; 0 for none
	delay       int          // of each job, in seconds
	ends        ends         // of TTRs, if jobs come by these
}

// newFlow makes the flow of load l. A window of two jobs per consumer keeps the
// tube nearly empty, so that reserves wait for jobs, and jobs do not wait for
// reserves.
func newFlow(l *load, producers, consumers int) *flow {
	f := &flow{}
	f.producing.Store(int64(producers))
	if l.timed() {
		if f.delay = l.Delay; l.Mode == modeExpire {
			f.delay, f.ends.ttr = 0, l.TTR
		}
		f.interval = int64(time.Second) * int64(producers*l.Pipeline) / int64(l.Rate)
		return f
	}
	f.window = int64(max(2*consumers, l.Pipeline))
	return f
}

// idle reports whether all jobs have been put and deleted.
func (f *flow) idle() bool {
	return f.producing.Load() == 0 && f.outstanding.Load() <= 0
}

// A producer puts stamped jobs, N in one write, as its flow allows.
type producer struct {
	t      *counters
	f      *flow
	n      int
	puts   []byte // N puts
	stamps []int  // where in puts the bodies begin
	last   uint64
	due    int64 // when the next puts may be sent
}

// newProducer makes a producer that first puts at the time due.
func newProducer(l *load, t *counters, f *flow, body []byte, due int64) *producer {
	p := &producer{t: t, f: f, n: l.Pipeline, due: due}
	for range l.Pipeline {
		p.puts = appendPut(p.puts, f.delay, body)
		p.stamps = append(p.stamps, len(p.puts)-len(body)-len("\r\n"))
	}
	return p
}

func (p *producer) next(now int64) (stage, status) {
	if now >= p.t.r.deadline.Load() {
		p.f.producing.Add(-1)
		return stage{}, done
	}
	if now < p.due {
		return stage{}, waits
	}
	n := int64(p.n)
	if sum := p.f.outstanding.Add(n); p.f.window > 0 && sum > p.f.window {
		p.f.outstanding.Add(-n)
		return stage{}, waits
	}
	p.due += p.f.interval
	for _, at := range p.stamps {
		binary.LittleEndian.PutUint64(p.puts[at:], uint64(now))
	}
	return stage{p.puts, p.n, true}, sends
}

func (p *producer) replied(reply *client.Reply, now int64) {
	p.t.count(now)
	if !checkInserted(p.t, reply, &p.last) {
		p.f.outstanding.Add(-1)
	}
}

// A consumer reserves, blocking, and deletes what it gets. With joined the
// delete and the next reserve are sent in one write. The wait of a reserve says
// nothing about the server, so the times of deletes and the journeys of jobs are
// measured.
type consumer struct {
	t      *counters
	f      *flow
	body   []byte // what follows the stamp
	joined bool
	out    []byte

	held      uint64 // job reserved and not deleted, or 0
	expecting phase  // the command whose reply is next
}

func newConsumer(l *load, t *counters, f *flow, body []byte) *consumer {
	return &consumer{t: t, f: f, body: body[stampLen:], joined: l.Pipeline > 1, expecting: reserving}
}

func (c *consumer) next(int64) (stage, status) {
	c.out = c.out[:0]
	if c.held == 0 {
		c.expecting = reserving
		return stage{out: append(c.out, reserveCommand...), replies: 1}, sends
	}
	c.out = client.AppendDelete(c.out, c.held)
	c.held, c.expecting = 0, deleting
	if c.joined {
		c.out = append(c.out, reserveCommand...)
		return stage{out: c.out, replies: 2}, sends
	}
	return stage{out: c.out, replies: 1, timed: true}, sends
}

func (c *consumer) replied(reply *client.Reply, now int64) {
	c.t.count(now)
	if c.expecting == deleting {
		c.expecting = reserving
		checkDeleted(c.t, reply)
		c.f.outstanding.Add(-1)
		return
	}
	c.reserved(reply, now)
}

// reserved verifies a job's body and times its journey.
func (c *consumer) reserved(reply *client.Reply, now int64) {
	if reply.Word != client.Reserved {
		c.t.unexpected("reserve", reply)
		return
	}
	c.t.reserves++
	c.held = reply.ID
	if len(reply.Body) < stampLen || !bytes.Equal(reply.Body[stampLen:], c.body) {
		c.t.fail("reserve answered with a body that was not put")
		return
	}
	journey, err := c.f.journey(reply, now)
	if err != nil {
		c.t.fail(err.Error())
	}
	c.t.journey.add(journey)
}
