package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/server/access"
	"redstalk/server/limits"
	"redstalk/server/queue"
	"redstalk/storage/embedded"
)

// authority is a certificate authority.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	_, a.cert, a.key = a.sign(func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.BasicConstraintsValid = "authority", true, true
		c.KeyUsage = x509.KeyUsageCertSign
	})
	return a
}

// sign returns a certificate that is valid now, unless change changes that.
func (a *authority) sign(change func(*x509.Certificate)) (tls.Certificate, *x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	change(c)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, cert, key
}

// named returns a client certificate for a name.
func (a *authority) named(name string) tls.Certificate {
	pair, _, _ := a.sign(func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name} })
	return pair
}

// files writes the files that a server needs.
func (a *authority) files() access.CertificateFiles {
	a.t.Helper()
	dir := a.t.TempDir()
	pair, _, key := a.sign(func(c *x509.Certificate) { c.DNSNames = []string{"queue"} })
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return path
	}
	return access.CertificateFiles{
		Cert: write("cert.pem", "CERTIFICATE", pair.Certificate[0]), Key: write("key.pem", "PRIVATE KEY", der),
		ClientCA: write("ca.pem", "CERTIFICATE", a.cert.Raw),
	}
}

// tlsHarness is a server with TLS on a loopback address.
type tlsHarness struct {
	*testing.T
	server    *Server
	authority *authority
	addr      string
	log       *syncBuffer
}

// syncBuffer is a log that many goroutines can use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newTLSHarness(t *testing.T, c Config, change func(*access.CertificateFiles)) *tlsHarness {
	t.Helper()
	s := &tlsHarness{T: t, authority: newAuthority(t), log: new(syncBuffer)}
	files := s.authority.files()
	change(&files)
	c.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	certificates, err := access.LoadCertificates(files, c.Log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := embedded.NewMemory()
	q := queue.New(store, queue.Config{Log: c.Log, MaxJobSize: 4 << 20})
	s.server, s.addr = New(q, c), l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.server.ServeTLS(l, certificates.Config()) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-served
		q.Close(ctx)
		store.Close()
	})
	return s
}

// config returns the TLS configuration of a client that trusts the server.
func (s *tlsHarness) config(certificates ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(s.authority.cert)
	return &tls.Config{RootCAs: pool, ServerName: "queue", Certificates: certificates}
}

// tlsClient is a client with TLS.
type tlsClient struct {
	*testing.T
	*tls.Conn
	in *bufio.Reader
}

// dial connects. The client uses what wrap returns for the connection, if wrap is not nil.
func (s *tlsHarness) dial(c *tls.Config, wrap func(net.Conn) net.Conn) *tlsClient {
	s.Helper()
	raw, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.Fatal(err)
	}
	raw.SetDeadline(time.Now().Add(time.Minute))
	if wrap != nil {
		raw = wrap(raw)
	}
	conn := tls.Client(raw, c)
	s.Cleanup(func() { conn.Close() })
	return &tlsClient{s.T, conn, bufio.NewReader(conn)}
}

// ask sends text, and checks the next lines.
func (c *tlsClient) ask(text string, lines ...string) {
	c.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.Fatalf("%.40q: %v", text, err)
	}
	for _, want := range lines {
		if got, err := c.in.ReadString('\n'); got != want+"\r\n" {
			c.Fatalf("%.40q: %.80q (%v), want %q", text, got, err, want)
		}
	}
}

// awaitEnd waits for the end of the connection.
func (c *tlsClient) awaitEnd() error {
	_, err := io.Copy(io.Discard, c.in)
	return err
}

// byteByByteConn sends every byte with a write of its own.
type byteByByteConn struct{ net.Conn }

func (b byteByByteConn) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := b.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// coalescingConn sends the end of the handshake and what is written after it in one packet.
type coalescingConn struct {
	net.Conn
	writes int
	held   []byte
}

func (c *coalescingConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 1 {
		return c.Conn.Write(p)
	}
	if c.held = append(c.held, p...); c.writes < 3 {
		return len(p), nil
	}
	_, err := c.Conn.Write(c.held)
	c.held = nil
	return len(p), err
}

func plainFiles(*access.CertificateFiles) {}

func noClients(f *access.CertificateFiles) { f.ClientCA = "" }

