package access

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// trusting returns Proxies.
func trusting(t *testing.T, all ...string) *Proxies {
	t.Helper()
	p := new(Proxies)
	for _, one := range all {
		if err := p.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// from returns a request that came from an address, with these headers: name, value, and so on.
func from(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "http://inner:11380/", nil)
	r.RemoteAddr = peer
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return r
}

func TestProxiesAdd(t *testing.T) {
	t.Parallel()
	p := trusting(t, "10.0.0.5", "192.168.0.0/16", "2001:db8::/32", "::1", "unix")
	if got := p.String(); got != "10.0.0.5/32,192.168.0.0/16,2001:db8::/32,::1/128,unix" {
		t.Error(got)
	}
	for _, wrong := range []string{"", "*", "localhost", "10.0.0.5:80", "10.0.0.0/33", "10.0.0", "0.0.0.0/0", "::/0", "::ffff:10.0.0.5", "::ffff:10.0.0.0/120", "fe80::1%eth0"} {
		if err := new(Proxies).Add(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// TestResolve: the headers of a trusted proxy change a request, those of others do not.
func TestResolve(t *testing.T) {
	t.Parallel()
	p := trusting(t, "10.0.0.0/24", "2001:db8::/32", "fe80::/10")
	for _, c := range []struct {
		what, peer  string
		headers     []string
		addr, host  string
		fromTheirs  bool
		wantedNamed string
	}{
		{"a proxy", "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Host", "queue.example.org", "X-Forwarded-User", "ann"}, "203.0.113.9:0", "queue.example.org", true, "ann"},
		{"somebody else", "10.0.1.5:1", []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Host", "queue.example.org", "X-Forwarded-User", "ann"}, "10.0.1.5:1", "inner:11380", false, ""},
		{"a mapped address", "[::ffff:10.0.0.5]:1", []string{"X-Forwarded-For", "203.0.113.9"}, "203.0.113.9:0", "inner:11380", true, ""},
		{"IPv6", "[2001:db8::7]:1", []string{"X-Forwarded-For", "2001:db9::9"}, "[2001:db9::9]:0", "inner:11380", true, ""},
		{"a zone", "[fe80::7%eth0]:1", []string{"X-Forwarded-For", "2001:db9::9"}, "[2001:db9::9]:0", "inner:11380", true, ""},
		{"no headers", "10.0.0.5:1", nil, "10.0.0.5:1", "inner:11380", true, ""},
		{"a forged hop", "10.0.0.5:1", []string{"X-Forwarded-For", "127.0.0.1, 203.0.113.9"}, "203.0.113.9:0", "inner:11380", true, ""},
		{"a forged header before", "10.0.0.5:1", []string{"X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "203.0.113.9"}, "203.0.113.9:0", "inner:11380", true, ""},
		{"two proxies", "10.0.0.5:1", []string{"X-Forwarded-For", "198.51.100.1, 203.0.113.9, 10.0.0.6"}, "203.0.113.9:0", "inner:11380", true, ""},
		{"a mapped hop", "10.0.0.5:1", []string{"X-Forwarded-For", "::ffff:203.0.113.9,::ffff:10.0.0.6"}, "203.0.113.9:0", "inner:11380", true, ""},
		{"ports", "10.0.0.5:1", []string{"X-Forwarded-For", "[2001:db9::9]:99"}, "[2001:db9::9]:0", "inner:11380", true, ""},
		{"only proxies", "10.0.0.5:1", []string{"X-Forwarded-For", "10.0.0.7, 10.0.0.6"}, "10.0.0.7:0", "inner:11380", true, ""},
		{"no address", "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.9, unknown"}, "10.0.0.5:1", "inner:11380", true, ""},
		{"no address before a proxy", "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.9, unknown, 10.0.0.6"}, "10.0.0.6:0", "inner:11380", true, ""},
		{"an empty hop", "10.0.0.5:1", []string{"X-Forwarded-For", "203.0.113.9,"}, "10.0.0.5:1", "inner:11380", true, ""},
		{"two hosts", "10.0.0.5:1", []string{"X-Forwarded-Host", "evil.example, queue.example.org"}, "10.0.0.5:1", "inner:11380", true, ""},
		{"two headers of hosts", "10.0.0.5:1", []string{"X-Forwarded-Host", "evil.example", "X-Forwarded-Host", "queue.example.org"}, "10.0.0.5:1", "inner:11380", true, ""},
		{"a unix socket", "@", []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-User", "ann"}, "@", "inner:11380", false, ""},
	} {
		r := from(c.peer, c.headers...)
		before := *r
		got := p.Resolve(r)
		if got.RemoteAddr != c.addr || got.Host != c.host || Proxied(got.Context()) != c.fromTheirs {
			t.Errorf("%s: from %s for %s, believed %v", c.what, got.RemoteAddr, got.Host, Proxied(got.Context()))
		}
		if r.RemoteAddr != before.RemoteAddr || r.Host != before.Host || Proxied(r.Context()) {
			t.Errorf("%s: the request itself was changed", c.what)
		}
		if made, _ := got.Context().Value(claimKey{}).(*claim); (made == nil) == c.fromTheirs || made != nil && made.person != c.wantedNamed {
			t.Errorf("%s: %+v", c.what, made)
		}
	}
}

// TestResolveUnix: a unix socket is trusted only by its name, whatever address its peer claims to have.
func TestResolveUnix(t *testing.T) {
	t.Parallel()
	over := func(peer string) *http.Request {
		r := from(peer, "X-Forwarded-User", "ann", "X-Forwarded-For", "203.0.113.9")
		return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Name: "/run/x", Net: "unix"}))
	}
	for peer, all := range map[string][]string{"@": {"10.0.0.0/8"}, "": {"10.0.0.0/8"}, "10.0.0.5:1": {"10.0.0.0/8"}} {
		if r := trusting(t, all...).Resolve(over(peer)); Proxied(r.Context()) {
			t.Errorf("%q is believed", peer)
		}
	}
	if r := trusting(t, "unix").Resolve(over("@")); !Proxied(r.Context()) || r.RemoteAddr != "203.0.113.9:0" {
		t.Error("unix is not believed")
	}
	if r := trusting(t, "unix").Resolve(from("10.0.0.5:1", "X-Forwarded-User", "ann")); Proxied(r.Context()) {
		t.Error("unix is believed over TCP")
	}
}

const signOnUsers = `users:
- {name: ops, people: ["ann@example.org", "*@ops.example.org"], groups: [queue-ops], rights: [{tubes: ["*"], may: [admin]}]}
- {name: staff, groups: ["staff", "queue-ops"], rights: [{tubes: ["*"], may: [read]}]}
- {name: app, rights: [{tubes: ["*"], may: [put]}]}
- {name: anonymous, rights: [{tubes: ["*"], may: [read]}]}
`

// TestSignedOn: who a person is whom a proxy names.
func TestSignedOn(t *testing.T) {
	t.Parallel()
	a, p := open(t, signOnUsers), trusting(t, "10.0.0.5")
	for _, c := range []struct {
		user    string // "": refused
		headers []string
	}{
		{"ops", []string{"X-Forwarded-User", "ann@example.org"}},
		{"ops", []string{"X-Forwarded-User", "bo@ops.example.org", "X-Forwarded-Groups", "staff"}},
		{"ops", []string{"X-Forwarded-User", "cy", "X-Forwarded-Groups", "staff, queue-ops"}}, // the first in the file
		{"staff", []string{"X-Forwarded-User", "cy", "X-Forwarded-Groups", "others,staff"}},
		{"staff", []string{"X-Forwarded-User", "Müller, Ann", "X-Forwarded-Groups", "staff"}},
		{"anonymous", nil},
		{"anonymous", []string{"X-Forwarded-User", "", "X-Forwarded-Groups", "queue-ops"}}, // nobody has signed on
		{"anonymous", []string{"X-Forwarded-Groups", "queue-ops"}},
		{"", []string{"X-Forwarded-User", "dan"}},
		{"", []string{"X-Forwarded-User", "dan", "X-Forwarded-Groups", "queue-ops2,*,"}},
		{"", []string{"X-Forwarded-User", "dan", "X-Forwarded-Groups", "queue*"}},
		{"", []string{"X-Forwarded-User", "app"}}, // the names of users are none of people
		{"", []string{"X-Forwarded-User", "anonymous"}},
		{"", []string{"X-Forwarded-User", "*"}},
		{"", []string{"X-Forwarded-User", "ANN@example.org"}},
		{"", []string{"X-Forwarded-User", "dan", "X-Forwarded-User", "ann@example.org"}},
		{"", []string{"X-Forwarded-User", "dan", "X-Forwarded-Groups", "others", "X-Forwarded-Groups", "queue-ops"}},
		{"", []string{"X-Forwarded-User", strings.Repeat("x", 300) + "@ops.example.org"}},
	} {
		u, err := a.RequestUser(p.Resolve(from("10.0.0.5:1", c.headers...)))
		if (c.user == "") != errors.Is(err, ErrSignOn) || err == nil && u.Name() != c.user {
			t.Errorf("%q: %v, %v; want %q", c.headers, u, err, c.user)
		}
		if named := c.user == "ops" || c.user == "staff"; err == nil && (u.Person() != "") != named {
			t.Errorf("%q: the person is %q", c.headers, u.Person())
		}
		if c.user == "" && Status(u, err) != http.StatusForbidden {
			t.Errorf("%q: %d", c.headers, Status(u, err))
		}
		if u, err := a.RequestUser(p.Resolve(from("10.0.0.6:1", c.headers...))); err != nil || u != a.Anonymous() {
			t.Errorf("%q from somebody else: %v, %v", c.headers, u, err)
		}
	}
	if err := bytes.Count(a.log.Bytes(), []byte("a proxy names nobody who may come in")); err == 0 {
		t.Error("nothing is logged")
	}
	for groups, says := range map[string]bool{"": false, "others": true} {
		_, err := a.RequestUser(p.Resolve(from("10.0.0.5:1", "X-Forwarded-User", "dan", "X-Forwarded-Groups", groups)))
		if strings.Contains(err.Error(), "groups") != says {
			t.Errorf("with the groups %q: %v", groups, err)
		}
	}
	none := open(t, twoUsers(t)) // a proxy that may pass on what its clients send
	if u, err := none.RequestUser(p.Resolve(from("10.0.0.5:1", "X-Forwarded-User", "app"))); err != nil || u != none.Anonymous() {
		t.Errorf("without people: %v, %v", u, err)
	}
}

// TestDelayBehindProxy: whoever guesses behind a trusted proxy delays those with the same address, and not the others there.
func TestDelayBehindProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p := open(t, twoUsers(t)), trusting(t, "10.0.0.5")
		wrong := func(peer string, headers ...string) {
			r := from(peer, headers...)
			r.SetBasicAuth("app", "wrong")
			if _, err := a.RequestUser(p.Resolve(r)); !errors.Is(err, ErrUnauthorized) {
				t.Error(err)
			}
		}
		slots := make(map[*slot]bool)
		for addresses := []string{"203.0.113.9", "10.0.0.5", "198.51.100.1", "192.0.2.7", "203.0.113.99"}; len(slots) < len(addresses); {
			a.guesses.seed = maphash.MakeSeed() // until they share none
			clear(slots)
			for _, address := range addresses {
				slots[a.guesses.at(address, "app")] = true
			}
		}
		failures := func(address string) int {
			a.guesses.mu.Lock()
			defer a.guesses.mu.Unlock()
			return a.guesses.at(address, "app").failures
		}
		for range 3 {
			wrong("10.0.0.5:1", "X-Forwarded-For", "198.51.100.1, 203.0.113.9")
		}
		if guesser, proxy, forged := failures("203.0.113.9"), failures("10.0.0.5"), failures("198.51.100.1"); guesser != 3 || proxy != 0 || forged != 0 {
			t.Errorf("failures: %d of the guesser, %d of the proxy, %d of an address that it made up", guesser, proxy, forged)
		}
		wrong("192.0.2.7:1", "X-Forwarded-For", "203.0.113.99") // no proxy
		if own, forged := failures("192.0.2.7"), failures("203.0.113.99"); own != 1 || forged != 0 {
			t.Errorf("failures of somebody without a proxy: %d, of the address that it made up: %d", own, forged)
		}
	})
}
