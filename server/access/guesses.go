package access

import (
	"context"
	"errors"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// guesses makes those wait who give wrong secrets, by their addresses and the names that they
// give. Both are counted in a fixed number of places, chosen by a hash that nobody outside can
// foretell, so its memory is bounded and nobody can push out what is known of an address. Those
// that share a place wait for each other's failures. An address has few places, whatever names
// it gives: so it cannot slow down all others.
//
// Who gives a secret that came in from the same place before does not wait. That is looked up
// quickly, so only a few wrong secrets a second are looked up: nobody may guess by that.
type guesses struct {
	seed   maphash.Seed
	mu     sync.Mutex // guards places
	places [4096]place
}

// place is what is known of the addresses and names that share it.
type place struct {
	right   digest // of the last attempt that was right
	second  int64  // in which lookups were counted
	lookups int    // of wrong secrets, in that second

	failures int
	last     time.Time // failure
	open     time.Time // from when on the next attempt is looked at
	busy     int       // attempts that are being looked at
	waiting  int       // attempts that are not yet
}

const (
	firstDelay = 100 * time.Millisecond // after the first failure
	longest    = 10 * time.Second       // after many
	forgiven   = time.Minute            // in which half of the failures are forgotten

	groups     = 4                     // of names, for each address
	maxLookups = 10                    // of wrong secrets in a second
	maxBusy    = 2                     // attempts at a time at one place
	maxWaiting = 256                   // attempts that wait; further ones fail at once
	recheck    = 20 * time.Millisecond // while others are busy
)

func newGuesses() *guesses { return &guesses{seed: maphash.MakeSeed()} }

// at returns the place of a name and an address, which is an IP address or any other text. Of
// an IPv6 address only the network counts: whoever has one has 2^64 addresses in it.
func (g *guesses) at(address, name string) *place {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip = ip.Unmap().WithZone(""); ip.Is6() {
			network, _ := ip.Prefix(64)
			ip = network.Addr()
		}
		address = ip.String()
	}
	group := maphash.String(g.seed, name) % groups
	return &g.places[maphash.Comparable(g.seed, struct {
		address string
		group   uint64
	}{address, group})%uint64(len(g.places))]
}

// admits reports whether an attempt need not wait. right says that its secret is known to be
// right.
func (g *guesses) admits(t *attempt, right bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, now := g.at(t.address, t.name), time.Now()
	if !now.Before(p.open) {
		if right {
			p.right = t.digest
		}
		return true
	}
	if p.second != now.Unix() {
		p.second, p.lookups = now.Unix(), 0
	}
	if p.lookups < maxLookups {
		if t.proven = p.right == t.digest; !t.proven {
			p.lookups++
		}
	}
	return t.proven
}

// enter waits until an attempt may be looked at, and returns how many have failed before it
// from its place, 0 for one that is proven. It returns ErrBusy if too many wait, and the error
// of ctx if that ends first; otherwise leave must follow.
func (g *guesses) enter(ctx context.Context, t *attempt) (failures int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(t.address, t.name)
	if t.proven {
		p.busy++
		return 0, nil
	}
	if p.waiting >= maxWaiting {
		return 0, ErrBusy
	}
	p.waiting++
	defer func() { p.waiting-- }()
	for {
		in := time.Until(p.open)
		if in <= 0 && p.busy < maxBusy {
			p.busy++
			return p.failures, nil
		}
		g.mu.Unlock()
		err := sleep(ctx, max(in, recheck))
		g.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
}

// leave ends an attempt that has entered, with its result.
func (g *guesses) leave(t *attempt, result error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(t.address, t.name)
	p.busy--
	switch {
	case result == nil:
		p.right = t.digest
	case errors.Is(result, ErrUnauthorized):
		p.failed(t, time.Now())
	}
}

// failed counts an attempt with a wrong secret.
func (p *place) failed(t *attempt, now time.Time) {
	if p.right == t.digest {
		p.right = digest{} // it was right in another file
	}
	p.failures >>= min(now.Sub(p.last)/forgiven, 32)
	p.failures++
	p.last = now
	p.open = now.Add(delayAfter(p.failures))
}

// delayAfter is how long nothing is looked at after so many failures.
func delayAfter(failures int) time.Duration {
	return min(firstDelay<<min(failures-1, 10), longest)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
