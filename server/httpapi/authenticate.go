package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"

	"redstalk/server/access"
)

// authenticate finds the user of a request and returns the request with the user in its
// context. If the user is refused, it answers the request and returns nil.
func (svc *service) authenticate(w http.ResponseWriter, r *http.Request) *http.Request {
	if svc.access == nil {
		return r
	}
	acl := svc.currentACL() // before the user is looked up, so that an older user never has a newer acl
	u, err := svc.access.RequestUser(r)
	if err != nil {
		refuse(w, r, u, err)
		return nil
	}
	return r.WithContext(context.WithValue(access.WithUser(r.Context(), u), aclKey{}, acl))
}

// consoleScheme is sent to the console instead of access.Challenge, because for that a
// browser would open its own login window. The console has its own login form.
const (
	consoleScheme = `Console realm="redstalk"`
	consoleHeader = "console" // value of changeHeader
)

// refuse answers a request that is unauthenticated or whose user lacks a right.
func refuse(w http.ResponseWriter, r *http.Request, u *access.User, err error) {
	status := access.Status(u, err)
	p := newProblem(status, codeForbidden, "the user does not have the right to do this")
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", access.Challenge)
		if r.Header.Get(changeHeader) == consoleHeader {
			w.Header().Set("WWW-Authenticate", consoleScheme)
		}
		p = newProblem(status, codeUnauthorized, "the user or the secret is wrong or missing")
	case http.StatusTooManyRequests:
		p = tooMany("too many logins are being checked already")
	case http.StatusForbidden:
		if err != nil {
			p = newProblem(status, codeForbidden, "%v", err)
		}
	}
	p.Write(w)
}

// clientOf identifies the sender of a request: by its user, or else by its address.
func (svc *service) clientOf(r *http.Request) string {
	if u := access.UserIn(r.Context()); u != nil && u != svc.access.Anonymous() {
		return "user " + u.Name()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// clientKey is the context key of the result of clientOf, for operations that huma serves.
type clientKey struct{}

func clientIn(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// errACLChanged ends waiting requests and streams when the users file has changed. Their
// clients send the request again, and it is checked again.
var errACLChanged = errors.New("the users have changed")

// aclKey is the context key of API.acl as it was when a request came.
type aclKey struct{}

// currentACL returns a context that ends when the users file changes.
func (svc *service) currentACL() context.Context {
	svc.aclMu.Lock()
	defer svc.aclMu.Unlock()
	return svc.acl
}

// aclChanged ends all waiting requests and streams.
func (svc *service) aclChanged() {
	svc.aclMu.Lock()
	defer svc.aclMu.Unlock()
	if svc.endACL != nil {
		svc.endACL(errACLChanged)
	}
	svc.acl, svc.endACL = context.WithCancelCause(context.Background())
}

// untilACLChange returns a context that ends with ctx, the context of a request, and when the
// users file changes; its cause is then errACLChanged. The caller must call end.
func untilACLChange(ctx context.Context) (_ context.Context, end func()) {
	acl, ok := ctx.Value(aclKey{}).(context.Context)
	if !ok {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(acl, func() { cancel(errACLChanged) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
