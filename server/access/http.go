package access

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"redstalk/server/sight"
)

// RequestUser returns the user of a request: of the person whom a trusted proxy names, or of its
// Authorization header (Basic, or Bearer with user:secret), or of its client certificate, or else
// Anonymous. It can take long, see Authenticate, whose errors it returns, beside ErrSignOn.
func (a *Access) RequestUser(r *http.Request) (*User, error) {
	if u, err := a.signedOn(r); u != nil || err != nil {
		return u, err
	}
	if header := r.Header.Get("Authorization"); header != "" {
		name, secret, ok := credentials(header)
		if !ok {
			return nil, ErrUnauthorized
		}
		l, err := a.Authenticate(r.Context(), hostOf(r.RemoteAddr), name, secret)
		if err != nil {
			return nil, err
		}
		return l.User, nil
	}
	if r.TLS != nil {
		if l := a.Certified(NameOf(r.TLS)); l != nil {
			return l.User, nil
		}
	}
	return a.Anonymous(), nil
}

// credentials parses an Authorization header.
func credentials(header string) (name, secret string, ok bool) {
	scheme, rest, _ := strings.Cut(header, " ")
	rest = strings.TrimLeft(rest, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
	case strings.EqualFold(scheme, "Basic"):
		text, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return "", "", false
		}
		rest = string(text)
	default:
		return "", "", false
	}
	name, secret, ok = strings.Cut(rest, ":")
	return name, secret, ok && len(name) <= MaxUser && len(secret) <= MaxSecret
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// conn is an HTTP connection: the last login on it.
type conn struct{ last atomic.Pointer[digest] }

// hasDigest reports whether d was the last login. A nil conn has none.
func (c *conn) hasDigest(d digest) bool {
	if c == nil {
		return false
	}
	last := c.last.Load()
	return last != nil && *last == d
}

func (c *conn) setDigest(d *digest) {
	if c != nil {
		c.last.Store(d)
	}
}

type connKey struct{}

// WithConn returns a context for all requests of a new connection. A user who has logged in
// on it does not wait for guesses from the same address.
func WithConn(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, new(conn))
}

// connIn returns the connection of a context, or nil.
func connIn(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// userKey is the context key of the user of a request, and changedKey that of a channel that
// is closed when the file changes.
type (
	userKey    struct{}
	changedKey struct{}
)

// WithUser returns a context with the user of a request, for UserIn.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserIn returns the user of a context. nil means that there is no access control.
func UserIn(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}

// SightIn returns what the user of a context sees of the jobs of a tube: all of it if there is no access control.
func SightIn(ctx context.Context, tube string) sight.Sight {
	if u := UserIn(ctx); u != nil {
		return u.Sight(tube)
	}
	return sight.Full
}

// ChangedIn returns a channel that is closed when the file of users changes, so that UserIn's
// user may be out of date. It is nil if the context has none.
func ChangedIn(ctx context.Context) <-chan struct{} {
	changed, _ := ctx.Value(changedKey{}).(<-chan struct{})
	return changed
}

// Protect returns a handler that passes requests on if their user has all of these rights on
// every tube, and refuses the others (see Refuse). If the rights are Nothing, it refuses only
// requests with a wrong secret. The requests get a context for UserIn and ChangedIn. If a is
// nil, Protect returns the handler itself.
func (a *Access) Protect(handler http.Handler, all Right) http.Handler {
	if a == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changed := a.untilChange() // before the user: a user of the previous file then sees the change
		u, err := a.RequestUser(r)
		if err != nil || u.Everywhere()&all != all {
			Refuse(w, r, u, err)
			return
		}
		ctx := context.WithValue(WithUser(r.Context(), u), changedKey{}, changed)
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Status returns the status of the answer to a refused request. err is the error of
// RequestUser, or nil if the user lacks a right. For an unauthenticated client the status is
// 401.
func Status(u *User, err error) int {
	switch {
	case errors.Is(err, ErrBusy):
		return http.StatusTooManyRequests
	case errors.Is(err, ErrSignOn):
		return http.StatusForbidden
	case err != nil, u == nil, u.name == anonymous:
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

// Challenge is the WWW-Authenticate header of a 401 answer.
const Challenge = `Basic realm="redstalk", charset="UTF-8"`

// Refuse answers a request with Status, or a gRPC request with the equivalent code.
func Refuse(w http.ResponseWriter, r *http.Request, u *User, err error) {
	status := Status(u, err)
	if strings.HasPrefix(r.Header.Get("Content-Type"), grpcType) {
		h := w.Header()
		h.Set("Content-Type", grpcType)
		h.Set("Grpc-Status", grpcCodes[status])
		h.Set("Grpc-Message", http.StatusText(status))
		w.WriteHeader(http.StatusOK)
		return
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", Challenge)
	}
	http.Error(w, http.StatusText(status), status)
}

// grpcType is the prefix of the content types of gRPC.
const grpcType = "application/grpc"

// grpcCodes are UNAUTHENTICATED, PERMISSION_DENIED and RESOURCE_EXHAUSTED.
var grpcCodes = map[int]string{http.StatusUnauthorized: "16", http.StatusForbidden: "7", http.StatusTooManyRequests: "8"}
