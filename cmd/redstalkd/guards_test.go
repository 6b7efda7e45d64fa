package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
)

// hashed hashes a secret with the program.
func hashed(t *testing.T, secret string, args ...string) string {
	t.Helper()
	cmd := command(append([]string{"secret"}, args...)...)
	cmd.Stdin = strings.NewReader(secret + "\n")
	code, stdout, stderr := run(t, cmd)
	if code != 0 || strings.Contains(stdout+stderr, secret) {
		t.Fatalf("%d, %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	return lines[len(lines)-1]
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for pattern, args := range map[string][]string{
		`^\$2a\$04\$.{53}$`:                  {"--cost", "4"},
		`^\$2a\$05\$.{53}$`:                  {"--cost=5"},
		`^\$argon2id\$v=19\$m=65536,t=3,p=4`: {"--argon2id"},
	} {
		if got := hashed(t, "a very secret word", args...); !regexp.MustCompile(pattern).MatchString(got) {
			t.Errorf("%v: %s", args, got)
		}
	}
	for _, c := range []struct {
		stdin, want string
		args        []string
	}{
		{"", "the secret is empty", nil},
		{"\n", "the secret is empty", nil},
		{strings.Repeat("s3cret", 13), "at most 72 bytes", nil},
		{strings.Repeat("s3cret", 22), "more than 128 bytes", []string{"--argon2id"}},
		{"s3cret", "with the secret on standard input", []string{"s3cret"}},
		{"s3cret", "from 4 to 16", []string{"--cost", "3"}},
		{"s3cret", "--cost is a number", []string{"--cost", "s3cret"}},
	} {
		cmd := command(append([]string{"secret"}, c.args...)...)
		cmd.Stdin = strings.NewReader(c.stdin)
		if code, stdout, stderr := run(t, cmd); code != exitUsage || !strings.Contains(stderr, c.want) || strings.Contains(stdout+stderr, "s3cret") {
			t.Errorf("%v %q: %d, %s%s", c.args, c.stdin, code, stdout, stderr)
		}
	}
}

// userFile writes a file of users, each as NAME SECRET-HASH TUBES RIGHTS.
func userFile(t *testing.T, path string, users ...[4]string) {
	t.Helper()
	text := "users:\n"
	if len(users) == 0 {
		text = "users: []\n"
	}
	for _, u := range users {
		text += fmt.Sprintf("- {name: %s, secrets: [%q], rights: [{tubes: [%q], may: [%s]}]}\n", u[0], u[1], u[2], u[3])
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certificate writes a self-signed certificate for the host queue, and for others, and its
// key, and returns it.
func certificate(t *testing.T, dir string, also ...string) *x509.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "queue"}, DNSNames: append(also, "queue"), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	keyDER := must(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return must(x509.ParseCertificate(der))(t)
}

// trusting is the TLS configuration of a client that trusts c.
func trusting(c *x509.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return &tls.Config{RootCAs: pool, ServerName: "queue"}
}

// dialTLS connects with TLS.
func dialTLS(t *testing.T, addr string, config *tls.Config) *client {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { conn.Close() })
	return &client{t, protoclient.New(conn)}
}

// TestUsers: a program with users, TLS and HTTP. Whatever fails, nothing that it prints or
// replies contains a secret.
func TestUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret, wrong := filepath.Join(dir, "users.yml"), "open5esame", "open5caraway"
	hash := hashed(t, secret, "--cost", "4")
	app := [4]string{"app", hash, "jobs*", "put, work, look"}
	userFile(t, file, app, [4]string{"gone", hash, "*", "read"})
	cert := certificate(t, dir)
	args := []string{"-VV", "-p0", "--access", file, "--http", "127.0.0.1:0", "--gateway", "ouqiang=127.0.0.1:0", "--tls", "127.0.0.1:0", "--http-tls", "127.0.0.1:0",
		"--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem")}
	p := start(t, command(args...))
	addr := p.serving(t)
	secureAddr, webURL, webTLS := p.stderr.await(t, `msg=serving listener=tls addr=(\S+)`), p.stderr.await(t, `listener=http url=(\S+)`), p.stderr.await(t, `listener=https url=(\S+)`)
	gateway := p.stderr.await(t, `listener=ouqiang url=(\S+)`)

	plain, gone, secure := dial(t, addr), dial(t, addr), dialTLS(t, secureAddr, trusting(cert))
	plain.ask("use jobs\r\nauth app "+secret+"\r\nuse jobs\r\nput 0 0 60 1\r\nx\r\nuse other\r\n", "FORBIDDEN", "AUTHENTICATED", "USING jobs", "INSERTED 1", "FORBIDDEN")
	secure.ask("auth "+secret+" app\r\nauth app "+secret+"\r\npeek 1\r\n", "UNAUTHORIZED", "AUTHENTICATED", "FOUND 1 1", "x")
	gone.ask("auth gone "+secret+"\r\n", "AUTHENTICATED")
	received := plain.page("stats") + plain.page("stats-tube jobs") + plain.page("capabilities")
	received += wantStatuses(t, trusting(cert), "app", secret, map[string]int{
		webURL + "v1/tubes/jobs": 200, webTLS + "v1/tubes/jobs": 200, webURL + "metrics": 403, webTLS + "metrics": 403,
		webURL + "v1/caller": 200, webURL + "v1/server": 200, gateway + "get": 200,
	})
	received += wantStatuses(t, trusting(cert), "gone", secret, map[string]int{webURL + "metrics": 200, webTLS + "metrics": 200, gateway + "pop": 200})
	received += wantStatuses(t, trusting(cert), "app", wrong, map[string]int{webURL + "v1/server": 401})
	for _, open := range []string{"healthz", "readyz", "openapi.json", "docs", ""} {
		received += getPage(t, webURL+open)
	}
	if err := os.WriteFile(file, []byte("users: [{name: app, secrets: ["+secret+"]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, "(the file of users is faulty)")
	gone.ask("list-tube-used\r\n", "USING default")
	userFile(t, file, app)
	renewed := certificate(t, dir)
	p.signal(t, syscall.SIGHUP)
	if line, err := gone.conn.Line(); err == nil {
		t.Errorf("who is gone got %q", line)
	}
	plain.ask("auth app "+wrong+"\r\n", "UNAUTHORIZED")
	plain.ask("auth "+wrong+" "+secret+"\r\n", "UNAUTHORIZED")
	if page := plain.page("list-tubes"); page != "---\n- jobs\n" {
		t.Errorf("tubes: %q", page)
	}
	p.stderr.await(t, "(the certificates were read again)")
	dialTLS(t, secureAddr, trusting(renewed)).ask("auth app "+secret+"\r\n", "AUTHENTICATED")
	p.holdsNoSecret(t, received, secret, wrong, hash, string(must(os.ReadFile(filepath.Join(dir, "key.pem")))(t)))
}

// holdsNoSecret ends the program, and checks that none of these texts, of which the last one is
// a key, is in its replies, in its output, or visible in its process.
func (p *process) holdsNoSecret(t *testing.T, received string, secrets ...string) {
	t.Helper()
	secrets[len(secrets)-1] = strings.Split(secrets[len(secrets)-1], "\n")[1]
	places := map[string]string{"pages": received}
	for _, name := range []string{"cmdline", "comm", "environ", "status"} {
		places["process's "+name] = string(must(os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Pid(), name)))(t))
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	places["log"], places["output"] = p.stderr.String(), p.stdout.String()
	for what, text := range places {
		for _, word := range secrets {
			if strings.Contains(text, word) {
				t.Errorf("%s holds the secret %s:\n%s", what, word, text)
			}
		}
	}
}

// getPage returns the response to a request without authentication.
func getPage(t *testing.T, url string) string {
	t.Helper()
	reply := must((&http.Client{Timeout: patience}).Get(url))(t)
	defer reply.Body.Close()
	return string(must(io.ReadAll(reply.Body))(t))
}

// wantStatuses requests pages as a user, and without authentication, which is refused. It returns all
// responses.
func wantStatuses(t *testing.T, config *tls.Config, name, secret string, pages map[string]int) (received string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	for url, status := range pages {
		for user, want := range map[string]int{name: status, "": 401} {
			if strings.HasSuffix(url, "/get") || strings.HasSuffix(url, "/pop") {
				want = 200 // the older system reports errors in the body
			}
			r := must(http.NewRequest("GET", url, nil))(t)
			if user != "" {
				r.SetBasicAuth(user, secret)
			}
			reply := must((&http.Client{Transport: transport, Timeout: patience}).Do(r))(t)
			page := must(io.ReadAll(reply.Body))(t)
			reply.Body.Close()
			if reply.StatusCode != want {
				t.Errorf("%s as %q: %d %s, want %d", url, user, reply.StatusCode, page, want)
			}
			received += fmt.Sprint(reply.Header, string(page))
		}
	}
	return received
}

// TestGuardFailures: faults of files are reported at the start, without their
// contents.
func TestGuardFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	os.WriteFile(path("users.yml"), []byte("users: [{name: a, secrets: [s3cret]}]"), 0o600)
	os.WriteFile(path("junk.pem"), []byte("s3cret"), 0o600)
	cert, key := path("cert.pem"), path("key.pem")
	for want, args := range map[string]string{
		"--access: reading the users in " + path("users.yml") + ": user a: a secret is no hash": "--access " + path("users.yml"),
		"--access: reading the users in " + path("none"):                                        "--access " + path("none"),
		"--tls: reading the certificate":                                                        "--tls 127.0.0.1:0 --tls-cert " + path("junk.pem") + " --tls-key " + key,
		"--http-tls: reading the certificate":                                                   "--http-tls 127.0.0.1:0 --http-tls-cert " + cert + " --http-tls-key " + path("none"),
		"there is no certificate in " + path("junk.pem"):                                        "--tls 127.0.0.1:0 --tls-client-ca " + path("junk.pem") + " --tls-cert " + cert + " --tls-key " + key,
	} {
		code, _, stderr := run(t, command(append(strings.Fields(args), "-p0")...))
		if code != exitFailure || !strings.Contains(stderr, want) || strings.Contains(stderr, "s3cret") {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}

// TestWarnsOfOpenPorts: the program warns of each port that everybody can reach, unless there
// are users or clients need a certificate.
func TestWarnsOfOpenPorts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir)
	userFile(t, filepath.Join(dir, "users.yml"))
	const warning = "may do everything; see --access and --tls"
	secured := "--tls 127.0.0.1:0 --tls-cert " + filepath.Join(dir, "cert.pem") + " --tls-key " + filepath.Join(dir, "key.pem")
	for args, want := range map[string]int{
		"-l 0.0.0.0": 1, "-l 127.0.0.1": 0, "-l 0.0.0.0 " + secured: 1, "-l 0.0.0.0 --access " + filepath.Join(dir, "users.yml"): 0,
		"-l 127.0.0.1 --http 0.0.0.0:0": 1, "--http :0 --access " + filepath.Join(dir, "users.yml"): 0, "--http 127.0.0.1:0": 0,
		"--gateway ouqiang=0.0.0.0:0,zywaited-grpc=0.0.0.0:0": 2, strings.ReplaceAll(secured, "127.0.0.1", "0.0.0.0"): 1,
		"--http-tls 0.0.0.0:0 " + secured: 1, "--http-tls 0.0.0.0:0 --tls-client-ca " + filepath.Join(dir, "cert.pem") + " " + secured: 0,
	} {
		p, _ := serve(t, append(strings.Fields(args), "-p0")...)
		if got := strings.Count(p.stderr.String(), warning); got != want {
			t.Errorf("%s: %d warnings:\n%s", args, got, p.stderr)
		}
	}
}

func TestUnixOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a?b=c")
	user, group := os.Getuid(), os.Getgid()
	if user == 0 { // who may give files away
		user, group = 65534, 65533
	}
	p, _ := serve(t, "-l", fmt.Sprintf("unix:%s?mode=0660&user=%d&group=%d", path, user, group), "--http", "unix:"+filepath.Join(dir, "h")+"?mode=600")
	dial(t, path).ask("watch a\r\n", "WATCHING 2")
	for name, want := range map[string]os.FileMode{path: 0o660, filepath.Join(dir, "h"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if own := must(os.Stat(path))(t).Sys().(*syscall.Stat_t); int(own.Uid) != user || int(own.Gid) != group {
		t.Errorf("the socket is of %d:%d, want %d:%d", own.Uid, own.Gid, user, group)
	}
	p.signal(t, syscall.SIGTERM)
	if p.code(t); p.Cmd.ProcessState.ExitCode() != 0 {
		t.Error(p.stderr)
	}
	for args, want := range map[string]string{
		"?mode=0888": "is not a mode", "?mode=01777": "is not a mode", "?mode=": "with no value", "?mode=0600&mode=0660": "several",
		"?group=no-such-group": "no-such-group", "?user=no-such-user": "no-such-user", "?user=%zz": "is not like",
	} {
		code, _, stderr := run(t, command("-l", "unix:"+filepath.Join(dir, "s")+args))
		if code != exitListen || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}

// TestReloadNotRegular: a file that has become a named pipe is refused on SIGHUP. Later it is read
// again, and signals are still handled.
func TestReloadNotRegular(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	certificate(t, dir)
	userFile(t, at("users.yml"))
	if err := os.WriteFile(at("secrets"), []byte("* whsec_YW5vdGhlci1zZWNyZXQtb2YtMzItYnl0ZXMhISEh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"key.pem", "users.yml"} {
		if err := os.Chmod(at(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := serve(t, "-p0", "--access", at("users.yml"), "--tls", "127.0.0.1:0", "--tls-cert", at("cert.pem"), "--tls-key", at("key.pem"),
		"--push-allow", "localhost", "--push-secrets", at("secrets"))
	for _, name := range []string{"key.pem", "users.yml"} {
		p.stderr.await(t, `(msg="every user of this machine can read a file with secrets" file=`+at(name)+`)`)
	}
	for name, again := range map[string]string{
		"users.yml": "the users were read again", "cert.pem": "the certificates were read again", "secrets": "the secrets of pushes were read again",
	} {
		if err := errors.Join(os.Rename(at(name), at("kept")), syscall.Mkfifo(at(name), 0o600)); err != nil {
			t.Fatal(err)
		}
		p.signal(t, syscall.SIGHUP)
		p.stderr.await(t, "("+at(name)+" is not a regular file)")
		before := strings.Count(p.stderr.String(), again)
		if err := os.Rename(at("kept"), at(name)); err != nil {
			t.Fatal(err)
		}
		now := time.Now().Add(time.Minute) // of a certificate it is seen by this that it has changed
		os.Chtimes(at(name), now, now)
		p.signal(t, syscall.SIGHUP)
		for began := time.Now(); strings.Count(p.stderr.String(), again) == before; time.Sleep(time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("%s is not read again: %s", name, p.stderr)
			}
		}
	}
	p.end(t)
}
