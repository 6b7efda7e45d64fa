package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nodeClient connects to a port with TLS and trusts the certificate in a file. It sends its last argument,
// and prints everything that it receives.
const nodeClient = `
const tls = require("tls"), fs = require("fs")
const [port, ca, text] = process.argv.slice(1)
const conn = tls.connect({host: "127.0.0.1", port, ca: fs.readFileSync(ca), servername: "queue"}, () => conn.write(text))
conn.pipe(process.stdout)
conn.on("error", e => { console.error(e); process.exit(1) })
`

// thirdParty runs a third-party program, and returns its output. It skips the test if the
// program is not installed.
func thirdParty(t *testing.T, stdin, name string, args ...string) (stdout string, err error) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err = cmd.Run(); err != nil {
		t.Logf("%s: %v\n%s", name, err, said.Bytes())
	}
	return out.String(), err
}

// TestTLSByOthers: openssl, node and curl connect with TLS, as a user with a secret and as one
// with a certificate. Renegotiation is refused.
func TestTLSByOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, cert, key := filepath.Join(dir, "users.yml"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate(t, dir) // it is that of the server, its own authority, and that of the user queue
	hash := hashed(t, "sesame", "--cost", "4")
	userFile(t, file, [4]string{"app", hash, "jobs*", "put, work, look"}, [4]string{"queue", hash, "certified", "put, look"})
	p := start(t, command("-V", "-p0", "--access", file, "--tls", "127.0.0.1:0", "--http-tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert))
	addr, url := p.stderr.await(t, `msg=serving listener=tls addr=(\S+)`), p.stderr.await(t, `listener=https url=(\S+)`)
	_, port, _ := strings.Cut(addr, ":")
	tlsArgs := []string{"s_client", "-connect", addr, "-servername", "queue", "-CAfile", cert, "-verify_return_error", "-verify_hostname", "queue"}
	const hello = "auth app sesame\r\nuse jobs\r\nuse certified\r\nput 0 0 60 1\r\nx\r\nquit\r\n"
	const greeting = "AUTHENTICATED\r\nUSING jobs\r\nFORBIDDEN\r\nFORBIDDEN\r\n"

	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		t.Run("openssl "+version, func(t *testing.T) {
			if got, err := thirdParty(t, hello, "openssl", append(tlsArgs, version, "-quiet")...); got != greeting || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			certified := append(tlsArgs, version, "-quiet", "-cert", cert, "-key", key)
			if got, _ := thirdParty(t, "use certified\r\nuse jobs\r\nquit\r\n", "openssl", certified...); got != "USING certified\r\nFORBIDDEN\r\n" {
				t.Errorf("by certificate: %q", got)
			}
		})
	}
	t.Run("renegotiation", func(t *testing.T) {
		tryRenegotiation(t, append(tlsArgs, "-tls1_2"))
	})
	t.Run("old versions", func(t *testing.T) {
		got, err := thirdParty(t, hello, "openssl", append(tlsArgs, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-quiet")...)
		if got != "" || err == nil {
			t.Errorf("%q", got)
		}
	})
	t.Run("node", func(t *testing.T) {
		if got, err := thirdParty(t, "", "node", "-e", nodeClient, port, cert, hello); got != greeting || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("curl", func(t *testing.T) { tryCurl(t, url, cert, key) })
}

// tryRenegotiation makes openssl renegotiate, which an input line R does: the server ends the connection
// with an alert. The input stays open meanwhile.
func tryRenegotiation(t *testing.T, args []string) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	defer to.Close()
	io.WriteString(to, "R\n")
	cmd := exec.CommandContext(t.Context(), "openssl", args...)
	cmd.Stdin = from
	got, err := cmd.CombinedOutput()
	if text := string(got); err == nil || !strings.Contains(text, "RENEGOTIATING") || !strings.Contains(text, "alert unexpected message") {
		t.Errorf("%v\n%s", err, text)
	}
}

// tryCurl sends requests as the user app with its secret, as queue with its certificate, and
// without authentication.
func tryCurl(t *testing.T, url, cert, key string) {
	_, webPort, _ := strings.Cut(strings.Trim(strings.TrimPrefix(url, "https://"), "/"), ":")
	curl := func(args ...string) string {
		t.Helper()
		got, err := thirdParty(t, "", "curl", append(args, "-sS", "--cacert", cert, "--resolve", "queue:"+webPort+":127.0.0.1", "-w", " %{http_version} %{http_code}")...)
		if err != nil {
			t.Error(err)
		}
		return got
	}
	at := "https://queue:" + webPort
	for _, c := range []struct {
		want string
		args []string
	}{
		{`{"id":1,"state":"ready"`, []string{at + "/v1/tubes/jobs/jobs", "-u", "app:sesame", "--json", `{"body":"x"}`}},
		{" 1.1 403", []string{at + "/v1/tubes/certified/jobs", "-u", "app:sesame", "--json", `{"body":"x"}`}},
		{" 1.1 401", []string{at + "/v1/tubes/jobs", "-u", "app:no"}},
		{" 1.1 401", []string{at + "/v1/tubes/jobs", "--http1.1"}},
		{" 1.1 201", []string{at + "/v1/tubes/certified/jobs", "--cert", cert, "--key", key, "--json", `{"body":"x"}`}},
		{" 1.1 403", []string{at + "/v1/tubes/jobs", "--cert", cert, "--key", key}},
	} {
		if got := curl(c.args...); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
}
