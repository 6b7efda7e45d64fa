package httpserve_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"redstalk/server/httpserve"
)

// TestHosts: on a loopback address only requests with names of this machine and configured
// names reach the handler.
func TestHosts(t *testing.T) {
	t.Parallel()
	named := func(names ...string) (all []string) {
		for _, name := range names {
			host, err := httpserve.Host(name)
			if err != nil {
				t.Error(err)
			}
			all = append(all, host)
		}
		return all
	}
	any := &net.TCPAddr{IP: net.IPv4zero}
	for _, test := range []struct {
		config  httpserve.Config
		addr    net.Addr // the address that the listener reports; nil: its own
		allowed string
		refused string
	}{
		{httpserve.Config{}, nil,
			"localhost localhost:80 LOCALHOST. a.b.localhost 127.0.0.1 127.9.9.9:1 [::1] [::1]:80 [::ffff:127.0.0.1] x redstalk:11380",
			"evil.example evil.example:80 localhost.evil.example 10.0.0.1 [::2]:80 127.0.0.1.evil.example .localhost.x 169.254.169.254 evil.localhost.example"},
		{httpserve.Config{Hosts: named("Queue.example.org.", "*.pods")}, nil, "queue.example.org:80 QUEUE.example.ORG. a.pods a.b.pods localhost", "example.org a.queue.example.org b.example.org 10.0.0.1 pods.evil.example"},
		{httpserve.Config{Hosts: named("*")}, nil, "evil.example 10.0.0.1", ""},
		{httpserve.Config{Address: "my.test:80"}, nil, "my.test localhost", "evil.example"},
		{httpserve.Config{}, any, "evil.example 10.0.0.1", ""},
		{httpserve.Config{Hosts: named("queue.example.org")}, any, "queue.example.org 10.0.0.1:80 [fe80::1] localhost", "evil.example"},
		{httpserve.Config{Hosts: named("queue.example.org")}, &net.UnixAddr{}, "evil.example", ""},
	} {
		test.config.HTTP2 = true
		addr := startAt(t, test.addr, test.config)
		for _, set := range []func(*http.Protocols){
			func(p *http.Protocols) { p.SetHTTP1(true) },
			func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
		} {
			transport := &http.Transport{Protocols: new(http.Protocols)}
			set(transport.Protocols)
			defer transport.CloseIdleConnections()
			for _, host := range strings.Fields(test.allowed) {
				wantHost(t, transport, addr, host, http.StatusOK)
			}
			for _, host := range strings.Fields(test.refused) {
				wantHost(t, transport, addr, host, http.StatusMisdirectedRequest)
			}
		}
	}
	for _, wrong := range []string{"", "*.", "https://x.example", "x.example:80", "a.*.b", "x y", "**"} {
		if _, err := httpserve.Host(wrong); err == nil {
			t.Errorf("%q is the name of a host", wrong)
		}
	}
}

// startAt is start with a listener that reports another address.
func startAt(t *testing.T, as net.Addr, c httpserve.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if as != nil {
		l = addrListener{l, as}
	}
	d := httpserve.New(http.HandlerFunc(echo), c)
	go d.Serve(l)
	t.Cleanup(func() { d.Shutdown(t.Context()) })
	return addr
}

type addrListener struct {
	net.Listener
	addr net.Addr
}

func (p addrListener) Addr() net.Addr { return p.addr }

func wantHost(t *testing.T, transport http.RoundTripper, addr, host string, status int) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	reply, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", host, err)
	}
	defer reply.Body.Close()
	text, _ := io.ReadAll(reply.Body)
	if reply.StatusCode != status {
		t.Errorf("%s: %d instead of %d", host, reply.StatusCode, status)
	}
	if status != http.StatusOK && !(strings.Contains(string(text), "--http-host") && strings.Contains(string(text), "Host is")) {
		t.Errorf("%s: %s", host, text)
	}
}
