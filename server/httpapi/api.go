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

// Config configures an API. The zero value is useful.
type Config struct {
	// Version is the version of the program, for the OpenAPI document. It can be empty.
	Version string

	// Origins are the web origins, such as https://ops.example.org, whose pages may call
	// the API from a browser (CORS).
	Origins []string

	// MaxWaiting limits the requests that wait for jobs at the same time. With Access, no
	// client holds more of them than are free. 0 means DefaultMaxWaiting.
	MaxWaiting int

	// MaxStreams limits the event streams that are open at the same time. No client holds
	// more of them than are free. 0 means DefaultMaxStreams.
	MaxStreams int

	// Access checks users and rights. If it is nil, everybody may do everything.
	Access *access.Access

	// History turns on polling of all tubes, for charts and for /v1/watch. The API must then
	// be closed.
	History bool

	// Handlers are further handlers by their http.ServeMux patterns, such as "GET /metrics".
	// They get requests unchanged. The handler of "/" gets all requests that match no other
	// pattern.
	Handlers map[string]http.Handler

	// Log gets messages for the operator. nil means slog.Default.
	Log *slog.Logger
}

// The default limits.
const (
	DefaultMaxWaiting = 10_000
	DefaultMaxStreams = 200
)

// API is the HTTP API of one queue. It is an http.Handler.
type API struct {
	queue   *queue.Queue
	config  Config
	log     *slog.Logger
	mux     *http.ServeMux
	paths   *http.ServeMux // answers 405 with the methods of a path
	rows    []*row
	huma    huma.API
	origins map[string]bool
	cross   *http.CrossOriginProtection
	sampler *sampler
	poller  *poller

	aclMu  sync.Mutex      // guards acl and endACL
	acl    context.Context // ends when the users file changes
	endACL context.CancelCauseFunc

	waiting  *limiter     // requests that wait for a job
	streams  *limiter     // open event streams
	searches *searchQueue // searches, running and queued

	faults telemetry.Throttle
}

// New returns the API of a queue.
func New(q *queue.Queue, config Config) *API {
	if config.MaxWaiting == 0 {
		config.MaxWaiting = DefaultMaxWaiting
	}
	if config.MaxStreams == 0 {
		config.MaxStreams = DefaultMaxStreams
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	api := &API{queue: q, config: config, log: config.Log, mux: http.NewServeMux(), paths: http.NewServeMux(), sampler: newSampler(q), poller: newPoller(q)}
	api.waiting, api.streams, api.searches = newLimiter(config.MaxWaiting), newLimiter(config.MaxStreams), newSearchQueue()
	if config.Access != nil {
		api.aclChanged()
		config.Access.OnChange(api.aclChanged)
	}
	api.setOrigins()
	api.route()
	if config.History {
		api.poller.start()
	}
	return api
}

// Close stops the background polling. All requests must have ended.
func (api *API) Close() {
	if api.config.History {
		api.poller.close()
	}
}

// ServeHTTP answers one request.
func (api *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := checkPath(r); p != nil {
		p.Write(w)
		return
	}
	if !api.checkOrigin(w, r) {
		return
	}
	api.mux.ServeHTTP(w, r)
}

// fail answers a request with the problem document of an error.
func (api *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	api.problem(err, r.Method, r.URL.Path).Write(w)
}

// problem returns the problem document of an error. It logs an unexpected error.
func (api *API) problem(err error, method, path string) *problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		api.faults.Error(api.log, "a request could not be answered", "method", method, "path", path, "err", err)
	}
	return p
}
