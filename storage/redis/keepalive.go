package redis

import (
	"context"
	"sync/atomic"
	"time"
)

// Heartbeats go out with the calls, which come one after the other. A call may take
// longer than the others wait for a heartbeat, though all is in order: it brings or
// sends a body of many MiB over a slow line. So while a call is under way that takes
// long, a pulse is sent beside it by another connection: a heartbeat that does nothing
// else, and nothing at all if the instance was declared dead already.
//
// A call that makes no progress fails soon (conn.go), and then there is no pulse.

const (
	// pulseEvery is how often it is looked whether a call takes long, and
	// pulseAfter how long that is. The last heartbeat was asked for 1.5 s before the
	// call began at most, so a pulse comes well before silence is over.
	keepaliveEvery = 500 * time.Millisecond
	keepaliveAfter = 400 * time.Millisecond
)

// pulseScript gives a heartbeat.
var keepaliveScript = scriptFrom("keepalive.lua")

// pulse gives heartbeats beside calls that take long.
type keepalive struct {
	part *partition
	link *link

	cancel context.CancelFunc
	done   chan struct{}
}

// newPulse begins to watch the calls of a partition. The link is one by which the
// calls do not wait in the kernel.
func newKeepalive(p *partition, l *link) *keepalive {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keepalive{part: p, link: l, cancel: cancel, done: make(chan struct{})}
	go k.run(ctx)
	return k
}

func (k *keepalive) run(ctx context.Context) {
	defer close(k.done)
	ticker := time.NewTicker(keepaliveEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if k.part.calling.takes(keepaliveAfter) {
			if err := k.send(ctx); err != nil && ctx.Err() == nil {
				k.part.log.Debug("a heartbeat beside a call has failed", "err", err)
			}
		}
	}
}

// give gives a heartbeat. It shares nothing with the call that is under way.
func (k *keepalive) send(ctx context.Context) error {
	p := k.part
	node, err := k.link.node(ctx, p.prefix)
	if err != nil {
		return err
	}
	return keepaliveScript().Run(ctx, node, []string{p.prefix}, p.instance.name(), p.options.clockMoved()).Err()
}

// clockMoved is how many ms tests add to the clock of Redis.
func (o *Options) clockMoved() int64 {
	moved := o.skew()
	if o.redisStep != nil {
		moved += o.redisStep()
	}
	return moved.Milliseconds()
}

// calling is since when a call is under way.
type calling struct{ since atomic.Int64 } // ns since the epoch; 0 if there is none

func (c *calling) begin(now time.Time) { c.since.Store(now.UnixNano()) }
func (c *calling) end()                { c.since.Store(0) }

// takes returns whether a call is under way for so long, or longer.
func (c *calling) takes(long time.Duration) bool {
	since := c.since.Load()
	return since != 0 && time.Since(time.Unix(0, since)) >= long
}
