package access

import (
	"context"
	"crypto/hmac"
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

// digest stands for a name and a secret that belong together, by a hash whose key is nowhere
// outside the process.
type digest [sha256.Size]byte

// digest returns that of a name and a secret.
func (a *Access) digest(name, secret string) (d digest) {
	h := hmac.New(sha256.New, a.key[:])
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(name)))
	h.Write(length[:])
	h.Write([]byte(name))
	h.Write([]byte(secret))
	h.Sum(d[:0])
	return d
}

// remembered are the names and secrets that were found to be right: at most as many as the
// file has secrets.
type remembered struct {
	mu     sync.RWMutex // guards logins
	logins map[digest]*Login
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

// attempt is one to come in.
type attempt struct {
	address, name, secret string
	digest                digest
	proven                bool // the same came in on the connection or from the address before
}

// Known returns the login of a user whose secret was verified before. It is quick. If it
// returns nil, Authenticate must follow, which counts the attempt.
func (a *Access) Known(address, name, secret string) *Login {
	return a.known(&attempt{address: address, name: name, secret: secret, digest: a.digest(name, secret)}, false)
}

// known is Known for an attempt, of which it finds out whether it is proven. counts says
// whether a wrong secret counts.
func (a *Access) known(t *attempt, counts bool) *Login {
	l := a.file.Load().known.find(t.digest)
	if t.proven || a.guesses.admits(t, l != nil, counts) {
		return l
	}
	return nil
}

// Authenticate finds out whose secret that is, for somebody at an address (an IP address
// without a port, or any text for those who have none). It takes long, and longer after
// wrong secrets for that name from that address; but not for a secret that has come in on
// the connection (see WithConn) or from the address. The same question that is asked again
// meanwhile is answered together with the first one.
func (a *Access) Authenticate(ctx context.Context, address, name, secret string) (*Login, error) {
	c := connIn(ctx)
	t := &attempt{address: address, name: name, secret: secret, digest: a.digest(name, secret)}
	t.proven = c.has(t.digest)
	l := a.known(t, true)
	if l == nil {
		var err error
		if l, err = a.flights.join(ctx, a, t); err != nil {
			if errors.Is(err, ErrUnauthorized) && c.has(t.digest) {
				c.set(nil)
			}
			return nil, err
		}
	}
	if !c.has(t.digest) {
		c.set(&t.digest)
	}
	return l, nil
}

// examine is one attempt to come in, which ends with ctx as long as it waits.
func (a *Access) examine(ctx context.Context, t *attempt) (*Login, error) {
	failures, err := a.guesses.enter(ctx, t)
	if err != nil {
		return nil, err
	}
	l, err := a.compare(ctx, t, failures)
	a.guesses.leave(t, err)
	if errors.Is(err, ErrUnauthorized) {
		a.noteFailure(t.address, t.name)
	}
	return l, err
}

// compare compares the secret with the hashes of the user, when there is a processor to
// do so. failures is how many there were before it.
func (a *Access) compare(ctx context.Context, t *attempt, failures int) (*Login, error) {
	if err := a.turns.take(ctx, failures); err != nil {
		return nil, err
	}
	defer a.turns.give()
	f := a.file.Load()
	if l := f.known.find(t.digest); l != nil {
		return l, nil
	}
	l := f.verify(t.name, t.secret)
	if l == nil {
		return nil, ErrUnauthorized
	}
	f.known.add(t.digest, l)
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
