package redis

import (
	"context"
	"time"

	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
)

// Heartbeats are sent with the calls, which come one after the other. A call can take longer
// than the heartbeat timeout although nothing is wrong: it sends or receives a body of many MiB
// over a slow line. So while a long call is under way, keepalives are sent beside it on another
// connection. A keepalive is a heartbeat that does nothing else, and fails if the instance was
// already declared dead.
//
// A call that makes no progress fails soon (conn), and then there are no keepalives.

const (
	// keepaliveEvery is the interval of checks whether a call is long, keepaliveAfter the
	// duration of a long call. The last heartbeat was requested at most 1.5 s before the call
	// began, so a keepalive comes well before schema.HeartbeatTimeout is over.
	keepaliveEvery = 500 * time.Millisecond
	keepaliveAfter = 400 * time.Millisecond
)

// keepaliveScript sends a heartbeat.
var keepaliveScript = lua.Load("keepalive.lua")

// keepalive sends heartbeats beside calls that take long.
type keepalive struct {
	part *partition
	pool *conn.Pool

	cancel context.CancelFunc
	done   chan struct{}
}

// newKeepalive starts to watch the calls of a partition.
func newKeepalive(p *partition, pool *conn.Pool) *keepalive {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keepalive{part: p, pool: pool, cancel: cancel, done: make(chan struct{})}
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

// send sends a heartbeat. It shares nothing with the call that is under way.
func (k *keepalive) send(ctx context.Context) error {
	p := k.part
	node, err := k.pool.Node(ctx, p.prefix)
	if err != nil {
		return err
	}
	return node.Run(ctx, keepaliveScript(), []string{p.prefix}, p.instance.name(), p.options.clockMoved()).Err
}

// clockMoved returns how many ms tests add to the clock of Redis.
func (o *Options) clockMoved() int64 {
	moved := o.skew()
	if o.redisStep != nil {
		moved += o.redisStep()
	}
	return moved.Milliseconds()
}
