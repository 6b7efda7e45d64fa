package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// Certificates are PEM files: of an authority, and of a server and a client with certificates
// signed by it.
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
	template *x509.Certificate
	der      []byte
	key      *ecdsa.PrivateKey
}

// newCertificate makes a certificate signed by `by`; nil: an authority.
func newCertificate(tb testing.TB, name string, by *certificate) *certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	c := &certificate{key: key, template: &x509.Certificate{
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
	if c.der, err = x509.CreateCertificate(rand.Reader, c.template, by.template, &key.PublicKey, by.key); err != nil {
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
	port := child.FreePort()
	s = Start(tb, append([]string{"--tls-port", port}, c.flags()...)...)
	return s, net.JoinHostPort("127.0.0.1", port)
}

// flags are those of a server that asks its clients for a certificate.
func (c *Certificates) flags() []string {
	return []string{"--tls-ca-cert-file", c.CA, "--tls-cert-file", c.ServerCert, "--tls-key-file", c.ServerKey, "--tls-auth-clients", "yes"}
}

// Lock is what clients need for access to servers that speak only TLS, to clients and to each
// other. Nil is none. Rules are the permissions of the user, in the syntax of ACL SETUSER, and
// SentinelRules those with sentinels.
type Lock struct {
	*Certificates
	User, Password       string
	Rules, SentinelRules []string
}

// StartLockedSentinels is StartSentinels behind a lock.
func StartLockedSentinels(tb testing.TB, lock *Lock, replicas int) *Sentinels {
	tb.Helper()
	return startSentinels(tb, terms{lock: lock}, replicas)
}

// StartLockedCluster is StartCluster behind a lock.
func StartLockedCluster(tb testing.TB, lock *Lock, primaries, replicas int) *Cluster {
	tb.Helper()
	return startCluster(tb, terms{lock: lock}, primaries, replicas)
}

// listen are the flags by which a server listens on a port.
func (l *Lock) listen(port string) []string {
	if l == nil {
		return []string{"--port", port}
	}
	return append([]string{"--port", "0", "--tls-port", port, "--tls-replication", "yes", "--tls-cluster", "yes"}, l.flags()...)
}

// admit are the flags by which a server knows the user.
func (l *Lock) admit() []string {
	if l == nil {
		return nil
	}
	return append([]string{"--user", l.User, "on", ">" + l.Password}, l.Rules...)
}

func (l *Lock) admitToSentinel() []string {
	if l == nil {
		return nil
	}
	return append([]string{"--user", l.User, "on", ">" + l.Password}, l.SentinelRules...)
}

// config is for clients of the tests themselves.
func (l *Lock) config() *tls.Config {
	if l == nil {
		return nil
	}
	text, err := os.ReadFile(l.CA)
	if err != nil {
		panic(err) // the test has just written it
	}
	own, err := tls.LoadX509KeyPair(l.ClientCert, l.ClientKey)
	if err != nil {
		panic(err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}
	c.RootCAs.AppendCertsFromPEM(text)
	return c
}

// url returns the URL of an engine that uses the lock; rest begins after the scheme's first
// word.
func (l *Lock) url(scheme, rest string) string {
	if l == nil {
		return scheme + rest
	}
	rest = strings.Replace(rest, "://", "://"+l.User+":"+l.Password+"@", 1)
	query := url.Values{"ca": {l.CA}, "cert": {l.ClientCert}, "key": {l.ClientKey}}
	return scheme + "s" + rest + "?" + query.Encode()
}
