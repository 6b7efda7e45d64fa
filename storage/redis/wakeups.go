package redis

import (
	"context"
	"errors"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// wakeUpReader receives wake-ups from other instances for one partition: names of tubes in
// which there is a job for a client that waits here. They are a list in Redis, wakeups:INST.
type wakeUpReader struct {
	part *partition
	link *link
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

func newWakeUpReader(p *partition, l *link) *wakeUpReader {
	return &wakeUpReader{part: p, link: l, log: p.log, cancel: func() {}}
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
		tube, err := n.receive(ctx)
		switch {
		case err == nil:
			n.part.wake(wakeUp{tube, 1})
		case errors.Is(err, goredis.Nil), ctx.Err() != nil:
		default:
			n.log.Debug("receiving wake-ups has failed", "err", err)
			time.Sleep(wakeUpReadRetry)
		}
	}
}

// receive waits for one wake-up and returns its tube.
func (n *wakeUpReader) receive(ctx context.Context) (string, error) {
	node, err := n.link.node(ctx, n.part.prefix)
	if err != nil {
		return "", err
	}
	got, err := node.BLPop(ctx, wakeUpReadTimeout, n.part.prefix+"wakeups:"+n.part.instance.name()).Result()
	if err != nil {
		return "", err
	}
	return got[1], nil
}
