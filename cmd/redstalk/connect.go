package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

// commonFlags are the flags of every command. No variable is one of redstalkd, which can have the same environment.
func commonFlags() []cli.Flag {
	env := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, "REDSTALK_"+name)
		}
		return all
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "server", Aliases: []string{"s"}, Value: "127.0.0.1:11300", EnvVars: env("SERVER"), Usage: "`ADDR` of the server: HOST:PORT or unix:PATH"},
		&cli.BoolFlag{Name: "json", Usage: "print results as JSON, one value per line"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only errors on standard error"},
		&cli.GenericFlag{Name: "timeout", Value: &duration{10 * time.Second}, EnvVars: env("TIMEOUT"), Usage: "`DURATION` to wait for the connection and for each reply"},
		&cli.StringFlag{Name: "user", EnvVars: env("AUTH_USER"), Usage: "`USER` to log in as. The secret is in REDSTALK_SECRET or in --secret-file"},
		&cli.StringFlag{Name: "secret-file", EnvVars: env("SECRET_FILE"), Usage: "`FILE` whose first line is the secret"},
		&cli.BoolFlag{Name: "tls", EnvVars: env("CLIENT_TLS"), Usage: "use TLS"},
		&cli.StringFlag{Name: "tls-ca", EnvVars: env("CLIENT_TLS_CA", "TLS_CA"), Usage: "`FILE` of authorities (PEM) to trust instead of the system's; implies --tls"},
		&cli.StringFlag{Name: "tls-cert", EnvVars: env("CLIENT_TLS_CERT"), Usage: "`FILE` of the client certificate (PEM); implies --tls"},
		&cli.StringFlag{Name: "tls-key", EnvVars: env("CLIENT_TLS_KEY"), Usage: "`FILE` of the key of that certificate (PEM)"},
		&cli.StringFlag{Name: "tls-name", EnvVars: env("CLIENT_TLS_NAME", "TLS_NAME"), Usage: "`NAME` that the server's certificate must have, if not that of the address"},
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help, or with a command the help of the command"},
		&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version"},
	}
}

// dialer makes connections: it has the server's address, TLS and the user. It is read from the
// flags once, and can be used for several connections.
type dialer struct {
	addr         string
	tls          *tls.Config // nil: no TLS
	user, secret string
	limit        time.Duration
}

// newDialer makes a dialer from the common flags.
func newDialer(t *task) (*dialer, error) {
	l := &dialer{addr: t.String("server"), user: t.String("user"), limit: t.duration("timeout")}
	if l.limit <= 0 {
		return nil, usage("--timeout must be more than 0")
	}
	var err error
	if l.tls, err = tlsOf(t); err != nil {
		return nil, err
	}
	if l.user != "" {
		if l.secret, err = secretOf(t.String("secret-file")); err != nil {
			return nil, err
		}
		err = errors.Join(checkWord("the user", l.user), wireSecret(l.secret))
	}
	return l, err
}

// wireSecret checks that a secret can be sent as the rest of a line. Its error does not show the secret.
func wireSecret(secret string) error {
	if secret == "" || strings.ContainsFunc(secret, unicode.IsControl) {
		return usage("the secret for --user is missing, or has control characters: set REDSTALK_SECRET or --secret-file")
	}
	return nil
}

// secretVariable is the environment variable with the secret.
const secretVariable = "REDSTALK_SECRET"

// secretOf reads the secret from the file, or from the environment if there is none.
func secretOf(path string) (string, error) {
	if path == "" {
		return os.Getenv(secretVariable), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fileError("the secret", path, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimRight(first, "\r"), nil
}

// serverTLS is the variable that was that of --tls in 0.1.0. Its users must not be without TLS unnoticed.
const serverTLS = "REDSTALK_TLS"

// tlsOf reads the flags of TLS. It returns nil if none is set.
func tlsOf(t *task) (*tls.Config, error) {
	ca, cert, key, name := t.String("tls-ca"), t.String("tls-cert"), t.String("tls-key"), t.String("tls-name")
	if wanted, err := strconv.ParseBool(os.Getenv(serverTLS)); err == nil && wanted && !t.IsSet("tls") {
		return nil, usage("%s is a variable of redstalkd, and no longer of redstalk: set REDSTALK_CLIENT_TLS", serverTLS)
	}
	if !t.Bool("tls") && ca == "" && cert == "" && key == "" && name == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fileError("--tls-ca", ca, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--tls-ca %s has no certificate", ca)
		}
	}
	if (cert == "") != (key == "") {
		return nil, usage("--tls-cert and --tls-key need each other")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, usage("reading --tls-cert and --tls-key: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// connect makes a connection, and authenticates it if there is a user.
func (l *dialer) connect() (*client.Conn, error) {
	conn, err := client.DialTLS(l.addr, l.tls, l.limit)
	if errors.Is(err, syscall.ECONNREFUSED) {
		err = fmt.Errorf("%w: --server or REDSTALK_SERVER says where the server is", err)
	}
	if err != nil {
		return nil, failure{exitServer, err}
	}
	conn.Timeout = l.limit
	conn.Conn = &firstReply{Conn: conn.Conn, dialer: l}
	if l.user == "" {
		return conn, nil
	}
	doing := "logging in as " + l.user
	err = conn.Ask(fmt.Appendf(nil, "auth %s %s\r\n", l.user, l.secret), 1, func(r *client.Reply) error {
		if string(r.Line) != "AUTHENTICATED" {
			return replyError(doing, r)
		}
		return nil
	})
	if err != nil {
		conn.Close()
		return nil, connectionError(doing, err)
	}
	return conn, nil
}
