package access

import (
	"context"
	"errors"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// guessLimiter delays clients that give wrong secrets, by their addresses and the user names
// that they give. Failures are counted in a fixed number of slots, chosen by a hash that
// nobody outside can predict, so memory is bounded and nobody can evict what is known of an
// address. Clients that share a slot wait for each other's failures. An address has only a
// few slots, whatever names it gives, so it cannot slow down all others.
//
// A secret that logged in from the same slot before does not wait. Since that lookup is
// quick, only a few wrong secrets per second are looked up, so that it does not help
// guessing.
type guessLimiter struct {
	seed  maphash.Seed
	mu    sync.Mutex // guards slots
	slots [4096]slot
}

// slot is what is known of the addresses and names that share it.
type slot struct {
	lastRight digest // of the last successful attempt
	second    int64  // the second in which lookups were counted
	lookups   int    // of wrong secrets, in that second

	failures int
	last     time.Time // failure
	nextAt   time.Time // when the next attempt can begin
	busy     int       // attempts under way
	waiting  int       // attempts that wait
}

const (
	firstDelay = 100 * time.Millisecond // after the first failure
	maxDelay   = 10 * time.Second       // after many failures
	halfLife   = time.Minute            // the time in which half of the failures are forgotten

	nameGroups = 4                     // of names, for each address
	maxLookups = 10                    // of wrong secrets per second
	maxBusy    = 2                     // concurrent attempts in one slot
	maxWaiting = 32                    // attempts that wait in one slot; further ones fail at once
	recheck    = 20 * time.Millisecond // while others are under way
)

func newGuessLimiter() *guessLimiter { return &guessLimiter{seed: maphash.MakeSeed()} }

// at returns the slot of a name and an address, which is an IP address or any other text. Of
// an IPv6 address only the network counts: a client in one has 2^64 addresses.
func (g *guessLimiter) at(address, name string) *slot {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip = ip.Unmap().WithZone(""); ip.Is6() {
			network, _ := ip.Prefix(64)
			ip = network.Addr()
		}
		address = ip.String()
	}
	group := maphash.String(g.seed, name) % nameGroups
	return &g.slots[maphash.Comparable(g.seed, struct {
		address string
		group   uint64
	}{address, group})%uint64(len(g.slots))]
}

// admits reports whether an attempt need not wait. right says that its secret is known to be
// right. counts says that a wrong one counts as a lookup.
func (g *guessLimiter) admits(t *attempt, right, counts bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, now := g.at(t.address, t.name), time.Now()
	if !now.Before(p.nextAt) {
		if right {
			p.lastRight = t.digest
		}
		return true
	}
	if p.second != now.Unix() {
		p.second, p.lookups = now.Unix(), 0
	}
	if p.lookups < maxLookups {
		if t.proven = p.lastRight == t.digest; !t.proven && counts {
			p.lookups++
		}
	}
	return t.proven
}

// enter waits until an attempt can begin, and returns the number of failures in its slot, or
// 0 if the attempt is proven. It returns ErrBusy if too many wait, and the error of ctx if
// that ends first; otherwise leave must be called.
func (g *guessLimiter) enter(ctx context.Context, t *attempt) (failures int, err error) {
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
		in := time.Until(p.nextAt)
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
func (g *guessLimiter) leave(t *attempt, result error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(t.address, t.name)
	p.busy--
	switch {
	case result == nil:
		p.lastRight = t.digest
	case errors.Is(result, ErrUnauthorized):
		p.failed(t, time.Now())
	}
}

// failed counts an attempt with a wrong secret.
func (p *slot) failed(t *attempt, now time.Time) {
	if p.lastRight == t.digest {
		p.lastRight = digest{} // it was right in another file
	}
	p.failures >>= min(now.Sub(p.last)/halfLife, 32)
	p.failures++
	p.last = now
	p.nextAt = now.Add(delayAfter(p.failures))
}

// delayAfter returns the delay after that many failures.
func delayAfter(failures int) time.Duration {
	return min(firstDelay<<min(failures-1, 10), maxDelay)
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
