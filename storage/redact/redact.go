package redact

import (
	"context"
	"log/slog"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Hidden replaces a secret.
const Hidden = "xxxxx"

// shortestSecret is the shortest password that is replaced in other texts: shorter
// ones would match by chance.
const shortestSecret = 4

// URL returns s with user and password of a URL replaced. s is a URL or contains one, and
// can be malformed: URL is also used on mistyped values.
func URL(s string) string {
	from, to := userInfo(s)
	return s[:from] + hide(s[from:to]) + s[to:]
}

// hide returns what is shown in place of a secret; "" for no secret.
func hide(secret string) string {
	if secret == "" {
		return ""
	}
	return Hidden
}

// userInfo returns where user and password of a URL are in s: s[from:to]. Without
// an @ it is everything, unless all of it can be hosts.
func userInfo(s string) (from, to int) {
	if isPath(s) {
		return 0, 0
	}
	if slashes := strings.Index(s, "//"); slashes >= 0 {
		from = slashes + len("//")
	} else {
		from = len(scheme.FindString(s))
	}
	if at := strings.LastIndexByte(s[from:], '@'); at >= 0 {
		return from, from + at
	}
	if from == 0 || onlyHosts.MatchString(s[from:]) {
		return 0, 0
	}
	return from, len(s)
}

// scheme matches the scheme of a store that has a password.
var scheme = regexp.MustCompile(`^(rediss?(\+sentinel|\+cluster)?|unix):`)

// onlyHosts matches the part after the slashes of a URL if none of it can be a password
// instead of a host: hosts with ports, a name and a number, and parameters.
var onlyHosts = regexp.MustCompile(strings.ReplaceAll(
	`^HOST(,HOST)*(/[\w.-]*){0,2}(\?(\w+=[^&#]*&?)*)?$`, "HOST", `(\[[0-9a-fA-F:.%]*\]|[^][:,/?#]*)(:\d{0,5})?`))

// isPath reports whether s is a path, in which an @ is part of a file name.
func isPath(s string) bool {
	if socket, ok := strings.CutPrefix(s, "unix:///"); ok {
		return !strings.Contains(socket, "@/")
	}
	return !strings.Contains(s, "://") && (strings.HasPrefix(s, "embedded:") || strings.HasPrefix(s, "unix:/"))
}

// A Redactor replaces the secrets of one URL in texts.
type Redactor struct{ pairs [][2]string } // secrets, and what is shown in their place

// New returns a redactor for user and password of a URL: both together and the password alone,
// in the form of the URL, in Go quotes, and unescaped. Other secrets can be added.
func New(rawURL string, others ...string) *Redactor {
	from, to := userInfo(rawURL)
	both := rawURL[from:to]
	_, password, found := strings.Cut(both, ":")
	if !found {
		password = both
	}
	r := new(Redactor)
	if both != "" {
		r.pairs = [][2]string{{rawURL, URL(rawURL)}, {goQuoted(rawURL), URL(rawURL)}}
	}
	for _, secret := range append([]string{both, goQuoted(both), unescaped(both), password, goQuoted(password), unescaped(password)}, others...) {
		if len(secret) >= shortestSecret {
			r.pairs = append(r.pairs, [2]string{secret, Hidden})
		}
	}
	return r
}

// goQuoted is s as %q writes it, without the quotes.
func goQuoted(s string) string {
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

func unescaped(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// Text returns a text without secrets.
func (r *Redactor) Text(text string) string {
	for _, pair := range r.pairs {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// Error returns an error whose text is without secrets, while those that it wraps may have some.
func (r *Redactor) Error(err error) error {
	if text := err.Error(); r.Text(text) != text {
		return &redactedError{r.Text(text), err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Error returns an error whose text is without user and password of a URL.
func Error(rawURL string, err error) error { return New(rawURL).Error(err) }

// Logger returns a logger that logs no secrets.
func (r *Redactor) Logger(log *slog.Logger) *slog.Logger {
	return slog.New(&handler{log.Handler(), r})
}

// handler passes records on without secrets.
type handler struct {
	slog.Handler
	redactor *Redactor
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	record := slog.NewRecord(r.Time, r.Level, h.redactor.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		record.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, record)
}

// attr returns an attribute without secrets.
func (h *handler) attr(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case error:
		a.Value = slog.AnyValue(h.redactor.Error(v))
	case string:
		a.Value = slog.StringValue(h.redactor.Text(v))
	}
	return a
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	redacted := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		redacted[i] = h.attr(a)
	}
	return &handler{h.Handler.WithAttrs(redacted), h.redactor}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.redactor}
}
