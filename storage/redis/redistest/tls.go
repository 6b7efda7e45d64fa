package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are files in PEM: of an authority, and of a server and a client
// that it vouches for.
type Certificates struct{ CA, ServerCert, ServerKey, ClientCert, ClientKey string }

// NewCertificates makes certificates for the loopback address.
func NewCertificates(tb testing.TB) *Certificates {
	tb.Helper()
	dir := tb.TempDir()
	ca := newCertificate(tb, "authority", nil)
	c := &Certificates{CA: filepath.Join(dir, "ca")}
	ca.write(tb, c.CA, filepath.Join(dir, "ca-key"))
	c.ServerCert, c.ServerKey = filepath.Join(dir, "server"), filepath.Join(dir, "server-key")
	newCertificate(tb, "server", ca).write(tb, c.ServerCert, c.ServerKey)
	c.ClientCert, c.ClientKey = filepath.Join(dir, "client"), filepath.Join(dir, "client-key")
	newCertificate(tb, "client", ca).write(tb, c.ClientCert, c.ClientKey)
	return c
}

type certificate struct {
	its *x509.Certificate
	der []byte
	key *ecdsa.PrivateKey
}

// newCertificate makes one that by vouches for; nil: it is an authority.
func newCertificate(tb testing.TB, name string, by *certificate) *certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	c := &certificate{key: key, its: &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{name},
		BasicConstraintsValid: true, IsCA: by == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}}
	if by == nil {
		by = c
	}
	if c.der, err = x509.CreateCertificate(rand.Reader, c.its, by.its, &key.PublicKey, by.key); err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c *certificate) write(tb testing.TB, certFile, keyFile string) {
	tb.Helper()
	key, err := x509.MarshalECPrivateKey(c.key)
	if err != nil {
		tb.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: c.der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// StartTLS starts a redis-server that also speaks TLS, to clients with a
// certificate, and returns the address for that.
func StartTLS(tb testing.TB, c *Certificates) (s *Server, addr string) {
	tb.Helper()
	port := freePort(tb)
	s = Start(tb, "--tls-port", port, "--tls-ca-cert-file", c.CA, "--tls-cert-file", c.ServerCert,
		"--tls-key-file", c.ServerKey, "--tls-auth-clients", "yes")
	return s, net.JoinHostPort("127.0.0.1", port)
}
