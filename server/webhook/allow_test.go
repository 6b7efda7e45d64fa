package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"redstalk/tube"
)

// allowed are lists, hosts, their addresses, and whether requests may be sent there.
var allowed = []struct{ list, host, addr, want string }{
	{"example.org", "example.org", "93.184.216.34", "yes"},
	{"example.org", "EXAMPLE.org.", "93.184.216.34", "yes"},
	{"example.org", "www.example.org", "93.184.216.34", "no"},
	{"example.org", "example.org", "127.0.0.1", "no"},
	{"example.org", "example.org", "10.1.2.3", "no"},
	{"example.org,10.0.0.0/8", "example.org", "10.1.2.3", "yes"},
	{"10.0.0.0/8", "whatever", "10.1.2.3", "yes"},
	{"10.0.0.0/8", "whatever", "93.184.216.34", "no"},
	{"*.example.org", "www.example.org", "93.184.216.34", "yes"},
	{"*.example.org", "a.b.example.org", "93.184.216.34", "yes"},
	{"*.example.org", "example.org", "93.184.216.34", "no"},
	{"*.example.org", "badexample.org", "93.184.216.34", "no"},
	{"*", "whatever", "93.184.216.34", "yes"},
	{"*", "93.184.216.34", "93.184.216.34", "yes"},
	{"*", "whatever", "2606:2800:21f::1", "yes"},
	{"*", "whatever", "127.0.0.1", "no"},
	{"*", "whatever", "::1", "no"},
	{"*", "whatever", "::", "no"},
	{"*", "whatever", "0.0.0.0", "no"},
	{"*", "whatever", "::ffff:127.0.0.1", "no"},
	{"*", "whatever", "::ffff:10.0.0.1", "no"},
	{"*", "whatever", "::7f00:1", "no"},
	{"*", "whatever", "64:ff9b::7f00:1", "no"},
	{"*", "whatever", "2002:7f00:1::", "no"},
	{"*", "whatever", "169.254.169.254", "no"},
	{"*", "whatever", "fe80::1", "no"},
	{"*", "whatever", "fd00::1", "no"},
	{"*", "whatever", "fec0::1", "no"},
	{"*", "whatever", "192.168.1.1", "no"},
	{"*", "whatever", "172.16.0.1", "no"},
	{"*", "whatever", "100.64.0.1", "no"},
	{"*", "whatever", "224.0.0.1", "no"},
	{"*", "whatever", "ff02::1", "no"},
	{"*", "whatever", "255.255.255.255", "no"},
	{"*", "whatever", "0.1.2.3", "no"},
	{"*", "whatever", "168.63.129.16", "no"},
	{"*", "whatever", "168.63.129.17", "yes"},
	{"*", "whatever", "169.254.170.2", "no"},
	{"*", "whatever", "100.100.100.200", "no"},
	{"*", "whatever", "192.0.0.192", "no"},
	{"*", "whatever", "fd00:ec2::254", "no"},
	{"*", "whatever", "fd20:ce::254", "no"},
	{"*", "whatever", "::ffff:168.63.129.16", "no"},
	{"*", "whatever", "192.88.99.1", "no"},
	{"*", "whatever", "192.31.196.1", "no"},
	{"*", "whatever", "192.52.193.1", "no"},
	{"*", "whatever", "192.175.48.6", "no"},
	{"*", "whatever", "198.18.0.1", "no"},
	{"*", "whatever", "3fff::1", "no"},
	{"*", "whatever", "3fff:1000::1", "yes"},
	{"*", "whatever", "5f00::1", "no"},
	{"*", "whatever", "4000::1", "no"},
	{"*", "whatever", "100:0:0:1::1", "no"},
	{"*", "whatever", "2001:20::1", "no"},
	{"*", "whatever", "2001:db8::1", "no"},
	{"*", "whatever", "2620:4f:8000::1", "no"},
	{"*", "whatever", "64:ff9b:1::7f00:1", "no"},
	{"168.63.129.16", "whatever", "168.63.129.16", "yes"},
	{"localhost", "localhost", "127.0.0.1", "yes"},
	{"localhost", "localhost", "::1", "yes"},
	{"localhost", "localhost", "10.0.0.1", "no"},
	{"127.0.0.1", "127.0.0.1", "127.0.0.1", "yes"},
	{"127.0.0.1", "::ffff:127.0.0.1", "::ffff:127.0.0.1", "yes"},
	{"::ffff:10.0.0.0/104", "x", "10.9.9.9", "yes"},
	{"127.0.0.1", "127.0.0.2", "127.0.0.2", "no"},
	{"[::1]", "::1", "::1", "yes"},
	{"fe80::/10", "x", "fe80::1%eth0", "yes"},
	{" 10.0.0.0/8 , ::1 ", "x", "::1", "yes"},
}

