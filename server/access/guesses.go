package access

import (
	"context"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// guesses makes those wait who give wrong secrets, by their addresses. Addresses are
// counted in a fixed number of places, chosen by a hash that nobody outside can foretell,
// so its memory is bounded and nobody can push out what is known of an address. Two
// addresses that share a place wait for each other's failures.
type guesses struct {
	seed   maphash.Seed
	mu     sync.Mutex // guards places
	places [4096]place
}

// place is what is known of the addresses that share it.
type place struct {
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

	maxBusy    = 2                     // attempts at a time from one place
	maxWaiting = 256                   // attempts that wait; further ones fail at once
	recheck    = 20 * time.Millisecond // while others are busy
)

func newGuesses() *guesses { return &guesses{seed: maphash.MakeSeed()} }

// at returns the place of an address, which is an IP address or any other text. Of an
// IPv6 address only the network counts: whoever has one has 2^64 addresses in it.
func (g *guesses) at(address string) *place {
	if ip, err := netip.ParseAddr(address); err == nil {
		if ip = ip.Unmap().WithZone(""); ip.Is6() {
			network, _ := ip.Prefix(64)
			ip = network.Addr()
		}
		address = ip.String()
	}
	return &g.places[maphash.String(g.seed, address)%uint64(len(g.places))]
}

// free tells whether an attempt from the address would not have to wait.
func (g *guesses) free(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(address)
	return !time.Now().Before(p.open)
}

// enter waits until an attempt from the address may be looked at. It returns ErrBusy if
// too many wait, and the error of ctx if that ends first; otherwise leave must follow.
func (g *guesses) enter(ctx context.Context, address string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(address)
	if p.waiting >= maxWaiting {
		return ErrBusy
	}
	p.waiting++
	defer func() { p.waiting-- }()
	for {
		in := time.Until(p.open)
		if in <= 0 && p.busy < maxBusy {
			p.busy++
			return nil
		}
		g.mu.Unlock()
		err := sleep(ctx, max(in, recheck))
		g.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// leave ends an attempt.
func (g *guesses) leave(address string, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(address)
	p.busy--
	if !failed {
		return
	}
	now := time.Now()
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
