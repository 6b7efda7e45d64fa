package push

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// ErrForbidden: nothing may be sent to that host or address.
var ErrForbidden = errors.New("the address is not allowed by --push-allow")

// Allow is where anything may be sent. An address is allowed
//
//   - if a network that was named has it, whatever the host is called, or
//   - if it is public, and the host was named.
//
// So a name that leads to a loopback, link-local or private address gets nowhere, unless that
// network was named as well.
type Allow struct {
	networks []netip.Prefix
	hosts    map[string]bool // in lower case
	suffixes []string        // ".example.org" of *.example.org
	any      bool            // *
}

// ParseAllow reads a list with commas: host names, *.example.org (names below it), * (every
// host), addresses, and networks such as 10.0.0.0/8. The name localhost also stands for the
// loopback addresses.
func ParseAllow(list string) (*Allow, error) {
	a := &Allow{hosts: make(map[string]bool)}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		if err := a.add(item); err != nil {
			return nil, fmt.Errorf("%q is neither a host, such as example.org or *.example.org, nor an address or a network, such as 10.0.0.0/8: %w", item, err)
		}
	}
	return a, nil
}

func (a *Allow) add(item string) error {
	if item == "*" {
		a.any = true
		return nil
	}
	if strings.Contains(item, "/") {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return err
		}
		a.networks = append(a.networks, unmapped(p))
		return nil
	}
	if addr, err := netip.ParseAddr(strings.Trim(item, "[]")); err == nil {
		addr = addr.Unmap().WithZone("")
		a.networks = append(a.networks, netip.PrefixFrom(addr, addr.BitLen()))
		return nil
	}
	return a.addHost(item)
}

func (a *Allow) addHost(name string) error {
	below, wild := strings.CutPrefix(name, "*.")
	if !isHostName(below) {
		return errors.New("not a host name")
	}
	switch {
	case wild:
		a.suffixes = append(a.suffixes, "."+below)
	case name == "localhost":
		a.networks = append(a.networks, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
		fallthrough
	default:
		a.hosts[name] = true
	}
	return nil
}

// unmapped returns a network of IPv4 addresses that were written as IPv6 ones as what it is.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

func isHostName(name string) bool {
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '-', b == '_', b == '.':
		default:
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, ".")
}

// named tells whether a host was named.
func (a *Allow) named(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if a.any || a.hosts[host] {
		return true
	}
	for _, s := range a.suffixes {
		if strings.HasSuffix(host, s) {
			return true
		}
	}
	return false
}

// Address returns ErrForbidden unless something may be sent to an address under the name of a
// host.
func (a *Allow) Address(host string, addr netip.Addr) error {
	plain := addr.Unmap().WithZone("")
	for _, n := range a.networks {
		if n.Contains(plain) {
			return nil
		}
	}
	if a.named(host) && public(plain) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrForbidden, addr)
}

// URL returns whether a URL may be one to send to, as far as can be told without looking its
// host up.
func (a *Allow) URL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return a.Host(u.Hostname())
}

// Host is URL for a host: a name, or an address without brackets.
func (a *Allow) Host(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return a.Address(host, addr) == nil
	}
	return host != "" && (a.named(host) || len(a.networks) > 0)
}

// special are networks that no host of the public internet has. Loopback, link-local, private,
// multicast and unspecified addresses are known to net/netip.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network, RFC 791
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by customers of a provider, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments, RFC 6890
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation, RFC 5737
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks, RFC 2544
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("::/96"),           // IPv4-compatible, RFC 4291
	netip.MustParsePrefix("64:ff9b::/96"),    // to IPv4 by NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"),  // the same, RFC 8215
	netip.MustParsePrefix("100::/64"),        // discarded, RFC 6666
	netip.MustParsePrefix("2001::/23"),       // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // to IPv4 by 6to4, RFC 3056
	netip.MustParsePrefix("fec0::/10"),       // site-local, RFC 3879
}

// public tells whether an address may belong to a host of the public internet.
func public(addr netip.Addr) bool {
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	for _, n := range special {
		if n.Contains(addr) {
			return false
		}
	}
	return true
}
