package httpserve

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// A page of another site can be of one origin with a server on this machine, for its browser: the
// name of its site needs only lead to 127.0.0.1 on a second look (DNS rebinding). Then the header
// Host is all that gives it away.

// wordMisdirected is the code of the problem that a request is for another host.
const wordMisdirected = "MISDIRECTED"

// Host returns name as Config.Hosts has it, or an error if it is neither the name of a host nor *.
func Host(name string) (string, error) {
	host := strings.ToLower(strings.TrimSuffix(name, "."))
	rest := strings.TrimPrefix(host, "*.")
	if name != "*" && (rest == "" || strings.ContainsAny(rest, "*:/@[]% \t")) {
		return "", fmt.Errorf("%q is not the name of a host, such as queue.example.org or *.example.org, without a port", name)
	}
	return host, nil
}

// hostCheck says which hosts requests may name. nil: any.
type hostCheck struct {
	loopback bool // addresses have to be of this machine
	names    map[string]bool
}

// newHostCheck returns that of a listener. A listener that others can reach has none unless
// hosts are named: its requests need not come from a browser of this machine.
func (d *Door) newHostCheck(l net.Listener) *hostCheck {
	at, ok := l.Addr().(*net.TCPAddr)
	loopback := ok && at.IP.IsLoopback()
	if !ok || !loopback && len(d.config.Hosts) == 0 {
		return nil
	}
	c := &hostCheck{loopback: loopback, names: make(map[string]bool)}
	for _, name := range append(d.config.Hosts[:len(d.config.Hosts):len(d.config.Hosts)], hostOf(d.config.Address)) {
		if name == "*" {
			return nil
		}
		c.names[name] = true
	}
	return c
}

// hostOf returns the host of host:port, in small letters.
func hostOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// allows reports whether requests may name this host. Nobody can own a name without a dot, so
// no page of another site has it.
func (c *hostCheck) allows(hostPort string) bool {
	if c == nil {
		return true
	}
	host := hostOf(hostPort)
	if addr, err := netip.ParseAddr(host); err == nil {
		return !c.loopback || addr.Unmap().IsLoopback()
	}
	first, rest, dotted := strings.Cut(host, ".")
	if !dotted || strings.HasSuffix(host, ".localhost") || c.names[host] {
		return true
	}
	for ; dotted; first, rest, dotted = strings.Cut(rest, ".") {
		if first == "" {
			return false
		}
		if c.names["*."+rest] {
			return true
		}
	}
	return false
}

// refuseHost answers a request for a host that it must not name.
func refuseHost(w http.ResponseWriter, r *http.Request) {
	NewProblem(http.StatusMisdirectedRequest, wordMisdirected,
		fmt.Sprintf("the header Host is %q, which is no name of this server; --http-host allows names", r.Host)).Write(w)
}
