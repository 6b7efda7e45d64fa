package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

// A target is a server under load, and how to connect to it.
type target struct {
	addr         string      // "host:port" or "unix:PATH"
	tls          *tls.Config // nil: no TLS
	user, secret string      // "": no authentication
}

// dialTimeout is how long making a connection may take.
const dialTimeout = 5 * time.Second

// askTimeout is how long one Ask may take. A server that needs longer for a batch of
// commands that never block counts as dead.
const askTimeout = 30 * time.Second

// dial connects, and authenticates if there is a user. No error contains the secret.
func (t *target) dial() (*client.Conn, error) {
	c, err := client.Dial(t.addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	if t.tls != nil {
		secure, err := encrypt(c.Conn, t.tls)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("the TLS handshake with %s: %w", t.addr, err)
		}
		c = client.New(secure)
	}
	c.Timeout = askTimeout
	if t.user != "" {
		if err := t.authenticate(c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// authenticate sends the user and the secret.
func (t *target) authenticate(c *client.Conn) error {
	return c.Ask(fmt.Appendf(nil, "auth %s %s\r\n", t.user, t.secret), 1, func(r *client.Reply) error {
		if string(r.Line) != "AUTHENTICATED" {
			return fmt.Errorf("%s does not let user %s in: %q", t.addr, t.user, r.Line)
		}
		return nil
	})
}

// dialTube connects to the server, for one tube only. No bytes are read ahead.
func (t *target) dialTube(tube string) (net.Conn, error) {
	c, err := t.dial()
	if err != nil {
		return nil, err
	}
	if err := c.UseOnly(tube); err != nil {
		c.Close()
		return nil, err
	}
	return c.Conn, nil
}

// A secureConn is a connection with TLS.
type secureConn struct {
	*tls.Conn
	raw *rawConn
}

// rawConn is the connection below TLS, until a driver replaces it by one that does not
// block.
type rawConn struct {
	net.Conn
	nonBlocking io.ReadWriter // nil: not replaced
}

func (b *rawConn) Read(p []byte) (int, error) {
	if b.nonBlocking != nil {
		return b.nonBlocking.Read(p)
	}
	return b.Conn.Read(p)
}

func (b *rawConn) Write(p []byte) (int, error) {
	if b.nonBlocking != nil {
		return b.nonBlocking.Write(p)
	}
	return b.Conn.Write(p)
}

// encrypt does the handshake.
func encrypt(conn net.Conn, config *tls.Config) (*secureConn, error) {
	ctx, stop := context.WithTimeout(context.Background(), dialTimeout)
	defer stop()
	b := &rawConn{Conn: conn}
	s := &secureConn{tls.Client(b, config), b}
	return s, s.HandshakeContext(ctx)
}

// clientConfig is the TLS configuration for a server of this name. roots are the trusted
// authorities; nil means those of the system.
func clientConfig(name string, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: roots,
		DynamicRecordSizingDisabled: true, // a stage is one write, and one record if it fits
	}
}

// targetFlags are the flags of a target.
func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "addr", Value: "127.0.0.1:11300", Usage: "`HOST:PORT` or unix:PATH of the server"},
		&cli.BoolFlag{Name: "tls", Usage: "use TLS"},
		&cli.StringFlag{Name: "tls-ca", Usage: "`FILE` of authorities to trust instead of the system's"},
		&cli.BoolFlag{Name: "tls-insecure", Usage: "accept any certificate"},
		&cli.StringFlag{Name: "user", Usage: "`NAME` of the user to log in as"},
		&cli.StringFlag{Name: "secret-file", Usage: "`FILE` whose first line is the user's secret"},
	}
}

// targetOf reads a target from the flags.
func targetOf(c *cli.Context) (t target, err error) {
	t = target{addr: c.String("addr"), user: c.String("user")}
	if t.user != "" {
		text, err := os.ReadFile(c.String("secret-file"))
		if err != nil {
			return t, fmt.Errorf("reading the secret of user %s: %w", t.user, err)
		}
		t.secret, _, _ = strings.Cut(string(text), "\n")
		t.secret = strings.TrimSuffix(t.secret, "\r")
	}
	ca, insecure := c.String("tls-ca"), c.Bool("tls-insecure")
	if !c.Bool("tls") && ca == "" && !insecure {
		return t, nil
	}
	var roots *x509.CertPool
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return t, fmt.Errorf("reading the authorities: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(text) {
			return t, errors.New("there is no certificate in " + ca)
		}
	}
	host, _, _ := net.SplitHostPort(t.addr)
	t.tls = clientConfig(host, roots)
	t.tls.InsecureSkipVerify = insecure
	return t, nil
}
