package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// burstBytes limits the bodies that one packet puts, except for the last one.
const burstBytes = 4 << 20

// burst sends packets of many commands, which put jobs, reserve some, and
// finish jobs that were reserved earlier.
func (l *Ledger) burst(ctx context.Context, c *client, number int) {
	b := &burster{
		client: c, ctx: ctx, producer: l.config.Producers + number, nap: l.newNap(c.rng),
		ahead: make(map[*entry]bool),
	}
	for c.connect(ctx) {
		requests := b.packet()
		if frozen := b.nap.due() && len(c.unfinished) > 0; frozen && c.rng.IntN(2) == 0 {
			c.exchange(requests, func() { b.nap.take(ctx, l) })
		} else {
			c.exchange(requests, nil)
			if frozen {
				b.nap.take(ctx, l)
			}
		}
		sleep(ctx, time.Duration(c.rng.Int64N(int64(2*l.config.BurstPace)+1)))
	}
}

// burster is a client that sends bursts. Jobs that it has reserved and not finished are
// in client.unfinished.
type burster struct {
	*client
	ctx      context.Context
	producer int
	nap      *freezer

	ahead    map[*entry]bool // jobs that a command without a reply yet gives up
	used     string          // tube of the connection below
	watching *wire           // the connection that watches tubes of the ledger; a new one does not yet
}

// packet makes a burst: most are small, one in four can have the largest size.
func (b *burster) packet() []request {
	size := 1 + b.rng.IntN(16)
	if b.rng.IntN(4) == 0 {
		size = b.ledger.config.MaxBurst
	}
	requests := b.watch()
	bytes := 0
	for len(requests) < size && bytes < burstBytes {
		switch n := b.rng.IntN(100); {
		case n < 50 && b.takeSlot():
			put, body := b.put()
			requests = append(requests, put...)
			bytes += body
		case n < 75 && len(b.unfinished) > 0:
			requests = append(requests, b.finish()...)
		default:
			requests = append(requests, b.take())
		}
	}
	return requests
}

// watch makes a new connection watch all tubes, or one, so that some packets
// have to look for each job in many tubes, and most in one.
func (b *burster) watch() (requests []request) {
	if b.watching == b.wire {
		return nil
	}
	b.watching, b.used = b.wire, "default"
	tubes := b.ledger.tubes
	if b.rng.IntN(3) > 0 {
		at := b.rng.IntN(len(tubes))
		tubes = tubes[at : at+1]
	}
	for _, name := range tubes {
		requests = append(requests, request{text: fmt.Sprintf("watch %s\r\n", name), want: "WATCHING", settle: none})
	}
	return append(requests, request{text: "ignore default\r\n", want: "WATCHING", settle: none})
}

// takeSlot takes a slot in the backlog, if there is one.
func (c *client) takeSlot() bool {
	select {
	case c.ledger.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// put puts a job, in the tube of the last one or in another.
func (b *burster) put() (requests []request, size int) {
	l := b.ledger
	if tube := l.tubes[b.rng.IntN(len(l.tubes))]; b.used == "default" || b.rng.IntN(4) == 0 {
		b.used = tube
		requests = append(requests, request{text: fmt.Sprintf("use %s\r\n", tube), want: "USING", settle: none})
	}
	pri, delay, ttr := b.jobTimes()
	e := l.begin(b.producer, b.bodySize(b.producer), ttr)
	body := l.body(e)
	text := fmt.Sprintf("put %d %d %d %d\r\n%s\r\n", pri, int(delay.Seconds()), int(ttr.Seconds()), len(body), body)
	return append(requests, request{text: text, want: "INSERTED", settle: func(r reply) { l.inserted(e, r.id, r.end) }}), len(body)
}

// take reserves a job if one is ready.
func (b *burster) take() request {
	sent, since := b.ledger.sending(), time.Now()
	return request{text: "reserve-with-timeout 0\r\n", want: "RESERVED", settle: func(r reply) {
		if r.end != done {
			return
		}
		if e := b.ledger.seen(r.id, r.body, sent); e != nil {
			b.handedOut(e, sent, &hold{addr: b.at, since: since, givenUpLater: b.ahead[e]})
			b.unfinished = append(b.unfinished, e)
		}
	}}
}

// finish does something with a job that was reserved by an earlier packet.
func (b *burster) finish() []request {
	at := b.rng.IntN(len(b.unfinished))
	e := b.unfinished[at]
	switch n := b.rng.IntN(100); {
	case n < 8:
		return []request{b.touched(e)}
	case n < 15: // not yet
		return nil
	case n < 20:
		b.unfinished = slices.Delete(b.unfinished, at, at+1)
		return []request{b.touched(e), b.deleted(e)}
	case n < 80:
		b.unfinished = slices.Delete(b.unfinished, at, at+1)
		return []request{b.deleted(e)}
	}
	b.unfinished = slices.Delete(b.unfinished, at, at+1)
	switch n := b.rng.IntN(20); {
	case n < 12:
		return []request{b.givenUp(e, fmt.Sprintf("release %d %d 0\r\n", e.id, b.rng.IntN(100)), "RELEASED")}
	case n < 15:
		return []request{b.givenUp(e, fmt.Sprintf("release %d %d 1\r\n", e.id, b.rng.IntN(100)), "RELEASED")}
	}
	return []request{b.givenUp(e, fmt.Sprintf("bury %d %d\r\n", e.id, b.rng.IntN(100)), "BURIED")}
}

func (b *burster) deleted(e *entry) request {
	h := b.giveUp(e)
	b.ahead[e] = true
	b.ledger.deleting(e)
	return request{text: fmt.Sprintf("delete %d\r\n", e.id), want: "DELETED", settle: func(r reply) {
		b.ledger.deletion(e, b.gaveUp(e, h), r.end)
	}}
}

func (b *burster) touched(e *entry) request {
	b.ledger.mu.Lock()
	h := b.holds[e]
	b.ledger.mu.Unlock()
	return request{text: fmt.Sprintf("touch %d\r\n", e.id), want: "TOUCHED", settle: func(r reply) {
		if r.end == refused {
			b.ledger.denied(e, h)
		}
	}}
}

func (b *burster) givenUp(e *entry, text, want string) request {
	h := b.giveUp(e)
	b.ahead[e] = true
	return request{text: text, want: want, settle: func(r reply) {
		if h := b.gaveUp(e, h); r.end == refused {
			b.ledger.denied(e, h)
		}
	}}
}

// gaveUp handles the reply to a command that gives up a job, and returns the
// reservation that the command ended. The client had one when it sent the command. But a reserve
// earlier in the same packet can have got the job again, after the TTR had
// ended: then it is that reservation.
func (b *burster) gaveUp(e *entry, had *hold) *hold {
	delete(b.ahead, e)
	if h := b.giveUp(e); h != nil {
		h.givenUpLater = false // so it existed and was given up
		return h
	}
	return had
}
