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

// Config says how a Door behaves. The zero value is useful.
type Config struct {
	// Name is what the log calls the listener, such as "http".
	Name string

	// TLS, if not nil, is how connections are encrypted. They are not otherwise.
	TLS *tls.Config

	// Hosts are the names that requests may have in the header Host, as [Host] returns them,
	// beside those of this machine: *.example.org stands for all names that end so, * for any.
	// If there are none, only listeners on loopback addresses look at the header.
	Hosts []string

	// Address is what the listener was asked to listen on, HOST:PORT; may be empty. Its host is
	// one of Hosts on a loopback address.
	Address string

	// Limits are those of the process: how many connections there may be at a time, of
	// which further ones are closed at once, and how much of their answers clients may
	// leave unread. nil means no limit.
	Bounds *limits.Bounds

	// MaxBody is the largest body of a request, in bytes: reading more of it fails with
	// an *http.MaxBytesError. 0 means that the handler sees to it.
	MaxBody int64

	// IdleTimeout is how long a connection may be without a request. 0 means
	// DefaultIdleTimeout, a negative number no limit.
	IdleTimeout time.Duration

	// WriteTimeout is how long a client may read nothing of an answer that waits for
	// it. 0 means DefaultWriteTimeout, a negative number no limit.
	WriteTimeout time.Duration

	// ConnContext, if not nil, returns the context of all requests of a new connection.
	ConnContext func(context.Context, net.Conn) context.Context

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger
}

// The limits of a Door.
const (
	DefaultIdleTimeout  = 3 * time.Minute
	DefaultWriteTimeout = time.Minute

	// HeaderTimeout is how long the header of a request may take.
	HeaderTimeout = 10 * time.Second

	// MaxHeader is the largest header of a request, in bytes, its first line included.
	MaxHeader = 64 << 10

	// MaxStreams is how many requests one HTTP/2 connection may have under way.
	MaxStreams = 250

	// handlersGrace is how long Shutdown waits for handlers whose connections it has
	// cut off.
	handlersGrace = time.Second
)

// Door serves HTTP. Its methods may be called from any goroutine.
type Door struct {
	config  Config
	log     *slog.Logger
	server  *http.Server
	handler http.Handler

	connections atomic.Int64
	fresh       conns // that have sent nothing yet
	handlers    sync.WaitGroup
	ending      context.Context // ends when Shutdown begins
	end         context.CancelFunc

	slow     slowAnswers
	leave    func() // the bounds
	requests requests

	refused, faults, unread, slowBodies telemetry.Log
}

// New returns a Door that has no listener yet.
func New(h http.Handler, config Config) *Door {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.IdleTimeout == 0 {
		config.IdleTimeout = DefaultIdleTimeout
	}
	if config.WriteTimeout == 0 {
		config.WriteTimeout = DefaultWriteTimeout
	}
	d := &Door{config: config, log: config.Log.With("door", config.Name), handler: h}
	d.ending, d.end = context.WithCancel(context.Background())
	d.server = &http.Server{
		Handler:           http.HandlerFunc(d.serve),
		TLSConfig:         config.TLS,
		ReadHeaderTimeout: HeaderTimeout,
		IdleTimeout:       config.IdleTimeout,
		MaxHeaderBytes:    MaxHeader - netHTTPSlop,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: MaxStreams, SendPingTimeout: time.Minute},
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
		ConnState: d.noteState,
	}
	d.leave = config.Bounds.Join(d.slow.readers)
	d.server.Protocols.SetHTTP1(true)
	d.server.Protocols.SetHTTP2(true)
	d.server.Protocols.SetUnencryptedHTTP2(true)
	return d
}

// netHTTPSlop is what net/http adds to MaxHeaderBytes.
const netHTTPSlop = 4096

// Serve serves connections from l until Shutdown, and then returns nil; or until accepting
// them fails for good. It closes l.
func (d *Door) Serve(l net.Listener) error {
	l = &listener{Listener: l, door: d, hosts: d.newHostCheck(l)}
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

// Connections is how many connections there are.
func (d *Door) Connections() int64 { return d.connections.Load() }

// Shutdown stops accepting, and returns when all requests are answered. Handlers that wait
// are told to end (see Ending). When ctx ends, the connections that are left are cut off,
// and Shutdown returns the error of ctx.
func (d *Door) Shutdown(ctx context.Context) error {
	d.end()
	d.fresh.closeAll()
	err := d.server.Shutdown(ctx)
	if err != nil {
		d.server.Close()
	}
	d.awaitHandlers()
	d.leave()
	return err
}

// awaitHandlers waits for handlers, but not for one that hangs in the store.
func (d *Door) awaitHandlers() {
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

// serve has the handler answer a request within the limits.
func (d *Door) serve(w http.ResponseWriter, r *http.Request) {
	d.handlers.Add(1)
	defer d.handlers.Done()
	a := &answer{ResponseWriter: w, door: d, began: time.Now()}
	defer a.count()
	if a.conn, _ = r.Context().Value(connKey{}).(*conn); a.conn != nil && !a.conn.hosts.allows(r.Host) {
		refuseHost(a, r)
		return
	}
	if r.Body != http.NoBody {
		// net/http goes on with its own request when the handler has ended: by the body there
		// it knows whether a client still waits to be told to send one.
		r = r.WithContext(r.Context())
		if d.config.MaxBody > 0 {
			r.Body = http.MaxBytesReader(w, r.Body, d.config.MaxBody)
		}
		body := newTimedBody(w, r, d)
		defer body.end()
		r.Body = body
	}
	d.handler.ServeHTTP(a, r)
	a.whole = true
}

// faultLog passes on what net/http logs, which clients may cause as often as they like.
type faultLog struct{ door *Door }

func (f faultLog) Enabled(context.Context, slog.Level) bool { return true }
func (f faultLog) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f faultLog) WithGroup(string) slog.Handler            { return f }

func (f faultLog) Handle(_ context.Context, r slog.Record) error {
	f.door.faults.Warn(f.door.log, "a request went wrong", "err", strings.TrimSpace(r.Message))
	return nil
}
