package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ErrForbidden is the error for a host or address to which nothing may be sent.
var ErrForbidden = errors.New("the address is not allowed by --push-allow")

// Allow lists the hosts and networks to which requests may be sent. An address is allowed
//
//   - if a network in the list contains it, whatever the host is called, or
//   - if it is public, and the host is in the list.
//
// So a name that resolves to a loopback, link-local or private address is refused, unless
// the list also has that network. An entry with a port allows only that port.
type Allow struct{ rules []rule }

// rule is one entry of the list.
type rule struct {
	network netip.Prefix // not valid: the entry is a host
	host    string       // in lower case; ".example.org" is *.example.org, "" is every host
	port    uint16       // 0: any
}

// ParseAllow parses a comma-separated list of host names, *.example.org (names below it), *
// (every host), addresses, and networks such as 10.0.0.0/8, each optionally followed by a
// colon and a port. The name localhost also stands for the loopback addresses.
func ParseAllow(list string) (*Allow, error) {
	a := new(Allow)
	for item := range strings.SplitSeq(list, ",") {
		item = strings.ToLower(strings.TrimSpace(item))
		if err := a.add(item); err != nil {
			return nil, fmt.Errorf("%q is neither a host, such as example.org or *.example.org:443, nor an address or a network, such as 10.0.0.0/8: %w", item, err)
		}
	}
	return a, nil
}

func (a *Allow) add(item string) error {
	what, port, err := cutPort(item)
	if err != nil {
		return err
	}
	bare := strings.Trim(what, "[]")
	if strings.Contains(bare, "/") {
		p, err := netip.ParsePrefix(bare)
		if err != nil {
			return err
		}
		a.rules = append(a.rules, rule{network: unmapped(p), port: port})
		return nil
	}
	if addr, err := netip.ParseAddr(bare); err == nil {
		addr = addr.Unmap().WithZone("")
		a.rules = append(a.rules, rule{network: netip.PrefixFrom(addr, addr.BitLen()), port: port})
		return nil
	}
	return a.addHost(what, port)
}

// cutPort splits an entry into the host and the port. The port is 0 if there is none. Colons
// of an address without brackets belong to the address.
func cutPort(item string) (what string, port uint16, err error) {
	at := strings.LastIndexByte(item, ':')
	if _, err := netip.ParseAddr(item); err == nil || at < strings.LastIndexAny(item, "]/") || at < 0 {
		return item, 0, nil
	}
	n, err := strconv.ParseUint(item[at+1:], 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("a port is a number from 1 to 65535")
	}
	return item[:at], uint16(n), nil
}

func (a *Allow) addHost(name string, port uint16) error {
	host, wild := strings.CutPrefix(name, "*") // leaves nothing, or a dot and what is below
	if base, below := strings.CutPrefix(host, "."); name != "*" && (wild != below || !isHostName(base)) {
		return errors.New("not a host name")
	}
	a.rules = append(a.rules, rule{host: host, port: port})
	if name == "localhost" {
		for _, loopback := range []string{"127.0.0.0/8", "::1/128"} {
			a.rules = append(a.rules, rule{network: netip.MustParsePrefix(loopback), port: port})
		}
	}
	return nil
}

// unmapped converts a network of IPv4-mapped IPv6 addresses to IPv4.
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

// names reports whether r is not a network and matches a host.
func (r *rule) names(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return !r.network.IsValid() && (r.host == "" || r.host == host || r.host[0] == '.' && strings.HasSuffix(host, r.host))
}

// Address returns ErrForbidden unless requests may be sent to an address under the name of a
// host.
func (a *Allow) Address(host string, to netip.AddrPort) error {
	plain := to.Addr().Unmap().WithZone("")
	for i := range a.rules {
		r := &a.rules[i]
		if r.port != 0 && r.port != to.Port() {
			continue
		}
		if r.network.IsValid() && r.network.Contains(plain) || r.names(host) && public(plain) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", ErrForbidden, to)
}

// URL reports whether HTTP requests may be sent to a URL. It does not resolve the host, so the
// address must still be checked.
func (a *Allow) URL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && a.Target(u)
}

// Target is URL for any scheme. A URL without a known port counts as port 0.
func (a *Allow) Target(u *url.URL) bool {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme], "0")
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && a.host(u.Hostname(), uint16(n))
}

// host is Target for a host, which is a name or an address without brackets.
func (a *Allow) host(host string, port uint16) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return a.Address(host, netip.AddrPortFrom(addr, port)) == nil
	}
	return host != "" && slices.ContainsFunc(a.rules, func(r rule) bool {
		return (r.port == 0 || r.port == port) && (r.network.IsValid() || r.names(host))
	})
}

// special lists networks that look public, but are not part of the public internet: those in
// IANA's registries of special-purpose addresses, and services that clouds offer at addresses
// of their own. net/netip knows loopback, link-local, private, multicast and unspecified
// addresses, and of IPv6 only unicast is public.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),         // this network, RFC 791
	netip.MustParsePrefix("100.64.0.0/10"),     // shared by customers of a provider, RFC 6598; Alibaba's metadata
	netip.MustParsePrefix("168.63.129.16/32"),  // Azure's metadata and DNS
	netip.MustParsePrefix("192.0.0.0/24"),      // protocol assignments, RFC 6890; Oracle's metadata
	netip.MustParsePrefix("192.0.2.0/24"),      // documentation, RFC 5737
	netip.MustParsePrefix("192.31.196.0/24"),   // AS112, RFC 7535
	netip.MustParsePrefix("192.52.193.0/24"),   // multicast by tunnels, RFC 7450
	netip.MustParsePrefix("192.88.99.0/24"),    // relays of 6to4, RFC 7526
	netip.MustParsePrefix("192.175.48.0/24"),   // AS112, RFC 7534
	netip.MustParsePrefix("198.18.0.0/15"),     // benchmarks, RFC 2544
	netip.MustParsePrefix("198.51.100.0/24"),   // documentation
	netip.MustParsePrefix("203.0.113.0/24"),    // documentation
	netip.MustParsePrefix("240.0.0.0/4"),       // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),         // protocol assignments, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // to IPv4 by 6to4, RFC 3056
	netip.MustParsePrefix("2620:4f:8000::/48"), // AS112, RFC 7534
	netip.MustParsePrefix("3fff::/20"),         // documentation, RFC 9637
}

// unicast6 contains all public addresses of IPv6, RFC 4291. Outside of it are translations to
// IPv4, segment routing, discard prefixes, and unassigned addresses.
var unicast6 = netip.MustParsePrefix("2000::/3")

// public reports whether an address may belong to a host of the public internet.
func public(addr netip.Addr) bool {
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Is6() && !unicast6.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(special, func(n netip.Prefix) bool { return n.Contains(addr) })
}
