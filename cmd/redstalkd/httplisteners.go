package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"

	"redstalk/server/access"
	"redstalk/server/httpapi"
	"redstalk/server/httpapi/console"
	"redstalk/server/httpserve"
	"redstalk/server/metrics"
	"redstalk/server/queue"
)

// httpListener is an address where HTTP is served. To add one, add a row to allHTTPListeners.
type httpListener struct {
	name string // for the log and for errors
	addr string // HOST:PORT, :PORT or unix:PATH; "": not wanted

	tls   bool // with the certificates of --http-tls
	http2 bool // unencrypted HTTP/2, too

	// identifies reports whether the handler authenticates requests itself. If it is false and
	// there is a file of users, requests are authenticated before the handler, and the
	// principal is in their context. In both cases the handler checks rights.
	identifies bool

	// pages are {name, path} of pages whose URLs are logged.
	pages [][2]string

	// open returns the handler of requests, and what to call after the last one (nil:
	// nothing). The queue outlives both.
	open func(p *program, q *queue.Queue) (h http.Handler, closed func())

	// early, if not nil, returns the handler that serves as soon as the socket listens, before
	// the store is open. It passes requests on to the handler of open once that exists.
	early func(p *program, opened *lateHandler) http.Handler

	listener net.Listener
	opened   *lateHandler
	server   *httpserve.Server // nil until it serves
	closed   func()
}

// httpListeners are the ones that the settings ask for.
type httpListeners []*httpListener

// httpPages are the logged pages of the HTTP API.
var httpPages = [][2]string{{"console", ""}, {"docs", "docs"}, {"openapi", "openapi.json"}, {"metrics", "metrics"}}

// allHTTPListeners is the table of HTTP listeners.
func (p *program) allHTTPListeners() httpListeners {
	return append(httpListeners{
		{name: "http", addr: p.http.addr, open: (*program).openHTTPAPI, early: (*program).openMetrics, pages: httpPages, identifies: true},
		{name: "https", addr: p.guards.httpTLS.addr, open: (*program).openHTTPAPI, early: (*program).openMetrics, pages: httpPages, identifies: true, tls: true},
	}, p.gatewayListeners()...)
}

// listenHTTP opens the sockets of all wanted listeners. If one fails, it returns the open ones as
// well, for the caller to close.
func (p *program) listenHTTP(ctx context.Context) (listeners httpListeners, err error) {
	for _, d := range p.allHTTPListeners() {
		if d.addr == "" {
			continue
		}
		if d.listener, err = p.listenAt(ctx, d.addr); err != nil {
			return listeners, failure(exitListen, "cannot listen for %s on %s: %w", d.name, d.addr, err)
		}
		p.log.Info("listening", "listener", d.name, "addr", d.listener.Addr())
		listeners = append(listeners, d)
	}
	return listeners, nil
}

// serveEarly starts the listeners that have an early handler, before there is a queue. The
// error that ends one of them is sent to served, which must have room for it.
func (p *program) serveEarly(listeners httpListeners, served chan<- error) {
	for _, d := range listeners {
		if d.early != nil {
			d.opened = newLateHandler()
			p.startServing(d, d.early(p, d.opened), served)
		}
	}
}

// serveHTTP gives the listeners their handlers and starts those that do not serve yet. For served
// see serveEarly.
func (p *program) serveHTTP(listeners httpListeners, q *queue.Queue, served chan<- error) {
	for _, d := range listeners {
		var h http.Handler
		h, d.closed = d.open(p, q)
		if !d.identifies {
			h = p.activeGuards.Load().access.Protect(h, access.Nothing)
		}
		if d.opened != nil {
			d.opened.open(h)
		} else {
			p.startServing(d, h, served)
		}
		p.log.Info("serving", append([]any{"listener", d.name, "url", d.url()}, d.pageURLs()...)...)
	}
}

// startServing starts a listener with the handler h.
func (p *program) startServing(d *httpListener, h http.Handler, served chan<- error) {
	config := httpserve.Config{
		Name: d.name, Log: p.log, HTTP2: d.http2,
		Hosts: p.http.hosts, Address: d.addr,
		Limits: p.sharedLimits, WriteTimeout: p.serverConfig().WriteTimeout,
	}
	if p.activeGuards.Load().access != nil {
		config.ConnContext = access.WithConn
	}
	if d.identifies {
		config.Resolve = p.http.proxies.Resolve
	}
	if d.tls {
		config.TLS, config.HandshakeTimeout = p.activeGuards.Load().httpTLS.Config(), p.guards.authTimeout
	}
	d.server = httpserve.New(h, config)
	p.observer.ObserveHTTP(d.server)
	go func() {
		if err := d.server.Serve(d.listener); err != nil {
			served <- err
		}
	}()
}

// openMetrics returns the handler of metrics and health checks, which serves while the store is
// still loading. The metrics name all tubes, so they need the right list on all tubes.
func (p *program) openMetrics(opened *lateHandler) http.Handler {
	all := p.observer.Handler(opened)
	guarded := p.activeGuards.Load().access.Protect(all, access.List)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case metrics.MetricsPath, metrics.HealthPath, metrics.ReadyPath:
			httpserve.Name(w, r.URL.Path[1:])
		}
		if r.URL.Path == metrics.MetricsPath {
			guarded.ServeHTTP(w, r)
		} else {
			all.ServeHTTP(w, r)
		}
	})
}

// url is where clients reach the listener.
func (d *httpListener) url() string {
	a := d.listener.Addr()
	switch {
	case a.Network() == "unix":
		return unixPrefix + a.String()
	case d.tls:
		return "https://" + a.String() + "/"
	}
	return "http://" + a.String() + "/"
}

// pageURLs returns the names and URLs of the pages, for the log.
func (d *httpListener) pageURLs() (attrs []any) {
	for _, page := range d.pages {
		if d.listener.Addr().Network() != "unix" {
			attrs = append(attrs, page[0], d.url()+page[1])
		}
	}
	return attrs
}

// shutdown stops all serving listeners at the same time. The channel delivers the result once.
func (listeners httpListeners) shutdown(ctx context.Context) <-chan error {
	listeners = slices.DeleteFunc(slices.Clone(listeners), func(d *httpListener) bool { return d.server == nil })
	ended, all := make(chan error, len(listeners)), make(chan error, 1)
	for _, d := range listeners {
		go func() {
			err := d.server.Shutdown(ctx)
			if d.closed != nil {
				d.closed()
			}
			ended <- err
		}()
	}
	go func() {
		var errs []error
		for range listeners {
			errs = append(errs, <-ended)
		}
		all <- errors.Join(errs...)
	}()
	return all
}

// close closes the sockets, whether or not they were served.
func (listeners httpListeners) close() {
	for _, d := range listeners {
		d.listener.Close()
	}
}

// openHTTPAPI opens the HTTP API.
func (p *program) openHTTPAPI(q *queue.Queue) (http.Handler, func()) {
	d := httpapi.New(q, httpapi.Config{
		Version: Version, Origins: p.http.origins, MaxWaiting: p.http.maxWaiting, Handlers: p.consoleHandlers(q), Log: p.log,
		Access: p.activeGuards.Load().access, Schedules: p.runners.schedules, Batches: p.runners.batches, Audit: p.audit, History: true,
	})
	return d, d.Close
}

// consoleHandlers are the handlers beside the API, by their http.ServeMux patterns.
func (p *program) consoleHandlers(*queue.Queue) map[string]http.Handler {
	handlers := make(map[string]http.Handler)
	for _, pattern := range console.Patterns {
		handlers[pattern] = console.Handler()
	}
	return handlers
}
