package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// certificate makes a certificate that is its own authority, and the files of it and its key.
func certificate(t *testing.T) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "queue"}, DNSNames: []string{"queue.test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	for file, text := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pair, certFile, keyFile
}

// behindTLS starts a TLS proxy to a server, which requires client certificates.
func behindTLS(t *testing.T, pair tls.Certificate, server string) (addr string) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				to, err := net.Dial("unix", strings.TrimPrefix(server, "unix:"))
				if err != nil {
					return
				}
				defer to.Close()
				go io.Copy(client, to)
				io.Copy(to, client)
			}()
		}
	}()
	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	t.Parallel()
	pair, cert, key := certificate(t)
	addr := behindTLS(t, pair, ours(t))
	for _, c := range []struct {
		args string
		code int
	}{
		{"--tls-ca " + cert + " --tls-name queue.test --tls-cert " + cert + " --tls-key " + key, 0},
		{"--tls-ca " + cert + " --tls-name queue.test", exitServer},                    // no certificate
		{"--tls-ca " + cert + " --tls-cert " + cert + " --tls-key " + key, exitServer}, // another name
		{"--tls", exitServer}, // not known to the system
		{"--tls-ca " + key, exitUsage},
		{"--tls-cert " + cert, exitUsage},
		{"--tls-cert " + key + " --tls-key " + cert, exitUsage},
	} {
		got := runIn(t.Context(), "", append([]string{"-s", addr, "put", "x"}, strings.Fields(c.args)...)...)
		if got.code != c.code {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
}

// TestSecrets: a secret is read from the file or the environment, sent, and never shown.
func TestSecrets(t *testing.T) {
	const secret = "hunter2 – hunter2"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := make(chan string, 2)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 1000)
			n, _ := conn.Read(buf)
			sent <- string(buf[:n])
			io.WriteString(conn, "UNAUTHORIZED\r\n")
			conn.Close()
		}
	}()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDSTALK_SECRET", secret)
	for _, args := range [][]string{{"put", "x"}, {"put", "x", "--secret-file", file}} {
		got := runIn(t.Context(), "", append(args, "-s", l.Addr().String(), "--user", "app")...)
		if got.code != exitForbidden || strings.Contains(got.out+got.err, secret) {
			t.Errorf("%v: %+v", args, got)
		}
		if line := <-sent; line != "auth app "+secret+"\r\n" {
			t.Errorf("%v: sent %q", args, line)
		}
	}
	t.Setenv("REDSTALK_SECRET", secret+"\n")
	if got := runIn(t.Context(), "", "put", "x", "--user", "app", "-s", l.Addr().String()); got.code != exitUsage || strings.Contains(got.err, secret) {
		t.Errorf("%+v", got)
	}
}

// TestVariables: one environment is for both programs. No variable of redstalk is one of redstalkd, and those of its TLS
// mean nothing here; but who relied on REDSTALK_TLS=1 in 0.1.0 is not without TLS unnoticed.
func TestVariables(t *testing.T) {
	page, err := os.ReadFile("../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	ofServer := regexp.MustCompile("`REDSTALK_TLS\\w*`").FindAllString(string(page), -1)
	if len(ofServer) < 4 {
		t.Fatalf("the page has only %v", ofServer)
	}
	for _, f := range commonFlags() {
		for _, variable := range f.(cli.DocGenerationFlag).GetEnvVars() {
			if strings.Contains(string(page), "| `"+variable+"` |") {
				t.Errorf("%s is a variable of redstalkd, too", variable)
			}
		}
	}
	addr := ours(t)
	for _, variable := range ofServer {
		t.Setenv(strings.Trim(variable, "`"), "/nowhere:11301")
	}
	on(t, addr)("tubes")
	t.Setenv("REDSTALK_TLS", "1")
	if got := runIn(t.Context(), "", "tubes", "-s", addr); got.code != exitUsage || !strings.Contains(got.err, "REDSTALK_CLIENT_TLS") {
		t.Errorf("%+v", got)
	}
	t.Setenv("REDSTALK_CLIENT_TLS", "0")
	on(t, addr)("tubes")
}