func TestAllow(t *testing.T) {
	t.Parallel()
	for _, c := range allowed {
		got := "yes"
		if err := allow(t, c.list).Address(c.host, netip.AddrPortFrom(netip.MustParseAddr(c.addr), 443)); err != nil {
			if got = "no"; !errors.Is(err, ErrForbidden) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for _, list := range []string{"", ",", "a,", "http://a/", "10.0.0.0/33",
		"a:", "a:0", "a:65536", "a:x", "a:-1", "a:+1", ":80", "*:", "10.0.0.0/8:", "[::1]:0", "[::1]80", "[a]:80", "a:80:80", "*.", "**", "a*b", "a b", "é", ".a", "10.0.0.0/x"} {
		if a, err := ParseAllow(list); err == nil {
			t.Errorf("%q is parsed as %+v", list, a)
		}
	}
}

// TestAllowPort: an entry with a port allows only that port.
func TestAllowPort(t *testing.T) {
	t.Parallel()
	const public, private = "93.184.216.34", "10.1.2.3"
	for _, c := range []struct{ list, host, to, want string }{
		{"a.b:8443", "a.b", public + ":8443", "yes"},
		{"a.b:8443", "a.b", public + ":443", "no"},
		{"a.b:8443,a.b:443", "a.b", public + ":443", "yes"},
		{"*:443", "a.b", public + ":443", "yes"},
		{"*:443", "a.b", public + ":80", "no"},
		{"*:443", "a.b", private + ":443", "no"},
		{"*.b:443", "a.b", public + ":443", "yes"},
		{"*.b:443", "a.b", public + ":444", "no"},
		{"10.0.0.0/8:8080", "x", private + ":8080", "yes"},
		{"10.0.0.0/8:8080", "x", private + ":8081", "no"},
		{"10.0.0.0/8:8080,*", "a.b", private + ":8081", "no"},
		{private + ":1", "x", private + ":1", "yes"},
		{private + ":1", "x", private + ":2", "no"},
		{"[::1]:8080", "::1", "[::1]:8080", "yes"},
		{"[::1]:8080", "::1", "[::1]:80", "no"},
		{"::1:8080", "x", "[::1:8080]:5", "yes"}, // an address
		{"fd00::/8:1", "x", "[fd00::2]:1", "yes"},
		{"[fd00::/8]:1", "x", "[fd00::2]:2", "no"},
		{"[fd00::/8]", "x", "[fd00::2]:2", "yes"},
		{"localhost:8080", "localhost", "127.0.0.1:8080", "yes"},
		{"localhost:8080", "localhost", "[::1]:80", "no"},
	} {
		a, to := allow(t, c.list), netip.MustParseAddrPort(c.to)
		got := map[bool]string{true: "yes", false: "no"}
		if err := a.Address(c.host, to); got[err == nil] != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if literal := got[a.host(to.Addr().String(), to.Port())]; c.want == "no" && literal != "no" {
			t.Errorf("%+v, by its address: %s", c, literal)
		}
	}
}

func TestAllowURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"http://example.org/": true, "https://example.org:1/a?b": true, "http://example.com/": true, // 10.0.0.0/8 may contain it
		"http://10.1.1.1/": true, "http://[::ffff:10.1.1.1]/": true, "http://127.0.0.1/": false, "http://[::1]/": false,
		"ftp://example.org/": false, "http:///": false, "example.org": false, "http://%zz/": false, "": false,
	} {
		if got := allow(t, "example.org,10.0.0.0/8").URL(url); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
	for url, want := range map[string]bool{
		"http://example.com/":  false, // the list has neither this name nor a network
		"https://example.org/": true, "https://example.org:443/": true, "http://example.org/": false, "http://example.org:443/": true,
		"https://example.org:8443/": false, "http://example.net/": true, "https://example.net:80/": true, "http://example.net:65536/": false,
	} {
		if got := allow(t, "example.org:443,example.net:80").URL(url); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
}

func FuzzAllow(f *testing.F) {
	for _, list := range []string{"a.b, *.c,10.0.0.0/8,[::1],localhost", "*", "::ffff:1.2.3.4/100", "1.2.3", "a.b:80,*.c:1,*:2,10.0.0.0/8:80,[::1]:80,[fd00::/8]:1"} {
		f.Add(list, "a.b", "127.0.0.1:80")
	}
	f.Fuzz(func(t *testing.T, list, host, addr string) {
		a, err := ParseAllow(list)
		to, bad := netip.ParseAddrPort(addr)
		if err != nil || bad != nil || a.Address(host, to) != nil {
			return
		}
		why := a.rules
		why = slices.DeleteFunc(why, func(r rule) bool { return r.port != 0 && r.port != to.Port() })
		why = slices.DeleteFunc(why, func(r rule) bool { return !r.network.IsValid() && !r.names(host) })
		if len(why) == 0 {
			t.Errorf("%q lets %s through as %s", list, addr, host)
		}
		isNetwork := func(r rule) bool { return r.network.IsValid() }
		if !slices.ContainsFunc(why, isNetwork) && !public(to.Addr().Unmap().WithZone("")) {
			t.Errorf("%q lets %s through as %s, which is not public", list, addr, host)
		}
	})
}

// changingResolver is a DNS server that answers the first query with one address, and later
// ones with another.
func changingResolver(t *testing.T, first, then string) (r *net.Resolver, asked *atomic.Int32) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	asked = new(atomic.Int32)
	go func() {
		b := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil {
				continue
			}
			m.Response = true
			m.Additionals = nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				addr := first
				if asked.Add(1) > 1 {
					addr = then
				}
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()},
				}}
			}
			if out, err := m.Pack(); err == nil {
				c.WriteTo(out, from)
			}
		}
	}()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", c.LocalAddr().String())
	}
	return &net.Resolver{PreferGo: true, Dial: dial}, asked
}

