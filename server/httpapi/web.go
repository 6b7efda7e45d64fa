package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/server/access"
	"redstalk/server/queue"
	"redstalk/storage/telemetry"
)

// Config says how a Door behaves. The zero value is useful.
type Config struct {
	// Version is that of the program, for the document; may be empty.
	Version string

	// Origins are the sites, such as https://ops.example.org, whose pages may use the API
	// from a browser.
	Origins []string

	// MaxWaiting is how many requests may wait for jobs at a time. With Access, nobody has
	// more of these places than are free. 0 means DefaultMaxWaiting.
	MaxWaiting int

	// MaxStreams is how many clients may listen to events at a time, of which nobody has
	// more than are free. 0 means DefaultMaxStreams.
	MaxStreams int

	// Access says who may do what; nil: everybody may do everything.
	Access *access.Access

	// History has the door look at the tubes now and then, for charts, and for those who
	// watch all tubes. Then the door must be closed.
	History bool

	// Handlers are other handlers by their patterns, as http.ServeMux has them, such as
	// "GET /metrics". They get requests as they come. That of "/" gets what no other
	// pattern has.
	Handlers map[string]http.Handler

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger
}

// The usual bounds.
const (
	DefaultMaxWaiting = 10_000
	DefaultMaxStreams = 200
)

// Door is the HTTP API of one queue.
type Door struct {
	queue   *queue.Queue
	config  Config
	log     *slog.Logger
	mux     *http.ServeMux
	paths   *http.ServeMux // which methods a path has
	rows    []*row
	api     huma.API
	origins map[string]bool
	cross   *http.CrossOriginProtection
	sampler *sampler
	history *history

	eraMu  sync.Mutex // guards what follows
	era    context.Context
	endEra context.CancelCauseFunc

	waiting *places // requests that may wait for a job
	streams *places
	turns   *turns // searches

	faults telemetry.Log
}

// New returns the door of a queue.
func New(q *queue.Queue, config Config) *Door {
	if config.MaxWaiting == 0 {
		config.MaxWaiting = DefaultMaxWaiting
	}
	if config.MaxStreams == 0 {
		config.MaxStreams = DefaultMaxStreams
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	d := &Door{queue: q, config: config, log: config.Log, mux: http.NewServeMux(), paths: http.NewServeMux(), sampler: newSampler(q), history: newHistory(q)}
	d.waiting, d.streams, d.turns = newPlaces(config.MaxWaiting), newPlaces(config.MaxStreams), newTurns()
	if config.Access != nil {
		d.newEra()
		config.Access.OnChange(d.newEra)
	}
	d.allowOrigins()
	d.route()
	if config.History {
		d.history.start()
	}
	return d
}

// Close ends what the door does by itself. Requests must have ended.
func (d *Door) Close() {
	if d.config.History {
		d.history.close()
	}
}

// ServeHTTP answers one request.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := checkPath(r); p != nil {
		p.Write(w)
		return
	}
	if !d.admitOrigin(w, r) {
		return
	}
	d.mux.ServeHTTP(w, r)
}

// fail answers with the problem that an error is.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, err error) {
	d.problem(err, r.Method, r.URL.Path).Write(w)
}

// problem returns the problem that an error is. One that nobody has foreseen is logged.
func (d *Door) problem(err error, method, path string) *problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		d.faults.Error(d.log, "a request could not be answered", "method", method, "path", path, "err", err)
	}
	return p
}
