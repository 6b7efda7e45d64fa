package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redstalk/tools/conformance/child"
)

// proxyUsers are users of whom two sign on at a proxy, and one has the secret open-sesame.
const proxyUsers = `users:
- {name: ops, groups: [queue-ops], rights: [{tubes: ["*"], may: [put, work, read, admin]}]}
- {name: staff, people: ["*@example.org"], rights: [{tubes: ["*"], may: [read]}]}
- {name: app, secrets: ["$2a$10$1HuPky.hFUfwS7K0RXrhkevF76DhmBNxpzas3sCxgrWm8yEYTNF1C"], rights: [{tubes: ["*"], may: [put]}]}
- {name: cn.example.org, rights: [{tubes: ["*"], may: [admin]}]}
`

// proxied is a server that trusts the proxies on 127.0.0.1, and its file of acts.
type proxied struct {
	*process
	url, acts string
}

func serveProxied(t *testing.T, args ...string) *proxied {
	t.Helper()
	dir := t.TempDir()
	users, acts := filepath.Join(dir, "users.yml"), filepath.Join(dir, "acts.log")
	if err := os.WriteFile(users, []byte(proxyUsers), 0o600); err != nil {
		t.Fatal(err)
	}
	p, url := serveHTTP(t, append([]string{"--access", users, "--audit", acts, "--http-host", "queue.example.org"}, args...)...)
	p.serving(t)
	return &proxied{p, url, acts}
}

// send sends a request with these headers, "Name: value", and returns the status and the answer.
func send(t *testing.T, client *http.Client, method, url string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if r.Header.Add(name, value); name == "Host" {
			r.Host = value
		}
	}
	reply, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}

// lastAct returns the last line of the file of acts, when there are n.
func (p *proxied) lastAct(t *testing.T, n int) (act map[string]any) {
	t.Helper()
	text, err := os.ReadFile(p.acts)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != n {
		t.Fatalf("%d lines in the file of acts, want %d: %s", len(lines), n, text)
	}
	if err := json.Unmarshal([]byte(lines[n-1]), &act); err != nil {
		t.Fatal(err)
	}
	return act
}

// TestBehindNginx: what nginx says is believed, and what its clients send to it is not.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	p := serveProxied(t, "--trust-proxy", "127.0.0.1")
	at := "127.0.0.1:" + child.FreePort()
	child.Nginx(t, "../../tools/deploy/proxy/nginx.conf", at, "127.0.0.1:8080", at, "127.0.0.1:11380", strings.TrimPrefix(p.url, "http://"),
		`X-Forwarded-User ""`, `X-Forwarded-User $http_x_test_user`, `X-Forwarded-Groups ""`, `X-Forwarded-Groups $http_x_test_groups`,
		"X-Forwarded-For $remote_addr", "X-Forwarded-For $http_x_test_address")
	front, ops := "http://"+at+"/queue", []string{"X-Test-User: Ann Müller", "X-Test-Groups: staff,queue-ops", "X-Test-Address: 2001:db8::7"}
	for _, c := range []struct {
		what    string
		status  int
		says    string
		headers []string
	}{
		{"a group", 200, `"user":"ops","person":"Ann Müller"`, ops},
		{"a person", 200, `"user":"staff","person":"bo@example.org"`, []string{"X-Test-User: bo@example.org"}},
		{"an unknown person", 403, "signed on as bo, but", []string{"X-Test-User: bo"}},
		{"a name of a user", 403, "signed on as app, but", []string{"X-Test-User: app"}},
		{"a name of a certificate", 403, "signed on as cn.example.org", []string{"X-Test-User: cn.example.org"}},
		{"a forged name", 401, "wrong or missing", []string{"X-Forwarded-User: bo@example.org", "X-Forwarded-Groups: queue-ops", "X_Forwarded_User: bo@example.org"}},
		{"a forged group", 200, `"user":"staff"`, []string{"X-Test-User: bo@example.org", "X-Forwarded-Groups: queue-ops"}},
		{"a header to be removed", 200, `"user":"staff"`, []string{"X-Test-User: bo@example.org", "Connection: X-Forwarded-User, X-Forwarded-For"}},
		{"a secret", 200, `"user":"app"`, []string{"Authorization: Bearer app:open-sesame"}},
		{"a person with a secret of another user", 200, `"user":"staff"`, []string{"Authorization: Bearer app:open-sesame", "X-Test-User: bo@example.org"}},
		{"another host", 421, "evil.example", append(ops, "Host: evil.example", "X-Forwarded-Host: queue.example.org")},
		{"the host of the proxy", 200, `"user":"ops"`, append(ops, "Host: queue.example.org:8443")},
	} {
		if status, text := send(t, http.DefaultClient, "GET", front+"/v1/caller", c.headers...); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s", c.what, status, text)
		}
	}
	if status, text := send(t, http.DefaultClient, "GET", p.url+"/v1/caller", "X-Forwarded-User: bo@example.org", "X-Forwarded-User: ann"); status != 403 || !strings.Contains(text, "more than once") {
		t.Errorf("two names: %d %s", status, text)
	}

	// Other sites cannot use that somebody has signed on.
	kick := front + "/v1/tubes/t/kick"
	for i, c := range [][]string{
		{"200", "Origin: https://queue.example.org", "Host: queue.example.org"},
		{"403", "Origin: https://evil.example", "Host: queue.example.org"},
		{"403", "Origin: https://queue.example.org.evil.example", "Host: queue.example.org", "X-Forwarded-Host: queue.example.org.evil.example"},
		{"403", "Origin: https://queue.example.org", "Host: queue.example.org", "Sec-Fetch-Site: cross-site"},
		{"415", "Origin: https://queue.example.org", "Host: queue.example.org", "Content-Type: text/plain"},
	} {
		headers := append(append([]string{}, ops...), c[1:]...)
		if i < 4 {
			headers = append(headers, "X-Redstalk: console")
		}
		if status, text := send(t, http.DefaultClient, "POST", kick, headers...); fmt.Sprint(status) != c[0] {
			t.Errorf("%q: %d %s", c, status, text)
		}
	}
	act := p.lastAct(t, 2) // the first, and the last, which is refused later than those of other sites
	if act["user"] != "ops" || act["person"] != "Ann Müller" || act["peer"] != "[2001:db8::7]:0" {
		t.Errorf("%v", act)
	}
}