// TestChangingResolver: a name whose address has changed since the check gets no request.
func TestChangingResolver(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := receiver(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for _, c := range []struct {
		allow string
		want  tube.State
	}{{"target.test", tube.Delayed}, {"*", tube.Delayed}, {"target.test,127.0.0.0/8", tube.Gone}} {
		calls.Store(0)
		resolver, asked := changingResolver(t, "127.0.0.2", host) // an early check would get another address
		w := newHarness(t, Config{Allow: allow(t, c.allow), Resolver: resolver})
		if c.allow != "*" {
			if _, err := resolver.LookupNetIP(context.Background(), "ip4", "target.test."); err != nil {
				t.Fatal(err)
			}
		}
		id := w.put("t", "x")
		w.push("t", tube.Policy{Push: tube.Push{URL: fmt.Sprintf("http://target.test.:%s/", port)}})
		w.until("the call is over", func() bool { s := w.Dispatcher.Stats(); return len(s.Tubes) > 0 && s.Leased == 0 })
		if state := w.job(id).State; state != c.want || (calls.Load() > 0) != (c.want == tube.Gone) || asked.Load() == 0 {
			t.Errorf("%+v: the job is %v, %d calls, the resolver was asked %d times", c, state, calls.Load(), asked.Load())
		}
		if stats := w.Dispatcher.Stats().Tubes[0]; c.want != tube.Gone && stats.Calls[Forbidden] != 1 {
			t.Errorf("%+v: %+v", c, stats)
		}
		w.end()
	}
}
