package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"redstalk/tools/conformance/child"
)

var (
	oauth2Proxy = flag.String("oauth2-proxy", "", "the `path` of oauth2-proxy, for TestOpenIDConnect")
	openID      = flag.String("openid-provider", "", "the `path` of the example server of github.com/zitadel/oidc/v3, for TestOpenIDConnect")
)

// startProvider starts an OpenID provider with two people, whose names of groups are the claim family_name, and returns its issuer.
func startProvider(t *testing.T, callback string) (issuer string) {
	t.Helper()
	people := make(map[string]map[string]any)
	for name, group := range map[string]string{"ann": "queue-ops", "bo": "nobodies"} {
		people[name] = map[string]any{"ID": name, "Username": name, "Password": "verysecure", "LastName": group, "Email": name + "@example.com", "EmailVerified": true}
	}
	text, err := json.Marshal(people)
	if err != nil {
		t.Fatal(err)
	}
	file, port := filepath.Join(t.TempDir(), "people.json"), child.FreePort()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(*openID)
	cmd.Env = []string{"PORT=" + port, "USERS_FILE=" + file, "REDIRECT_URI=" + callback}
	if err := start(t, cmd).AwaitWithin(patience, child.Accepts("tcp", "127.0.0.1:"+port)); err != nil {
		t.Fatal(err)
	}
	return "http://localhost:" + port + "/"
}

// startOAuth2Proxy starts oauth2-proxy in front of a server, with the configuration of the documentation, and returns its URL.
func startOAuth2Proxy(t *testing.T, server string) (front string) {
	t.Helper()
	text, err := os.ReadFile("../../tools/deploy/proxy/oauth2-proxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + child.FreePort()
	front = "http://" + at
	issuer := startProvider(t, front+"/oauth2/callback")
	replaced := strings.NewReplacer("127.0.0.1:4180", at, "https://queue.example.org", front, "http://127.0.0.1:11380", server, "https://id.example.org", issuer,
		`"redstalk"`, `"web"`, "profile groups", "profile", `claim = "groups"`, `claim = "family_name"`).Replace(string(text)) + "\ncookie_secure = false\n"
	config := filepath.Join(t.TempDir(), "oauth2-proxy.cfg")
	if err := os.WriteFile(config, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(t, exec.Command(*oauth2Proxy, "--config", config)).AwaitWithin(patience, child.Accepts("tcp", at)); err != nil {
		t.Fatal(err)
	}
	return front
}

// signOn signs a person on in a new browser, which has opened the console, and returns what that gets.
func signOn(t *testing.T, front, person string) (browser *http.Client, page string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	far := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // not the address of the proxy, which is trusted
	browser = &http.Client{Jar: jar, Transport: &http.Transport{DialContext: far.DialContext}}
	form, err := browser.Get(front + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer form.Body.Close()
	text, _ := io.ReadAll(form.Body)
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindSubmatch(text)
	if id == nil {
		t.Fatalf("%s: %s", form.Request.URL, text)
	}
	reply, err := browser.PostForm(form.Request.URL.String(), url.Values{"username": {person}, "password": {"verysecure"}, "id": {string(id[1])}})
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err = io.ReadAll(reply.Body)
	if err != nil || reply.Request.URL.String() != front+"/" {
		t.Errorf("after signing on: %s, %v", reply.Request.URL, err)
	}
	return browser, string(text)
}

// TestOpenIDConnect: people sign on with OpenID Connect at oauth2-proxy, have the rights of their groups, and are named in the
// file of acts. make test-long runs it.
func TestOpenIDConnect(t *testing.T) {
	t.Parallel()
	if *oauth2Proxy == "" || *openID == "" {
		t.Skip("without -oauth2-proxy and -openid-provider; make long-signon has them")
	}
	p := serveProxied(t, "--trust-proxy", "127.0.0.1")
	front := startOAuth2Proxy(t, p.url)
	forged := []string{"X-Forwarded-User: bo@example.org", "X-Forwarded-Groups: queue-ops", "X-Forwarded-For: 10.1.2.3"}

	stranger := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if status, text := send(t, stranger, "GET", front+"/v1/caller", forged...); status != http.StatusFound && status != http.StatusForbidden && status != http.StatusUnauthorized {
		t.Errorf("without signing on: %d %s", status, text)
	}

	ann, page := signOn(t, front, "ann")
	if !strings.Contains(page, "<title>redstalk</title>") {
		t.Errorf("ann gets %s", page)
	}
	if status, text := send(t, ann, "GET", front+"/v1/caller"); status != 200 || !strings.Contains(text, `"user":"ops","person":"ann@example.com"`) {
		t.Errorf("ann is %d %s", status, text)
	}
	if status, text := send(t, ann, "POST", front+"/v1/tubes/t/kick", append(forged, "X-Redstalk: console", "Origin: "+front)...); status != 200 {
		t.Errorf("ann kicks: %d %s", status, text)
	}
	if act := p.lastAct(t, 1); act["user"] != "ops" || act["person"] != "ann@example.com" || act["peer"] != "127.0.0.2:0" {
		t.Errorf("%v", act)
	}
	if status, _ := send(t, ann, "POST", front+"/v1/tubes/t/kick", "X-Redstalk: console", "Origin: https://evil.example"); status != 403 {
		t.Errorf("another site kicks: %d", status)
	}
	watch, err := ann.Get(front + "/v1/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	if line, err := bufio.NewReader(watch.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "event: ") {
		t.Errorf("the stream of events begins with %q, %v", line, err)
	}

	bo, _ := signOn(t, front, "bo") // bo@example.com, in none of the groups
	if status, text := send(t, bo, "GET", front+"/v1/caller", forged...); status != 403 || !strings.Contains(text, "signed on as bo@example.com") {
		t.Errorf("bo is %d %s", status, text)
	}
}
