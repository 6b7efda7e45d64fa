package access

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// RequestUser returns who sends a request: the user of its header Authorization (Basic,
// or Bearer with user:secret), or of its client certificate, or else Anonymous. It may
// take long, see Authenticate, whose errors it returns.
func (a *Access) RequestUser(r *http.Request) (*User, error) {
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

// credentials takes a header Authorization apart.
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

// hostOf is the address without its port; an address without one is as it is.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// conn is a connection of HTTP: what came in on it last.
type conn struct{ came atomic.Pointer[digest] }

// has reports whether that is what came in last. There is nothing on no connection.
func (c *conn) has(d digest) bool {
	if c == nil {
		return false
	}
	came := c.came.Load()
	return came != nil && *came == d
}

func (c *conn) set(d *digest) {
	if c != nil {
		c.came.Store(d)
	}
}

type connKey struct{}

// WithConn returns a context for all requests of a new connection. Who has come in on it does
// not wait for those who guess from the same address.
func WithConn(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, new(conn))
}

// connIn returns the connection of a context, nil if it is of none.
func connIn(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}

// userKey is the key of the user in the context of a request, and changedKey that of what
// is closed when the file changes.
type (
	userKey    struct{}
	changedKey struct{}
)

// WithUser returns a context that tells UserIn who asks.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserIn returns who asks, nil if the context does not tell: then nobody is kept out.
func UserIn(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}

// ChangedIn returns what is closed when another file of users takes the place of that of
// which UserIn is; nil if the context does not tell.
func ChangedIn(ctx context.Context) <-chan struct{} {
	changed, _ := ctx.Value(changedKey{}).(<-chan struct{})
	return changed
}

// Protect lets those requests through to a handler whose user has all of these rights on
// every tube, with a context for UserIn and ChangedIn; with Nothing, requests of everybody
// who does not come with a wrong secret. The others are refused, see Refuse. With a nil
// Access it is the handler itself.
func (a *Access) Protect(handler http.Handler, all Right) http.Handler {
	if a == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		changed := a.untilChange() // before the user: who is of the file of before sees the change
		u, err := a.RequestUser(r)
		if err != nil || u.Everywhere()&all != all {
			Refuse(w, r, u, err)
			return
		}
		ctx := context.WithValue(WithUser(r.Context(), u), changedKey{}, changed)
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Status returns the status of the answer to a request that RequestUser has failed for,
// or, if err is nil, whose user lacks a right. Who has not said who it is may do so: 401.
func Status(u *User, err error) int {
	switch {
	case errors.Is(err, ErrBusy):
		return http.StatusTooManyRequests
	case err != nil, u == nil, u.name == anonymous:
		return http.StatusUnauthorized
	}
	return http.StatusForbidden
}

// Challenge is the header WWW-Authenticate of an answer 401.
const Challenge = `Basic realm="redstalk", charset="UTF-8"`

// Refuse answers a request with Status, or if it is one of gRPC with the code that means
// the same.
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

// grpcType is what the content types of gRPC begin with.
const grpcType = "application/grpc"

// grpcCodes are UNAUTHENTICATED, PERMISSION_DENIED and RESOURCE_EXHAUSTED.
var grpcCodes = map[int]string{http.StatusUnauthorized: "16", http.StatusForbidden: "7", http.StatusTooManyRequests: "8"}
