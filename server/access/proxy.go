package access

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// The headers of a trusted proxy. There is one pair for people: a proxy that sets one pair and passes on another would let
// anybody choose a name.
const (
	personHeader  = "X-Forwarded-User"
	groupsHeader  = "X-Forwarded-Groups"
	addressHeader = "X-Forwarded-For"
	hostHeader    = "X-Forwarded-Host"
)

// maxPerson is the longest name of a person that a proxy may give, in bytes.
const maxPerson = 256

// ErrSignOn: a trusted proxy names a person who is no user, or not clearly.
var ErrSignOn = errors.New("signed on")

// Proxies are the reverse proxies whose headers are believed. The zero value believes nobody.
type Proxies struct {
	networks []netip.Prefix
	unix     bool // whoever can open a unix socket
}

// Add trusts an address, a network such as 10.0.0.0/24, or with "unix" all connections to unix sockets.
func (p *Proxies) Add(text string) error {
	if text == "unix" {
		p.unix = true
		return nil
	}
	network, err := netip.ParsePrefix(text)
	if addr, err2 := netip.ParseAddr(text); err2 == nil && addr.Zone() == "" {
		network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("%q is not an address, a network such as 10.0.0.0/24, or unix", text)
	case network.Addr().Is4In6():
		return fmt.Errorf("%q: write an IPv4 address as such", text)
	case network.Bits() == 0:
		return fmt.Errorf("%q is every address: anybody could claim to be any user", text)
	}
	p.networks = append(p.networks, network)
	return nil
}

// String returns what is trusted, with commas.
func (p *Proxies) String() string {
	var all []string
	for _, network := range p.networks {
		all = append(all, network.String())
	}
	if p.unix {
		all = append(all, "unix")
	}
	return strings.Join(all, ",")
}

// trusts reports whether a proxy has this address.
func (p *Proxies) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p.networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// trustsPeer reports whether the sender of a request is a trusted proxy.
func (p *Proxies) trustsPeer(r *http.Request) bool {
	if local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); local != nil && local.Network() == "unix" {
		return p.unix
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.trusts(peer.Addr())
}

// claim is what a trusted proxy says of a request.
type claim struct {
	person string // "": nobody has signed on
	groups []string
	err    error
}

type claimKey struct{}

// Resolve returns a request as its trusted proxy describes it: with the address of the client (and port 0), with the host that
// the client has named, and for RequestUser with the person who has signed on. A request of anybody else it returns unchanged,
// and nothing ever reads its headers.
func (p *Proxies) Resolve(r *http.Request) *http.Request {
	if !p.trustsPeer(r) {
		return r
	}
	r = r.WithContext(context.WithValue(r.Context(), claimKey{}, claimOf(r.Header)))
	if client, ok := p.client(r.Header[addressHeader]); ok {
		r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	}
	if hosts := r.Header[hostHeader]; len(hosts) == 1 && hosts[0] != "" && !strings.Contains(hosts[0], ",") {
		r.Host = hosts[0]
	}
	return r
}

// client returns the address from which a request came to the first of the trusted proxies that it has passed: the last
// address that is not theirs, since clients can write anything before it.
func (p *Proxies) client(headers []string) (client netip.Addr, ok bool) {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, err := addressOf(strings.TrimSpace(hop))
		if err != nil {
			break // what comes before can be forged
		}
		client, ok = addr.Unmap().WithZone(""), true
		if !p.trusts(client) {
			break
		}
	}
	return client, ok
}

// addressOf parses an address with or without a port.
func addressOf(hop string) (netip.Addr, error) {
	if with, err := netip.ParseAddrPort(hop); err == nil {
		return with.Addr(), nil
	}
	return netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
}

// claimOf returns what the headers of a trusted proxy say of a person. A header that is there twice is from two senders.
func claimOf(h http.Header) *claim {
	c := new(claim)
	switch names, groups := h[personHeader], h[groupsHeader]; {
	case len(names) > 1 || len(groups) > 1:
		c.err = fmt.Errorf("%w: the proxy sends %s or %s more than once; it must replace those of its clients", ErrSignOn, personHeader, groupsHeader)
	case len(names) == 1 && len(names[0]) > maxPerson:
		c.err = fmt.Errorf("%w: a name has more than %d bytes", ErrSignOn, maxPerson)
	case len(names) == 1:
		c.person = names[0]
		for group := range strings.SplitSeq(strings.Join(groups, ""), ",") {
			c.groups = append(c.groups, strings.TrimSpace(group))
		}
	}
	return c
}

// Proxied reports whether a trusted proxy has passed a request on.
func Proxied(ctx context.Context) bool { return ctx.Value(claimKey{}) != nil }

// signedOn returns the user of a person whom a trusted proxy names: the first one in the file that lists the person or a group
// of theirs. It is nil if nobody has signed on, or if the file lists no people at all: then the proxy may be one that passes on
// what its clients send.
func (a *Access) signedOn(r *http.Request) (*User, error) {
	c, _ := r.Context().Value(claimKey{}).(*claim)
	users := a.file.Load().signOns
	if c == nil || len(users) == 0 || c.err == nil && c.person == "" {
		return nil, nil
	}
	err := c.err
	if err == nil {
		for _, u := range users {
			if u.admits(c) {
				as := *u
				as.person = c.person
				return &as, nil
			}
		}
		err = fmt.Errorf("%w as %s, but no user in the users file has this name among its people", ErrSignOn, c.person)
		if groups := strings.Join(c.groups, ", "); groups != "" {
			err = fmt.Errorf("%w, or one of the groups %q", err, groups)
		}
	}
	a.failures.Warn(a.log, "a proxy names nobody who may come in", "from", r.RemoteAddr, "err", err)
	return nil, err
}

// admits reports whether the user lists a person or one of their groups.
func (u *User) admits(c *claim) bool {
	return slices.ContainsFunc(u.people, func(glob string) bool { return matches(glob, c.person) }) ||
		slices.ContainsFunc(c.groups, func(group string) bool { return slices.Contains(u.groups, group) })
}
