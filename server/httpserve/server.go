package httpserve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/server/limits"
	"redstalk/storage/telemetry"
)

// Config configures a Server. The zero value is useful.
type Config struct {
	// Name is the name of the server in the log, such as "http".
	Name string

	// TLS, if not nil, is used to encrypt connections. If it is nil, they are not encrypted.
	TLS *tls.Config

	// HandshakeTimeout limits a TLS handshake, and the time in which the header of a request
	// must arrive. 0, or more than HeaderTimeout, means HeaderTimeout.
	HandshakeTimeout time.Duration

	// HTTP2 turns on HTTP/2 without TLS, for clients that begin with it, as those of gRPC do.
	// An HTTP/2 connection can hold many requests at once, so what all of them hold together
	// is limited.
	HTTP2 bool

	// Hosts are the names that requests may have in the Host header, as [Host] returns them, in
	// addition to those of this machine: *.example.org stands for all names with that ending, *
	// for any. If it is empty, only listeners on loopback addresses check the header.
	Hosts []string

	// Address is the configured listen address, HOST:PORT; may be empty. On a loopback address
	// its host counts as one of Hosts.
	Address string

	// Limits are the limits of the process: concurrent connections, beyond which further ones
	// are closed at once, and answers that clients may leave unread. nil means no limit.
	Limits *limits.Limits

	// MaxBody is the largest body of a request, in bytes: reading more of it fails with an
	// *http.MaxBytesError. 0 leaves that to the handler.
	MaxBody int64

	// IdleTimeout is how long a connection can be without a request. 0 means DefaultIdleTimeout,
	// a negative number no limit.
	IdleTimeout time.Duration

	// WriteTimeout is how long a client can read nothing while an answer waits for it. 0 means
	// DefaultWriteTimeout, a negative number no limit.
	WriteTimeout time.Duration

	// ConnContext, if not nil, returns the context of all requests of a new connection.
	ConnContext func(context.Context, net.Conn) context.Context

	// Resolve, if not nil, is called first, and returns a request as the proxy in front describes
	// it. It must not change the request that it gets.
	Resolve func(*http.Request) *http.Request

	// Log receives messages for operators; nil means slog.Default.
	Log *slog.Logger
}

// The limits of a Server.
const (
	DefaultIdleTimeout  = 3 * time.Minute
	DefaultWriteTimeout = time.Minute

	// HeaderTimeout limits the time in which the header of a request must arrive.
	HeaderTimeout = 10 * time.Second

	// MaxHeader is the largest header of a request, in bytes, including the request line.
	MaxHeader = 64 << 10

	// handlersGrace is how long Shutdown waits for handlers whose connections it has cut off.
	handlersGrace = time.Second
)

// Server serves HTTP. Its methods are safe for concurrent use.
type Server struct {
	config  Config
	log     *slog.Logger
	server  *http.Server
	handler http.Handler

	connections atomic.Int64
	fresh       conns // connections that have sent nothing yet
	handlers    sync.WaitGroup
	ending      context.Context // ends when Shutdown begins
	end         context.CancelFunc

	slowAnswers slowAnswers
	leaveLimits func() // leaves the limits
	requests    requests
	streams     *limits.Shares // concurrent requests over HTTP/2, by address

	refused, faults, unread, slowBodies telemetry.Throttle
}

// New returns a Server without a listener.
func New(h http.Handler, config Config) *Server {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.IdleTimeout == 0 {
		config.IdleTimeout = DefaultIdleTimeout
	}
	if config.WriteTimeout == 0 {
		config.WriteTimeout = DefaultWriteTimeout
	}
	d := &Server{config: config, log: config.Log.With("listener", config.Name), handler: h, streams: limits.NewShares(MaxAllStreams)}
	d.ending, d.end = context.WithCancel(context.Background())
	d.server = &http.Server{
		Handler:           http.HandlerFunc(d.serve),
		TLSConfig:         config.TLS,
		ReadHeaderTimeout: config.headerTimeout(),
		IdleTimeout:       config.IdleTimeout,
		MaxHeaderBytes:    MaxHeader - netHTTPSlop,
		Protocols:         new(http.Protocols),
		ErrorLog:          slog.NewLogLogger(faultLog{d}, slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), endingKey{}, d.ending)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx = context.WithValue(ctx, connKey{}, connOf(c))
			if config.ConnContext != nil {
				ctx = config.ConnContext(ctx, c)
			}
			return ctx
		},
		ConnState: d.stateChanged,
	}
	d.leaveLimits = config.Limits.Join(d.slowAnswers.readers)
	d.server.Protocols.SetHTTP1(true)
	if config.HTTP2 {
		d.enableHTTP2()
	}
	return d
}

