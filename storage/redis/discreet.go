package redis

import (
	"context"
	"log/slog"
	"strings"
)

// A server that does not know AUTH, or a proxy in front of one, may quote in its
// error what it was sent: the password. So what is told of errors goes through here.

// hidden stands for a password.
const hidden = "xxxxx"

// shortest is how long a password is at least to be looked for: shorter ones would
// be found in any text.
const shortest = 4

// hideIn returns a text without the password.
func (a *address) hideIn(text string) string {
	if secret := a.options.Password; len(secret) >= shortest {
		return strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// hide returns an error whose text is without the password.
func (a *address) hide(err error) error {
	if text := err.Error(); a.hideIn(text) != text {
		return &discreetError{a.hideIn(text), err}
	}
	return err
}

type discreetError struct {
	text string
	err  error
}

func (e *discreetError) Error() string { return e.text }
func (e *discreetError) Unwrap() error { return e.err }

// discreet returns a log that is never told the password.
func (a *address) discreet(log *slog.Logger) *slog.Logger {
	return slog.New(&discreetHandler{log.Handler(), a})
}

type discreetHandler struct {
	slog.Handler
	address *address
}

// Handle implements slog.Handler.
func (h *discreetHandler) Handle(ctx context.Context, r slog.Record) error {
	its := slog.NewRecord(r.Time, r.Level, h.address.hideIn(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		its.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, its)
}

// attr returns an attribute without the password.
func (h *discreetHandler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case error:
		a.Value = slog.AnyValue(h.address.hide(v))
	case string:
		a.Value = slog.StringValue(h.address.hideIn(v))
	}
	return a
}

// WithAttrs implements slog.Handler.
func (h *discreetHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	its := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		its[i] = h.attr(a)
	}
	return &discreetHandler{h.Handler.WithAttrs(its), h.address}
}

// WithGroup implements slog.Handler.
func (h *discreetHandler) WithGroup(name string) slog.Handler {
	return &discreetHandler{h.Handler.WithGroup(name), h.address}
}
