package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
)

// Errors of Authenticate, beside that of a context.
var (
	// ErrUnauthorized: there is no such user, or the secret is not the user's.
	ErrUnauthorized = errors.New("wrong user or secret")

	// ErrBusy: too many attempts wait already.
	ErrBusy = errors.New("too many attempts to come in at the same time")
)

// Login is a user who has come in, and by what.
type Login struct {
	User *User
	hash string // that of the secret, as the file has it; "": it was a certificate
}

// digest stands for a name and a secret that belong together.
type digest [sha256.Size]byte

// remembered are the names and secrets that were found to be right, by a hash whose key
// is nowhere else.
type remembered struct {
	key    [32]byte
	mu     sync.RWMutex // guards logins
	logins map[digest]*Login
}

func (r *remembered) init() {
	rand.Read(r.key[:]) // never fails, see crypto/rand
	r.logins = make(map[digest]*Login)
}

func (r *remembered) digest(name, secret string) (d digest) {
	h := hmac.New(sha256.New, r.key[:])
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(name)))
	h.Write(length[:])
	h.Write([]byte(name))
	h.Write([]byte(secret))
	h.Sum(d[:0])
	return d
}

func (r *remembered) find(d digest) *Login {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.logins[d]
}

func (r *remembered) add(d digest, l *Login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins[d] = l
}

// Known returns the login of a user whose secret was verified before, nil if that has to
// be done by Authenticate. It is quick.
func (a *Access) Known(address, name, secret string) *Login {
	f := a.file.Load()
	if l := f.known.find(f.known.digest(name, secret)); l != nil && a.guesses.free(address) {
		return l
	}
	return nil
}

// Authenticate finds out whose secret that is, for somebody at an address (an IP address
// without a port, or any text for those who have none). It takes long, and longer after
// wrong secrets from that address. The same question that is asked again meanwhile is
// answered together with the first one.
func (a *Access) Authenticate(ctx context.Context, address, name, secret string) (*Login, error) {
	if l := a.Known(address, name, secret); l != nil {
		return l, nil
	}
	f := a.file.Load()
	d := f.known.digest(name, secret)
	results := a.flights.DoChan(string(d[:])+address, func() (any, error) {
		return a.examine(address, name, secret)
	})
	select {
	case r := <-results:
		l, _ := r.Val.(*Login)
		return l, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// examine is one attempt to come in.
func (a *Access) examine(address, name, secret string) (*Login, error) {
	if err := a.guesses.enter(a.ctx, address); err != nil {
		return nil, err
	}
	l, err := a.compare(name, secret)
	failed := errors.Is(err, ErrUnauthorized)
	a.guesses.leave(address, failed)
	if failed {
		a.noteFailure(address, name)
	}
	return l, err
}

// compare compares the secret with the hashes of the user, when there is a processor to
// do so.
func (a *Access) compare(name, secret string) (*Login, error) {
	select {
	case a.comparing <- struct{}{}:
		defer func() { <-a.comparing }()
	case <-a.ctx.Done():
		return nil, a.ctx.Err()
	}
	f := a.file.Load()
	d := f.known.digest(name, secret)
	if l := f.known.find(d); l != nil {
		return l, nil
	}
	l := f.verify(name, secret)
	if l == nil {
		return nil, ErrUnauthorized
	}
	f.known.add(d, l)
	return l, nil
}

// verify makes as many comparisons for every name.
func (f *file) verify(name, secret string) (found *Login) {
	u := f.users[name]
	for i := range f.decoys {
		h, real := &f.decoys[i], u != nil && i < len(u.secrets)
		if real {
			h = &u.secrets[i]
		}
		if h.isOf(secret) && real && len(secret) <= MaxSecret {
			found = &Login{u, h.text}
		}
	}
	return found
}

// noteFailure logs that somebody gave a wrong secret. The name is told only if it is one
// of a user: it may be a secret, too.
func (a *Access) noteFailure(address, name string) {
	if a.file.Load().users[name] == nil {
		name = "unknown"
	}
	a.failures.Warn(a.log, "a wrong user or secret", "from", address, "user", name)
}
