package redis

import (
	"context"
	"log/slog"
	"strings"
)

// A server that does not know AUTH, or a proxy in front of one, can quote in its error what it
// was sent: the password. So errors are redacted here before they are logged or returned.

// redacted replaces a password.
const redacted = "xxxxx"

// minRedacted is the shortest password that is searched for: shorter ones occur in any text.
const minRedacted = 4

// redactText returns a text without the password.
func (a *address) redactText(text string) string {
	if secret := a.options.Password; len(secret) >= minRedacted {
		return strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// redactError returns an error whose text is without the password.
func (a *address) redactError(err error) error {
	if text := err.Error(); a.redactText(text) != text {
		return &redactedError{a.redactText(text), err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// redactLog returns a logger that never logs the password.
func (a *address) redactLog(log *slog.Logger) *slog.Logger {
	return slog.New(&redactingHandler{log.Handler(), a})
}

type redactingHandler struct {
	slog.Handler
	address *address
}

// Handle implements slog.Handler.
func (h *redactingHandler) Handle(ctx context.Context, r slog.Record) error {
	record := slog.NewRecord(r.Time, r.Level, h.address.redactText(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		record.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, record)
}

// attr returns an attribute without the password.
func (h *redactingHandler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case error:
		a.Value = slog.AnyValue(h.address.redactError(v))
	case string:
		a.Value = slog.StringValue(h.address.redactText(v))
	}
	return a
}

// WithAttrs implements slog.Handler.
func (h *redactingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	redactedAttrs := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		redactedAttrs[i] = h.attr(a)
	}
	return &redactingHandler{h.Handler.WithAttrs(redactedAttrs), h.address}
}

// WithGroup implements slog.Handler.
func (h *redactingHandler) WithGroup(name string) slog.Handler {
	return &redactingHandler{h.Handler.WithGroup(name), h.address}
}
