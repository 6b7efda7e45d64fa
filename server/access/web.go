package access

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"strings"
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

// userKey is the key of the user in the context of a request.
type userKey struct{}

// WithUser returns a context that tells UserIn who asks.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserIn returns who asks, nil if the context does not tell: then nobody is kept out.
func UserIn(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}

// Protect lets those requests through to a handler whose user has all of these rights on
// every tube. It is for doors that do not know users themselves. The others are answered
// 401, 403 or, if too many wait already, 429. With a nil Access it is the handler itself.
func (a *Access) Protect(handler http.Handler, all Right) http.Handler {
	if a == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := a.RequestUser(r)
		switch {
		case err == nil && u.Everywhere()&all == all:
			handler.ServeHTTP(w, r.WithContext(WithUser(r.Context(), u)))
		default:
			Refuse(w, u, err)
		}
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

// Refuse answers a request with Status.
func Refuse(w http.ResponseWriter, u *User, err error) {
	status := Status(u, err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", Challenge)
	}
	http.Error(w, http.StatusText(status), status)
}
