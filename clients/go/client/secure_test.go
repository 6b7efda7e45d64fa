package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
)

// TestSecure: calls and reserves work with TLS and a user. Rights, a wrong secret and an unknown authority are
// errors at once.
func TestSecure(t *testing.T) {
	testserver.CheckLeaks(t)
	dir := t.TempDir()
	roots := certificate(t, dir)
	addr := testserver.FreeAddr(t)
	redstalktest.Start(t, "--access", accessFile(t, dir), "--tls", addr, "--tls-cert", filepath.Join(dir, "cert"), "--tls-key", filepath.Join(dir, "key"))
	c := client.New(addr, client.TLS(&tls.Config{RootCAs: roots}), client.Auth("app", "open sesame"))
	defer c.Close()
	mustPut(t, c, "mails", "x")
	consumer := c.Consume("mails")
	job, err := consumer.Reserve(limited(t), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Delete(limited(t)); err != nil {
		t.Error(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	_, err = consumer.Reserve(ctx, time.Minute) // ends by closing the half of a TLS connection
	wantErr(t, err, context.DeadlineExceeded)
	for range 2 {
		_, err = c.Put(limited(t), "others", nil)
		wantErr(t, err, client.ErrForbidden)
		mustPut(t, c, "mails", "the connection still works")
	}
	_, err = c.Consume("others").Reserve(limited(t), time.Second)
	wantErr(t, err, client.ErrForbidden)

	wrong := client.New(addr, client.TLS(&tls.Config{RootCAs: roots}), client.Auth("app", "wrong"))
	defer wrong.Close()
	_, err = wrong.Put(limited(t), "mails", nil)
	wantErr(t, err, client.ErrUnauthorized)

	unknown := client.New(addr, client.TLS(&tls.Config{}))
	defer unknown.Close()
	_, err = unknown.Put(limited(t), "mails", nil)
	if cert := new(*tls.CertificateVerificationError); !errors.As(err, cert) {
		t.Errorf("%v is not about the certificate", err)
	}
}

// accessFile writes a file with a user that has rights on one tube.
func accessFile(t *testing.T, dir string) string {
	program, err := redstalktest.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "secret", "--cost", "4")
	cmd.Stdin = strings.NewReader("open sesame\n")
	hash, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "access")
	text := "users:\n  - name: app\n    secrets: ['" + strings.TrimSpace(string(hash)) + "']\n    rights:\n      - tubes: [mails]\n        may: [put, work]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificate writes the files cert and key for 127.0.0.1, and returns the authority that signed it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		text := pem.EncodeToMemory(block)
		if roots.AppendCertsFromPEM(text); os.WriteFile(filepath.Join(dir, name), text, 0o600) != nil {
			t.Fatal("writing " + name)
		}
	}
	return roots
}
