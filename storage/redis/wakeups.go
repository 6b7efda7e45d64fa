package redis

import (
	"context"
	"log/slog"
	"time"

	"redstalk/storage/redis/conn"
)

// wakeUpReader receives wake-ups from other instances for one partition: names of tubes in
// which there is a job for a client that waits here. They are a list in Redis, wakeups:INST. So
// are messages of other instances (peers.go).
type wakeUpReader struct {
	part *partition
	pool *conn.Pool
	pop  func(n conn.Node, ctx context.Context, key string, timeout time.Duration) (string, bool, error)
	log  *slog.Logger

	cancel context.CancelFunc
	done   chan struct{} // nil until started
}

const (
	// wakeUpReadTimeout is how long one read of an empty list blocks.
	wakeUpReadTimeout = time.Second

	// wakeUpReadRetry is the pause after a read that has failed.
	wakeUpReadRetry = 100 * time.Millisecond
)

func newWakeUpReader(p *partition, pool *conn.Pool) *wakeUpReader {
	return &wakeUpReader{part: p, pool: pool, pop: conn.Node.Pop, log: p.log, cancel: func() {}}
}

func (n *wakeUpReader) start() {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan struct{})
	go n.readAll(ctx)
}

// wait returns when the reader has ended, after cancel and the closing of the link. It can be
// called even if start never was.
func (n *wakeUpReader) wait() {
	if n.done != nil {
		<-n.done
	}
}

func (n *wakeUpReader) readAll(ctx context.Context) {
	defer close(n.done)
	for ctx.Err() == nil {
		tube, ok, err := n.receive(ctx)
		switch {
		case ok && n.part.receiveMessage(tube):
		case ok:
			n.part.wake(wakeUp{tube, 1})
		case err != nil && ctx.Err() == nil:
			n.log.Debug("receiving wake-ups has failed", "err", err)
			time.Sleep(wakeUpReadRetry)
		}
	}
}

// receive waits for one wake-up and returns its tube; false if there is none in time.
func (n *wakeUpReader) receive(ctx context.Context) (tube string, ok bool, err error) {
	node, err := n.pool.Node(ctx, n.part.prefix)
	if err != nil {
		return "", false, err
	}
	return n.pop(node, ctx, n.part.prefix+"wakeups:"+n.part.instance.name(), wakeUpReadTimeout)
}

// notifyListener passes the wake-ups and due times of a reply to the listener.
func (p *partition) notifyListener(r *reply) {
	for _, w := range r.wakeUps {
		p.wake(w)
	}
	if r.due >= 0 {
		p.background.dueIn(p.clock.now(), r.due)
		p.listener.Due(r.due)
	}
}

// maxWakeUps limits how many times one wake-up is passed to the listener.
const maxWakeUps = 64

// wake wakes waiting clients of a tube, once for each job. If no client here waits, it asks
// Redis to wake another instance.
func (p *partition) wake(w wakeUp) {
	for range min(w.jobs, maxWakeUps) {
		if !p.listener.WakeUp(w.tube) {
			p.submit(&unit{background: func(c *call) { encodePassWakeUp(c, w.tube) }})
			return
		}
	}
}

// encodePassWakeUp passes a wake-up that no client here needs to another instance.
func encodePassWakeUp(c *call, tube string) { c.add(skipNumber, "pass-wakeup", tube) }