// headerTimeout is the one of net/http, which applies to TLS handshakes as well.
func (c *Config) headerTimeout() time.Duration {
	if c.TLS == nil || c.HandshakeTimeout <= 0 {
		return HeaderTimeout
	}
	return min(HeaderTimeout, c.HandshakeTimeout)
}

// codeUnsupported is the code of the problem that a request is of HTTP/2.
const codeUnsupported = "UNSUPPORTED"

// netHTTPSlop is what net/http adds to MaxHeaderBytes.
const netHTTPSlop = 4096

// Serve serves connections from l until Shutdown, and then returns nil; or until accepting
// fails permanently. It closes l.
func (d *Server) Serve(l net.Listener) error {
	l = &listener{Listener: l, srv: d, hosts: d.newHostCheck(l)}
	var err error
	if d.config.TLS != nil {
		err = d.server.ServeTLS(l, "", "")
	} else {
		err = d.server.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Connections returns the number of connections.
func (d *Server) Connections() int64 { return d.connections.Load() }

// Shutdown stops accepting, and returns when all requests are answered. Handlers that wait
// are notified (see Ending). When ctx ends, the remaining connections are cut off, and
// Shutdown returns the error of ctx.
func (d *Server) Shutdown(ctx context.Context) error {
	d.end()
	d.fresh.closeAll()
	err := d.server.Shutdown(ctx)
	if err != nil {
		d.server.Close()
	}
	d.awaitHandlers()
	d.leaveLimits()
	return err
}

// awaitHandlers waits for handlers, but not long for one that hangs in the store.
func (d *Server) awaitHandlers() {
	ended := make(chan struct{})
	go func() {
		d.handlers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(handlersGrace):
	}
}

// serve calls the handler for a request, within the limits.
func (d *Server) serve(w http.ResponseWriter, r *http.Request) {
	d.handlers.Add(1)
	defer d.handlers.Done()
	a := &answer{ResponseWriter: w, srv: d, began: time.Now()}
	a.conn, _ = r.Context().Value(connKey{}).(*conn)
	if r.ProtoMajor >= 2 && d.config.HTTP2 && a.conn != nil {
		if !a.conn.runStream() {
			return
		}
		defer a.conn.endStream()
		if r.Context().Err() != nil {
			return // the client has taken it back
		}
	}
	defer a.count()
	if d.config.Resolve != nil {
		r = d.config.Resolve(r)
	}
	switch {
	case r.ProtoMajor >= 2 && !d.config.HTTP2:
		NewProblem(http.StatusHTTPVersionNotSupported, codeUnsupported, "HTTP/2 is not served here").Write(a)
	case a.conn != nil && !a.conn.hosts.allows(r.Host):
		refuseHost(a, r)
	default:
		d.handle(a, r)
	}
}

// handle calls the handler for a request that is not refused.
func (d *Server) handle(a *answer, r *http.Request) {
	if r.Body != http.NoBody {
		// net/http continues with its own request when the handler has ended: from the body there
		// it knows whether a client still waits for permission to send one.
		r = r.WithContext(r.Context())
		if d.config.MaxBody > 0 {
			r.Body = http.MaxBytesReader(a.ResponseWriter, r.Body, d.config.MaxBody)
		}
		body := newTimedBody(a.ResponseWriter, r, d)
		defer body.end()
		r.Body = body
	}
	d.handler.ServeHTTP(a, r)
	a.whole = true
}

// faultLog throttles the log of net/http, since clients can cause messages at will.
type faultLog struct{ srv *Server }

func (f faultLog) Enabled(context.Context, slog.Level) bool { return true }
func (f faultLog) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f faultLog) WithGroup(string) slog.Handler            { return f }

func (f faultLog) Handle(_ context.Context, r slog.Record) error {
	f.srv.faults.Warn(f.srv.log, "a request failed", "err", strings.TrimSpace(r.Message))
	return nil
}
