package redis

import (
	"context"
	"errors"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// mail reads what other instances tell this one: names of tubes in which there
// is a job for somebody waiting here.
type mail struct {
	part *partition
	link *link
	log  *slog.Logger

	cancel context.CancelFunc
	done   chan struct{} // nil until started
}

const (
	// mailWait is how long one look into an empty mailbox lasts.
	mailWait = time.Second

	// mailRetry is the pause after a look that failed.
	mailRetry = 100 * time.Millisecond
)

func newMail(p *partition, l *link) *mail {
	return &mail{part: p, link: l, log: p.log, cancel: func() {}}
}

func (m *mail) start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel, m.done = cancel, make(chan struct{})
	go m.run(ctx)
}

// wait returns when the reading has ended, which cancel and the closing of
// the client bring about. It need not have been started.
func (m *mail) wait() {
	if m.done != nil {
		<-m.done
	}
}

func (m *mail) run(ctx context.Context) {
	defer close(m.done)
	for ctx.Err() == nil {
		got, err := m.look(ctx)
		switch {
		case err == nil:
			m.part.hint(got[1])
		case errors.Is(err, goredis.Nil), ctx.Err() != nil:
		default:
			m.log.Debug("reading the mail failed", "err", err)
			time.Sleep(mailRetry)
		}
	}
}

// look waits for a letter.
func (m *mail) look(ctx context.Context) ([]string, error) {
	node, err := m.link.node(ctx, m.part.prefix)
	if err != nil {
		return nil, err
	}
	return node.BLPop(ctx, mailWait, m.part.prefix+"mail:"+*m.part.instance.Load()).Result()
}
