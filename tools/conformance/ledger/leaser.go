package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// mostLeases is the largest number of leases of a leaser.
const mostLeases = 8

// keyedTubes is how many tubes leasers put jobs in.
const keyedTubes = 3

// lease is a leaser's lease of a job, which any connection can use.
type lease struct {
	e     *entry
	id    uint64 // of the job at that time
	token string
	h     *hold
}

// leaser is a client that puts jobs with keys, and uses leases.
type leaser struct {
	*client
	producer int
	leases   []*lease // leases that it has done nothing with yet
	again    *entry   // its put is to be repeated
	watching *wire    // the connection that watches its tubes; a new one does not yet
	only     string   // the only tube that it watches; "" if there are more
}

// lease puts jobs with keys, leases some and finishes them, through changing servers.
func (l *Ledger) lease(ctx context.Context, c *client, number int) {
	b := &leaser{client: c, producer: l.config.Producers + l.config.Bursters + number}
	nap := l.newNap(c.rng)
	for c.connect(ctx) {
		c.exchange(append(b.watch(), b.next()...), nil)
		if nap.due() && len(b.leases) > 0 {
			nap.take(ctx, l)
		}
		if c.rng.IntN(20) == 0 { // a lease belongs to no connection
			c.close()
		}
		sleep(ctx, time.Duration(c.rng.Int64N(int64(2*l.config.LeasePace)+1)))
	}
	l.abandon(b.again)
}

// watch makes a new connection watch the tubes of leasers, with or without that of dead letters; or,
// if there are limits, mostly one of them.
func (b *leaser) watch() (requests []request) {
	if b.watching == b.wire {
		return nil
	}
	b.watching = b.wire
	tubes := b.ledger.keyed
	if b.rng.IntN(3) == 0 {
		tubes = tubes[:len(tubes)-1]
	}
	b.only = ""
	if b.ledger.config.GroupLimit > 0 && b.rng.IntN(3) > 0 {
		b.only = b.tube()
		tubes = []string{b.only}
	}
	for _, name := range tubes {
		requests = append(requests, request{text: fmt.Sprintf("watch %s\r\n", name), want: "WATCHING", settle: none})
	}
	return append(requests, request{text: "ignore default\r\n", want: "WATCHING", settle: none})
}

// next returns the leaser's next requests.
func (b *leaser) next() []request {
	if e := b.again; e != nil {
		b.again = nil
		return b.put(e)
	}
	switch n := b.rng.IntN(100); {
	case n < 35 && b.takeSlot():
		return b.put(b.ledger.beginKeyed(b.producer, b.rng))
	case n < 65 && len(b.leases) < mostLeases:
		return []request{b.take()}
	case n < 92 && len(b.leases) > 0:
		return []request{b.finish()}
	case n < 96:
		return b.tryPast()
	case n < 98:
		return []request{b.move()}
	case n < 99 && b.ledger.config.GroupLimit > 0:
		return []request{b.pauseGroup()}
	}
	return []request{
		{text: fmt.Sprintf("use %s\r\n", b.tube()), want: "USING", settle: none},
		{text: fmt.Sprintf("kick %d\r\n", 1+b.rng.IntN(20)), want: "KICKED", settle: none},
	}
}

// tube returns a random tube of leasers, which can be that of dead letters.
func (b *leaser) tube() string { return b.ledger.keyed[b.rng.IntN(len(b.ledger.keyed))] }

// put puts a job. It is repeated until there is a reply, and sometimes once more.
func (b *leaser) put(e *entry) []request {
	sent := b.ledger.sending()
	return []request{
		{text: fmt.Sprintf("use %s\r\n", e.tube), want: "USING", settle: none},
		{text: fmt.Sprintf("%s\r\n%s\r\n", e.line, b.ledger.body(e)), want: "INSERTED", settle: func(r reply) {
			if b.ledger.insertedKeyed(e, r, sent) || r.end == done && b.rng.IntN(8) == 0 {
				b.again = e
			}
		}},
	}
}