// TestTLS: the protocol works over TLS, however the bytes are divided into records and packets.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := newTLSHarness(t, Config{}, noClients)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for name, wrap := range map[string]func(net.Conn) net.Conn{
			"whole": nil, "byte by byte": func(c net.Conn) net.Conn { return byteByByteConn{c} },
			"together": func(c net.Conn) net.Conn { return &coalescingConn{Conn: c} },
		} {
			if name == "together" && version == tls.VersionTLS12 {
				continue // there the server sends the last message of the handshake
			}
			t.Run(fmt.Sprintf("%s %s", tls.VersionName(version), name), func(t *testing.T) {
				t.Parallel()
				config := s.config()
				config.MinVersion, config.MaxVersion = version, version
				c := s.dial(config, wrap)
				tube := strings.ReplaceAll(t.Name(), "/", "-")
				tube = strings.ReplaceAll(tube, ":", "")
				c.ask("use "+tube+"\r\nwatch "+tube+"\r\nignore default\r\n", "USING "+tube, "WATCHING 2", "WATCHING 1")
				size := 1 << 20
				if name == "byte by byte" {
					size = 20_000
				}
				for _, n := range []int{0, 1, 5000, 16 << 10, 17 << 10, size} {
					body := strings.Repeat("b", n)
					io.WriteString(c, fmt.Sprintf("put 0 0 60 %d\r\n%s\r\nreserve\r\n", n, body))
					line, _ := c.in.ReadString('\n')
					id := strings.TrimSpace(strings.TrimPrefix(line, "INSERTED "))
					c.ask("", fmt.Sprintf("RESERVED %s %d", id, n), body)
					c.ask("delete "+id+"\r\n", "DELETED")
				}
				var want []string
				for range 500 {
					want = append(want, "USING "+tube)
				}
				c.ask(strings.Repeat("list-tube-used\r\n", 500), want...)
				c.ask("list-tube-used\r\n", "USING "+tube)
				c.CloseWrite()
				if err := c.awaitEnd(); err != nil {
					t.Errorf("the end: %v", err)
				}
			})
		}
	}
}

// TestTLSSlowReader: replies that the client does not read are buffered, and come when it reads.
func TestTLSSlowReader(t *testing.T) {
	t.Parallel()
	s := newTLSHarness(t, Config{}, noClients)
	c := s.dial(s.config(), nil)
	const size, times = 1 << 20, 24
	c.ask(fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", size, strings.Repeat("x", size)), "INSERTED 1")
	io.WriteString(c, strings.Repeat("peek 1\r\n", times)+"list-tube-used\r\n")
	for limit := time.Now().Add(time.Minute); s.anyUnread() == 0; time.Sleep(time.Millisecond) { // until the kernel accepts no more
		if time.Now().After(limit) {
			t.Fatal("nothing counts as unread")
		}
	}
	for range times {
		c.ask("", "FOUND 1 1048576", strings.Repeat("x", size))
	}
	c.ask("", "USING default")
	if n := s.drained(); n == 0 {
		t.Error("no buffered bytes count as sent: a slow reader would be taken for a stalled one")
	}
}

// TestTLSNotReading: over TLS, too, a client that does not read its replies is disconnected after a time,
// or when they use too much memory. A client that reads is not.
func TestTLSNotReading(t *testing.T) {
	t.Parallel()
	const size, times = mib, 24
	for cause, config := range map[error]Config{
		errStalled: {WriteTimeout: 200 * time.Millisecond},
		errUnread:  {WriteTimeout: time.Hour, Limits: limits.New(0, size, 0)},
	} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			s := newTLSHarness(t, config, noClients)
			reader := s.dial(s.config(), nil)
			reader.ask(putCommand(bytes.Repeat([]byte("x"), size)), "INSERTED 1")
			stalled := s.dial(s.config(), func(c net.Conn) net.Conn {
				c.(*net.TCPConn).SetReadBuffer(4 << 10)
				return c
			})
			stalled.ask(strings.Repeat("peek 1\r\n", times))
			for limit := time.Now().Add(time.Minute); !strings.Contains(s.log.String(), cause.Error()) || len(s.server.allSessions()) > 1; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("the client that reads nothing is still connected:\n%s", s.log)
				}
			}
			reader.ask("peek 1\r\n", fmt.Sprint("FOUND 1 ", size), strings.Repeat("x", size))
		})
	}
}

// drained returns how many buffered bytes were sent later.
func (s *tlsHarness) drained() (sum uint64) {
	for _, ss := range s.server.allSessions() {
		sum += ss.wire.Drained()
	}
	return sum
}

func (s *tlsHarness) anyUnread() (sum int64) {
	for _, ss := range s.server.allSessions() {
		sum += ss.unread.Load()
	}
	return sum
}

// TestBadHandshakes: none of these connections is accepted, and the server continues to work.
func TestBadHandshakes(t *testing.T) {
	t.Parallel()
	s := newTLSHarness(t, Config{AuthTimeout: 5 * time.Second}, func(f *access.CertificateFiles) { f.RequireClient = true })
	good := s.authority.named("somebody")
	refused := func(name string, c *tls.Config) {
		t.Helper()
		client := s.dial(c, nil)
		io.WriteString(client, "list-tube-used\r\n")
		if line, err := client.in.ReadString('\n'); err == nil {
			t.Errorf("%s: %q", name, line)
		}
	}
	old := s.config(good)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	refused("TLS 1.1", old)
	refused("no certificate", s.config())
	otherAuthority := newAuthority(t)
	refused("another authority", s.config(otherAuthority.named("somebody")))
	for name, change := range map[string]func(*x509.Certificate){
		"expired":         func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
		"not valid yet":   func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) },
		"not for clients": func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} },
	} {
		pair, _, _ := s.authority.sign(change)
		refused(name, s.config(pair))
	}
	wrongName := s.config(good)
	wrongName.ServerName = "another"
	refused("the server has another name", wrongName)
	for _, text := range []string{"list-tube-used\r\n", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff", strings.Repeat("\x16\x03\x03\x00\x00", 100), ""} {
		raw, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(raw, text)
		io.Copy(io.Discard, raw) // the server closes it: the one that sends nothing after AuthTimeout
	}
	s.dial(s.config(good), nil).ask("list-tube-used\r\n", "USING default")
	s.awaitHandshakes()
}

