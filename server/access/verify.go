package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"
)

// Errors of Authenticate, in addition to those of the context.
var (
	// ErrUnauthorized: there is no such user, or the secret is wrong.
	ErrUnauthorized = errors.New("wrong user or secret")

	// ErrBusy: too many attempts are waiting.
	ErrBusy = errors.New("too many login attempts at the same time")
)

// Login is an authenticated user.
type Login struct {
	User *User
	hash string // the hash of the secret in the file; "": authenticated by a certificate
}

// digest is a keyed hash of a name and a secret; the key never leaves the process.
type digest [sha256.Size]byte

// digest returns the digest of a name and a secret.
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

// loginCache holds the names and secrets that were verified: at most as many as the file has
// secrets.
type loginCache struct {
	mu     sync.RWMutex // guards logins
	logins map[digest]*Login
}

func (r *loginCache) find(d digest) *Login {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.logins[d]
}

func (r *loginCache) add(d digest, l *Login) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins[d] = l
}

// attempt is a login attempt.
type attempt struct {
	address, name, secret string
	digest                digest
	proven                bool // the same secret has logged in on the connection or from the address before
}

// Known returns the login of a user whose secret was verified before. It is quick. If it
// returns nil, Authenticate must follow, which counts the attempt.
func (a *Access) Known(address, name, secret string) *Login {
	return a.cachedLogin(&attempt{address: address, name: name, secret: secret, digest: a.digest(name, secret)}, false)
}

// cachedLogin is Known for an attempt; it also sets t.proven. counts says whether a wrong
// secret counts.
func (a *Access) cachedLogin(t *attempt, counts bool) *Login {
	l := a.file.Load().logins.find(t.digest)
	if t.proven || a.guesses.admits(t, l != nil, counts) {
		return l
	}
	return nil
}

// Authenticate verifies the secret of a user, for a client at an address (an IP address
// without a port, or any text for clients without one). It takes long, and longer after
// wrong secrets for that name from that address; but not for a secret that has logged in on
// the connection (see WithConn) or from the address. Identical concurrent attempts are
// verified together.
func (a *Access) Authenticate(ctx context.Context, address, name, secret string) (*Login, error) {
	c := connIn(ctx)
	t := &attempt{address: address, name: name, secret: secret, digest: a.digest(name, secret)}
	t.proven = c.hasDigest(t.digest)
	l := a.cachedLogin(t, true)
	if l == nil {
		var err error
		if l, err = a.flights.join(ctx, a, t); err != nil {
			if errors.Is(err, ErrUnauthorized) && c.hasDigest(t.digest) {
				c.setDigest(nil)
			}
			return nil, err
		}
	}
	if !c.hasDigest(t.digest) {
		c.setDigest(&t.digest)
	}
	return l, nil
}

// examine makes one login attempt. While that waits, it ends with ctx.
func (a *Access) examine(ctx context.Context, t *attempt) (*Login, error) {
	failures, err := a.guesses.enter(ctx, t)
	if err != nil {
		return nil, err
	}
	l, err := a.compare(ctx, t, failures)
	a.guesses.leave(t, err)
	if errors.Is(err, ErrUnauthorized) {
		a.logFailure(t.address, t.name)
	}
	return l, err
}

// compare compares the secret with the hashes of the user, when a processor is free for it.
// failures is the number of earlier failures.
func (a *Access) compare(ctx context.Context, t *attempt, failures int) (*Login, error) {
	if err := a.comparisons.acquire(ctx, failures); err != nil {
		return nil, err
	}
	defer a.comparisons.release()
	f := a.file.Load()
	if l := f.logins.find(t.digest); l != nil {
		return l, nil
	}
	l := f.verify(t.name, t.secret)
	if l == nil {
		return nil, ErrUnauthorized
	}
	f.logins.add(t.digest, l)
	return l, nil
}

// verify makes the same number of comparisons for every name.
func (f *file) verify(name, secret string) (found *Login) {
	u := f.users[name]
	for i := range f.decoys {
		h, real := &f.decoys[i], u != nil && i < len(u.secrets)
		if real {
			h = &u.secrets[i]
		}
		if h.matchesSecret(secret) && real && len(secret) <= MaxSecret {
			found = &Login{u, h.text}
		}
	}
	return found
}

// logFailure logs a wrong secret. The name is logged only if there is such a user, since it
// may be the secret.
func (a *Access) logFailure(address, name string) {
	if a.file.Load().users[name] == nil {
		name = "unknown"
	}
	a.failures.Warn(a.log, "a wrong user or secret", "from", address, "user", name)
}