// TestNotTrusted: the headers of those who are no trusted proxies change nothing.
func TestNotTrusted(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	forged := []string{"X-Forwarded-User: bo@example.org", "X-Forwarded-Groups: queue-ops", "X-Forwarded-For: 10.1.2.3", "X-Forwarded-Host: queue.example.org"}
	for _, trusted := range []string{"10.0.0.0/8,::1", "unix"} {
		p := serveProxied(t, "--trust-proxy", trusted)
		if status, text := send(t, http.DefaultClient, "GET", p.url+"/v1/caller", forged...); status != 401 {
			t.Errorf("%s: %d %s", trusted, status, text)
		}
		if status, _ := send(t, http.DefaultClient, "GET", p.url+"/v1/caller", append(forged, "Host: evil.example")...); status != 421 {
			t.Errorf("%s: another host: %d", trusted, status)
		}
		if status, _ := send(t, http.DefaultClient, "GET", p.url+"/metrics", forged...); status != 401 {
			t.Errorf("%s: metrics: %d", trusted, status)
		}
	}
	over := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	for trusted, want := range map[string]int{"127.0.0.1": 401, "unix": 200} {
		p := serveProxied(t, "--http", "unix:"+socket, "--trust-proxy", trusted)
		if status, text := send(t, over, "GET", "http://localhost/v1/caller", forged...); status != want {
			t.Errorf("over a unix socket with --trust-proxy %s: %d %s", trusted, status, text)
		}
		over.CloseIdleConnections()
		p.Kill()
	}
}

// TestProxyHTTP2: nothing is believed that comes with HTTP/2, which the port does not serve.
func TestProxyHTTP2(t *testing.T) {
	t.Parallel()
	p := serveProxied(t, "--trust-proxy", "127.0.0.1")
	client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	if reply, err := client.Get(p.url + "/v1/caller"); err == nil {
		t.Errorf("%s", reply.Status)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1/caller HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-User: bo@example.org\r\n X-Forwarded-Groups: queue-ops\r\nConnection: close\r\n\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "400") && !strings.Contains(line, "403") {
		t.Errorf("a header in two lines: %q, %v", line, err)
	}
}
