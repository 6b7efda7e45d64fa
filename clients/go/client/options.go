package client

import (
	"crypto/tls"
	"log/slog"
	"time"

	"redstalk/clients/go/internal/usercode"
)

// An Option changes how a [Client] connects.
type Option func(*options)

type options struct {
	tls          *tls.Config
	user, secret string
	name         string
	connections  int
	dialTimeout  time.Duration
	replyTimeout time.Duration
	wait         time.Duration
	logger       *slog.Logger
}

func defaults() options {
	return options{
		connections: 8, dialTimeout: 3 * time.Second, replyTimeout: 10 * time.Second, wait: 10 * time.Second,
		logger: slog.New(slog.DiscardHandler),
	}
}

// TLS connects with TLS. If config has no server name, it is the host of the address.
func TLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// Auth authenticates every connection as a user of the server's --access file.
func Auth(user, secret string) Option {
	return func(o *options) { o.user, o.secret = user, secret }
}

// Name names the connections of the client, for the list of clients of the server: printable ASCII without spaces. Servers
// without that list ignore it.
func Name(name string) Option { return func(o *options) { o.name = name } }

// Connections sets how many connections the calls of a client share at most; 8 by default. Calls are
// pipelined, and another connection is opened only when those that there are have 64 calls under way each. A [Consumer] has one
// of its own.
func Connections(n int) Option { return func(o *options) { o.connections = max(n, 1) } }

// DialTimeout limits the time to connect to one address, handshake included; 3 s by default.
func DialTimeout(d time.Duration) Option { return func(o *options) { o.dialTimeout = d } }

// ReplyTimeout is the time after which a server that does not reply counts as gone; 10 s by
// default. The connection is then closed, and other addresses are tried. It should exceed the
// server's --store-timeout.
func ReplyTimeout(d time.Duration) Option { return func(o *options) { o.replyTimeout = d } }

// Wait limits how long a call waits for a connection while no server is reachable; 10 s by
// default. Then it fails with [ErrUnavailable], or earlier when its context ends.
func Wait(d time.Duration) Option { return func(o *options) { o.wait = d } }

// Logger receives a line for each connection that is made or lost. By default there is none.
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = usercode.Logger(l) } }
