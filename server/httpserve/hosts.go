package httpserve

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// DNS rebinding: with a name that first resolves to another site and then to 127.0.0.1, a
// page of that site can have the same origin as a server on this machine, from the browser's
// point of view. Then only the Host header shows it.

// codeMisdirected is the code of the problem that a request is for another host.
const codeMisdirected = "MISDIRECTED"

// Host returns name in the form of Config.Hosts, or an error if it is neither a host name
// nor *.
func Host(name string) (string, error) {
	host := strings.ToLower(strings.TrimSuffix(name, "."))
	rest := strings.TrimPrefix(host, "*.")
	if name != "*" && (rest == "" || strings.ContainsAny(rest, "*:/@[]% \t")) {
		return "", fmt.Errorf("%q is not the name of a host, such as queue.example.org or *.example.org, without a port", name)
	}
	return host, nil
}

// hostCheck decides which hosts requests may name. nil: any.
type hostCheck struct {
	loopback bool // addresses must belong to this machine
	names    map[string]bool
}

// newHostCheck returns the hostCheck of a listener. A listener that others can reach has
// none unless Hosts are configured: its requests need not come from a browser on this
// machine.
func (d *Server) newHostCheck(l net.Listener) *hostCheck {
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

// hostOf returns the host of host:port, in lower case.
func hostOf(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// allows reports whether requests may name this host. Nobody can own a name without a dot,
// so no page of another site has one.
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

// refuseHost answers a request for a host that it may not name.
func refuseHost(w http.ResponseWriter, r *http.Request) {
	NewProblem(http.StatusMisdirectedRequest, codeMisdirected,
		fmt.Sprintf("the header Host is %q, which is not a name of this server; allow names with --http-host", r.Host)).Write(w)
}