// take leases a job if one becomes ready within a second.
func (b *leaser) take() request {
	wait := time.Duration(b.rng.IntN(4)/3) * time.Second
	sent, since, only := b.ledger.sending(), time.Now(), b.only
	return request{text: fmt.Sprintf("reserve-lease %d\r\n", int(wait.Seconds())), want: "LEASED", wait: wait, settle: func(r reply) {
		if r.end != done {
			return
		}
		e := b.ledger.seen(r.id, r.body, sent)
		if e == nil {
			return
		}
		x := &lease{e: e, id: r.id, token: r.token, h: &hold{addr: b.at, since: since, lease: true, tube: only}}
		b.ledger.tokenGiven(x, sent)
		b.handedOut(e, sent, x.h)
		b.leases = append(b.leases, x)
	}}
}

// finish does something with a leased job.
func (b *leaser) finish() request {
	at := b.rng.IntN(len(b.leases))
	x := b.leases[at]
	command, want := b.leaseCommand(x)
	if want == "TOUCHED" {
		return request{text: command, want: want, settle: func(r reply) {
			if r.end == refused {
				b.ledger.denied(x.e, x.h)
			}
		}}
	}
	b.leases = slices.Delete(b.leases, at, at+1)
	b.ledger.giveUpLease(b.client, x)
	if want == "DELETED" {
		b.ledger.deleting(x.e)
	}
	return request{text: command, want: want, settle: func(r reply) {
		switch {
		case want == "DELETED":
			b.ledger.deletion(x.e, x.h, r.end)
		case r.end == refused:
			b.ledger.denied(x.e, x.h)
		}
		if r.end == done {
			b.ledger.tokenPast(x)
		}
	}}
}

// leaseCommand draws a command with a lease, and returns it with its reply when it is executed.
func (b *leaser) leaseCommand(x *lease) (command, want string) {
	switch n := b.rng.IntN(20); {
	case n < 9:
		return fmt.Sprintf("delete-lease %d %s\r\n", x.id, x.token), "DELETED"
	case n < 11:
		return fmt.Sprintf("touch-lease %d %s\r\n", x.id, x.token), "TOUCHED"
	case n < 18:
		return fmt.Sprintf("release-lease %d %s %d %d\r\n", x.id, x.token, b.rng.Uint32N(100), b.rng.IntN(6)/5), "RELEASED"
	}
	return fmt.Sprintf("bury-lease %d %s %d\r\n", x.id, x.token, b.rng.Uint32N(100)), "BURIED"
}

// tryPast sends a command with a lease that is over, which the server must refuse.
func (b *leaser) tryPast() []request {
	x := b.ledger.somePast(b.rng)
	if x == nil {
		return nil
	}
	command, want := b.leaseCommand(x)
	return []request{{text: command, want: want, settle: func(r reply) { b.ledger.triedPast(x, want, b.at, r.end) }}}
}

// move moves jobs from one tube to another.
func (b *leaser) move() request {
	state := []string{"ready", "ready", "delayed", "buried"}[b.rng.IntN(4)]
	text := fmt.Sprintf("move-jobs %s %s %s %d\r\n", b.tube(), state, b.tube(), 1+b.rng.IntN(20))
	return request{text: text, want: "MOVED", settle: func(r reply) {
		if r.end == done {
			b.ledger.count(func(report *Report) { report.Moved += int(r.id) })
		}
	}}
}

// keyedLine makes the line of a put with random tags, without its end.
func (l *Ledger) keyedLine(e *entry, rng *rand.Rand) string {
	line := fmt.Sprintf("put %d %d %d %d key:%s key-ttl:1h", rng.Uint32N(100), rng.IntN(8)/7, int(e.ttr.Seconds()), len(l.body(e)), e.key)
	if e.group != "" {
		line += " group:" + e.group
	}
	line += []string{"", " retry:100ms,400ms", " retry:0,1s,0"}[rng.IntN(3)]
	if rng.IntN(2) == 0 {
		line += fmt.Sprintf(" max:%d", 1+rng.IntN(4))
	}
	if rng.IntN(4) > 0 {
		line += " dead:" + l.keyed[len(l.keyed)-1]
	}
	return line + []string{"", " on-duplicate:keep", " on-duplicate:fail"}[rng.IntN(3)]
}
