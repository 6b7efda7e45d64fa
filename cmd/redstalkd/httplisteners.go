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

// httpDoor is a door that speaks HTTP. A further one is another row of allHTTPDoors.
type httpListener struct {
	name string // for the log and for errors
	addr string // HOST:PORT, :PORT or unix:PATH; "": the door is not wanted

	tls bool // with the certificates of --http-tls

	// identifies says that the door finds out itself who sends a request. Another one has
	// the user in the context of each, if there is a file of users. Both ask what the user
	// may do.
	identifies bool

	// pages are paths that the log tells of, by what they are.
	pages [][2]string

	// open returns what answers requests, and what is to be done when the last one is
	// answered (nil: nothing). The queue has been made, and lives longer.
	open func(p *program, q *queue.Queue) (h http.Handler, closed func())

	// early, if not nil, returns what answers requests from when the listener is open. It
	// passes them on to what open returns, which it gets when there is that.
	early func(p *program, opened *lateHandler) http.Handler

	listener net.Listener
	opened   *lateHandler
	server   *httpserve.Door // nil until it serves
	closed   func()
}

// httpDoors are those that are wanted.
type httpListeners []*httpListener

// webPages are those of the HTTP API.
var httpPages = [][2]string{{"console", ""}, {"docs", "docs"}, {"openapi", "openapi.json"}, {"metrics", "metrics"}}

// allHTTPDoors is the table of the doors that speak HTTP.
func (p *program) allHTTPListeners() httpListeners {
	return append(httpListeners{
		{name: "http", addr: p.http.addr, open: (*program).openHTTPAPI, early: (*program).openMetrics, pages: httpPages, identifies: true},
		{name: "https", addr: p.guards.httpTLS.addr, open: (*program).openHTTPAPI, early: (*program).openMetrics, pages: httpPages, identifies: true, tls: true},
	}, p.gatewayListeners()...)
}

// listenHTTP listens for all doors that are wanted. If that fails for one, the others are
// returned all the same, to be closed.
func (p *program) listenHTTP(ctx context.Context) (doors httpListeners, err error) {
	for _, d := range p.allHTTPListeners() {
		if d.addr == "" {
			continue
		}
		if d.listener, err = p.listenAt(ctx, d.addr); err != nil {
			return doors, failure(exitListen, "cannot listen for %s on %s: %w", d.name, d.addr, err)
		}
		p.log.Info("listening", "door", d.name, "addr", d.listener.Addr())
		doors = append(doors, d)
	}
	return doors, nil
}

// serveEarly has those doors answer that have something to say before there is a queue. The
// error that ends one of them goes to served, which has room for it.
func (p *program) serveEarly(doors httpListeners, served chan<- error) {
	for _, d := range doors {
		if d.early != nil {
			d.opened = new(lateHandler)
			p.startServing(d, d.early(p, d.opened), served)
		}
	}
}

// serveHTTP opens the doors. For served see serveEarly.
func (p *program) serveHTTP(doors httpListeners, q *queue.Queue, served chan<- error) {
	for _, d := range doors {
		var h http.Handler
		h, d.closed = d.open(p, q)
		if !d.identifies {
			h = p.guard.Load().access.Protect(h, access.Nothing)
		}
		if d.opened != nil {
			d.opened.open(h)
		} else {
			p.startServing(d, h, served)
		}
		p.log.Info("serving", append([]any{"door", d.name, "url", d.url()}, d.pageURLs()...)...)
	}
}

// serveDoor has a door answer requests with h.
func (p *program) startServing(d *httpListener, h http.Handler, served chan<- error) {
	config := httpserve.Config{
		Name: d.name, Log: p.log,
		Hosts: p.http.hosts, Address: d.addr,
		Bounds: p.bounds, WriteTimeout: p.serverConfig().WriteTimeout,
	}
	if p.guard.Load().access != nil {
		config.ConnContext = access.WithConn
	}
	if d.tls {
		config.TLS = p.guard.Load().httpTLS.Config()
	}
	d.server = httpserve.New(h, config)
	p.observer.Door(d.server)
	go func() {
		if err := d.server.Serve(d.listener); err != nil {
			served <- err
		}
	}()
}

// observeEarly answers what is asked about the health of the instance. Its figures, which
// name all tubes, are for those who may look at all tubes.
func (p *program) openMetrics(opened *lateHandler) http.Handler {
	all := p.observer.Handler(opened)
	guarded := p.guard.Load().access.Protect(all, access.Read)
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

// url is how the door is called by its clients.
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

// told returns the URLs of the pages, for the log.
func (d *httpListener) pageURLs() (attrs []any) {
	for _, page := range d.pages {
		if d.listener.Addr().Network() != "unix" {
			attrs = append(attrs, page[0], d.url()+page[1])
		}
	}
	return attrs
}

// shutdown ends the doors that serve, all at once. What has become of that can be read
// once.
func (doors httpListeners) shutdown(ctx context.Context) <-chan error {
	doors = slices.DeleteFunc(slices.Clone(doors), func(d *httpListener) bool { return d.server == nil })
	ended, all := make(chan error, len(doors)), make(chan error, 1)
	for _, d := range doors {
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
		for range doors {
			errs = append(errs, <-ended)
		}
		all <- errors.Join(errs...)
	}()
	return all
}

// close closes the listeners, whether or not the doors were open.
func (doors httpListeners) close() {
	for _, d := range doors {
		d.listener.Close()
	}
}

// openWeb opens the HTTP API.
func (p *program) openHTTPAPI(q *queue.Queue) (http.Handler, func()) {
	d := httpapi.New(q, httpapi.Config{
		Version: Version, Origins: p.http.origins, MaxWaiting: p.http.maxWaiting, Handlers: p.consoleHandlers(q), Log: p.log,
		Access: p.guard.Load().access, History: true,
	})
	return d, d.Close
}

// webHandlers are what the HTTP door serves beside the API, by the patterns of
// http.ServeMux.
func (p *program) consoleHandlers(*queue.Queue) map[string]http.Handler {
	handlers := make(map[string]http.Handler)
	for _, pattern := range console.Patterns {
		handlers[pattern] = console.Handler()
	}
	return handlers
}
