package server

import (
	"errors"
	"syscall"
	"time"
)

// backoff spaces out tries of something that fails for lack of resources, so
// that neither the processor nor the log is flooded.
type backoff struct{ delay time.Duration }

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// wait sleeps, longer each time. It returns whether this was the first time
// since reset.
func (b *backoff) wait() (first bool) {
	first = b.delay == 0
	b.delay = min(max(2*b.delay, backoffMin), backoffMax)
	time.Sleep(b.delay)
	return first
}

func (b *backoff) reset() { b.delay = 0 }

// isTemporary tells whether accepting may work again later: descriptors or
// memory have run out, or the connection was gone before it was accepted.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.EPROTO, syscall.EINTR,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
