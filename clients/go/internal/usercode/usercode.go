// Package usercode calls functions and methods that the program has given to a client or a worker. They may panic or end their
// goroutine, which must not end the process, nor a goroutine of the client.
package usercode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

var errExited = errors.New("it called runtime.Goexit")

// Call calls f in a goroutine of its own. The error says that f panicked or ended its goroutine.
func Call(f func()) error {
	ended := make(chan error, 1)
	go func() {
		err := errExited
		defer func() { ended <- err }()
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		f()
		err = nil
	}()
	return <-ended
}

// Text returns the text of an error, or its type if the text cannot be read.
func Text(err error) (text string) {
	if err == nil {
		return "<nil>"
	}
	if fault := Call(func() { text = err.Error() }); fault != nil {
		return fmt.Sprintf("%T, whose text cannot be read: %v", err, fault)
	}
	return text
}

// Logger returns a logger that drops what the handler of l fails to log.
func Logger(l *slog.Logger) *slog.Logger { return slog.New(handler{l.Handler()}) }

type handler struct{ slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	_ = Call(func() { enabled = h.Handler.Enabled(ctx, level) })
	return enabled
}

func (h handler) Handle(ctx context.Context, record slog.Record) (err error) {
	if fault := Call(func() { err = h.Handler.Handle(ctx, record) }); fault != nil {
		return fault
	}
	return err
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.derived(func() slog.Handler { return h.Handler.WithAttrs(attrs) })
}

func (h handler) WithGroup(name string) slog.Handler {
	return h.derived(func() slog.Handler { return h.Handler.WithGroup(name) })
}

func (h handler) derived(derive func() slog.Handler) slog.Handler {
	derived := h
	_ = Call(func() { derived = handler{derive()} })
	return derived
}
