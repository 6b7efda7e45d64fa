package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"redstalk/server/access"
)

// This file makes the certificates and users for servers that compare starts, again for
// every start. A server's command requests them with {cert} and {key}, or with {access}.

// benchUser is the user of {access}. It has all rights, but only on the tubes of a load, so
// that the server has to check the name of every tube.
const benchUser = "stalkbench"

// wants reports whether a server's command has a placeholder.
func (s *server) wants(placeholder string) bool {
	return strings.Contains(strings.Join(s.argv, " "), placeholder)
}

// prepare makes what the server's placeholders request, and sets the target for clients. It
// returns pairs with the placeholders and their replacements appended.
func (r *running) prepare(s *server, addr string, pairs []string) ([]string, error) {
	r.target.addr = addr
	if s.wants("{cert}") {
		cert, key := filepath.Join(r.dir, "cert.pem"), filepath.Join(r.dir, "key.pem")
		roots, err := makeCertificate(cert, key)
		if err != nil {
			return nil, fmt.Errorf("making a certificate for %s: %w", s.name, err)
		}
		r.tls = clientConfig(loopback, roots)
		pairs = append(pairs, "{cert}", cert, "{key}", key)
	}
	if s.wants("{access}") {
		file := filepath.Join(r.dir, "access.yaml")
		r.user, r.secret = benchUser, rand.Text()
		if err := writeAccess(file, r.user, r.secret); err != nil {
			return nil, fmt.Errorf("making a file of users for %s: %w", s.name, err)
		}
		pairs = append(pairs, "{access}", file)
	}
	return pairs, nil
}

// loopback is where servers that compare starts listen.
const loopback = "127.0.0.1"

// makeCertificate writes a self-signed certificate for the loopback address, and its key. It
// returns the pool with its authority.
func makeCertificate(certFile, keyFile string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), IPAddresses: []net.IP{net.ParseIP(loopback)},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(certFile, cert, 0o600); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return roots, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
}

// writeAccess writes a file of users with one user.
func writeAccess(file, user, secret string) error {
	hash, err := access.HashBcrypt(secret, access.DefaultBcryptCost)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("users:\n  - name: %s\n    secrets: [%q]\n    rights:\n      - tubes: [%q]\n        may: [put, work, look, admin]\n",
		user, hash, tubePrefix+"*")
	return os.WriteFile(file, []byte(text), 0o600)
}
