package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// ThrottleInterval is the shortest time between two messages that pass one Throttle.
const ThrottleInterval = 10 * time.Second

// Throttle limits repeated log messages. It passes the first message and then at most one
// per ThrottleInterval. It counts the messages that it drops; the next one that passes has
// their number as the attribute "dropped".
//
// The zero Throttle is ready to use. Its methods may be called from any goroutine.
type Throttle struct {
	// Clock is called for every message; nil means time.Now. It must not be changed
	// after the first message.
	Clock func() time.Time

	mu      sync.Mutex
	last    time.Time // when a message last passed; zero: none has
	dropped int       // messages since then
}

// Error logs a message at level Error, or drops it. It returns whether the
// message passed.
func (l *Throttle) Error(to *slog.Logger, msg string, args ...any) bool {
	return l.log(to, slog.LevelError, msg, args)
}

// Warn is Error at level Warn.
func (l *Throttle) Warn(to *slog.Logger, msg string, args ...any) bool {
	return l.log(to, slog.LevelWarn, msg, args)
}

func (l *Throttle) log(to *slog.Logger, level slog.Level, msg string, args []any) bool {
	dropped, pass := l.Allow()
	if !pass {
		return false
	}
	if dropped > 0 {
		args = append(args[:len(args):len(args)], "dropped", dropped)
	}
	to.Log(context.Background(), level, msg, args...)
	return true
}

// Allow is for callers that build the message themselves. If pass is true, the
// caller logs one message; dropped is how many calls were refused since the last
// one that passed. If pass is false, the caller logs nothing, and the call counts
// as dropped.
func (l *Throttle) Allow() (dropped int, pass bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.last.IsZero() && now.Sub(l.last) < ThrottleInterval {
		l.dropped++
		return 0, false
	}
	dropped, l.dropped, l.last = l.dropped, 0, now
	return dropped, true
}

func (l *Throttle) now() time.Time {
	if l.Clock == nil {
		return time.Now()
	}
	return l.Clock()
}