// awaitHandshakes waits until no handshake is under way.
func (s *tlsHarness) awaitHandshakes() {
	for limit := time.Now().Add(time.Minute); s.server.handshakes.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			s.Fatalf("%d handshakes are under way", s.server.handshakes.Load())
		}
	}
}

// TestTooManyHandshakes: a handshake beyond the limit is closed at once.
func TestTooManyHandshakes(t *testing.T) {
	t.Parallel()
	s := newTLSHarness(t, Config{MaxUnauthenticated: 3, AuthTimeout: time.Hour}, noClients)
	var hanging []net.Conn
	for range 4 {
		raw, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		raw.SetDeadline(time.Now().Add(time.Minute))
		hanging = append(hanging, raw)
	}
	if _, err := hanging[3].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the last one: %v", err)
	}
	for _, c := range hanging {
		c.Close()
	}
	s.awaitHandshakes()
	s.dial(s.config(), nil).ask("list-tube-used\r\n", "USING default")
}

// TestShutdownCutsHandshakes: Shutdown ends a handshake that hangs.
func TestShutdownCutsHandshakes(t *testing.T) {
	t.Parallel()
	var hanging net.Conn
	t.Cleanup(func() { // after the server has ended
		defer hanging.Close()
		hanging.SetDeadline(time.Now().Add(time.Minute))
		if _, err := hanging.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("instead of the end: %v", err)
		}
	})
	s := newTLSHarness(t, Config{AuthTimeout: time.Hour}, noClients)
	var err error
	if hanging, err = net.Dial("tcp", s.addr); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); s.server.handshakes.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no handshake is under way")
		}
	}
}

// TestCertifiedUsers: the name in a certificate is that of the user. The user is disconnected when the file
// does not have it any more.
func TestCertifiedUsers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users.yml")
	write := func(names ...string) {
		text := "users:\n"
		for _, name := range names {
			text += user(name, "post", "put")
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, fmt.Sprintf("secrets: [%q], ", userSecretHash), "")+user("secret", "post", "put")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("app", "spiffe://example.org/app")
	a, err := access.Open(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s := newTLSHarness(t, Config{Access: a}, plainFiles)
	uri, _ := url.Parse("spiffe://example.org/app")
	withURI, _, _ := s.authority.sign(func(c *x509.Certificate) { c.Subject.CommonName, c.URIs = "nobody", []*url.URL{uri} })
	byURI, byName := s.dial(s.config(withURI), nil), s.dial(s.config(s.authority.named("app")), nil)
	none, other := s.dial(s.config(), nil), s.dial(s.config(s.authority.named("nobody")), nil)
	for _, c := range []*tlsClient{byURI, byName} {
		c.ask("use post\r\nuse other\r\n", "USING post", "FORBIDDEN")
	}
	for _, c := range []*tlsClient{none, other} {
		c.ask("use post\r\nauth secret "+userSecret+"\r\nuse post\r\n", "FORBIDDEN", "AUTHENTICATED", "USING post")
	}
	if n := s.server.unauthenticated.Load(); n != 0 {
		t.Errorf("%d authenticated connections count as unauthenticated", n)
	}
	write("spiffe://example.org/app")
	if err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := byName.awaitEnd(); err != nil {
		t.Errorf("the user that was removed: %v", err)
	}
	for _, c := range []*tlsClient{byURI, none, other} {
		c.ask("use post\r\n", "USING post")
	}
	if text := s.log.String(); strings.Contains(text, "sesame") {
		t.Errorf("the log has the secret:\n%s", text)
	}
}

// TestCertifiedLimit: a connection beyond the limit of its user is closed.
func TestCertifiedLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users.yml")
	if err := os.WriteFile(path, []byte("users: [{name: app, limits: {connections: 1}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := access.Open(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s := newTLSHarness(t, Config{Access: a}, plainFiles)
	app := s.config(s.authority.named("app"))
	first := s.dial(app, nil)
	first.ask("list-tube-used\r\n", "USING default")
	second := s.dial(app, nil)
	io.WriteString(second, "list-tube-used\r\n") // can fail: the connection may be closed already
	if line, err := second.in.ReadString('\n'); err == nil {
		t.Errorf("a connection beyond the limit got %q", line)
	}
	first.ask("list-tube-used\r\n", "USING default")
	first.Close()
	for limit := time.Now().Add(time.Minute); len(s.server.allSessions()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the first connection does not end")
		}
	}
	s.dial(app, nil).ask("list-tube-used\r\n", "USING default")
}
