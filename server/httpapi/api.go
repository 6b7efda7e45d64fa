package httpapi

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/server/access"
	"redstalk/server/jobbatch"
	"redstalk/server/limits"
	"redstalk/server/queue"
	"redstalk/server/schedule"
)

// Config configures an API. The zero value is useful.
type Config struct {
	// Version is the version of the program, for the OpenAPI document. It can be empty.
	Version string

	// Origins are the web origins, such as https://ops.example.org, whose pages may call
	// the API from a browser (CORS).
	Origins []string

	// MaxWaiting limits the requests that wait for jobs at the same time. With Access, a
	// client that has as many as are still free gets no more. 0 means DefaultMaxWaiting.
	MaxWaiting int

	// MaxStreams limits the event streams that are open at the same time. A client that has
	// as many as are still free gets no more. 0 means DefaultMaxStreams.
	MaxStreams int

	// Access checks users and rights. If it is nil, everybody may do everything.
	Access *access.Access

	// Schedules are those of the store of the queue. nil means a Service without a log.
	Schedules *schedule.Service

	// Batches are those of the store of the queue. nil means a Service without a log.
	Batches *jobbatch.Service

	// History turns on polling of all tubes, for charts and for /v1/watch. The API must then
	// be closed.
	History bool

	// Handlers are further handlers by their http.ServeMux patterns, such as "GET
	// /metrics". They get requests unchanged. The handler of "/" gets all requests that
	// match no other pattern.
	Handlers map[string]http.Handler

	// Audit gets a line for each request that changes something and needs the right admin, with who has sent it and
	// what came of it. The id of the operation is the message. It must not block; nil means that nobody wants to know.
	Audit *slog.Logger

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
	config  Config
	service *service
	origins *origins
	mux     *http.ServeMux
	paths   *http.ServeMux // answers 405 with the methods of a path
	rows    []*row         // the table of operations
	huma    huma.API
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
	if config.Schedules == nil {
		config.Schedules = schedule.New(q, nil)
	}
	if config.Batches == nil {
		config.Batches = jobbatch.New(q, nil)
	}
	api := &API{config: config, origins: newOrigins(config.Origins, config.Log), mux: http.NewServeMux(), paths: http.NewServeMux()}
	api.service = &service{
		queue: q, schedules: config.Schedules, batches: config.Batches, access: config.Access, log: config.Log, audit: config.Audit,
		waiting: limits.NewShares(config.MaxWaiting), streams: limits.NewShares(config.MaxStreams), searches: newSearchQueue(),
		sampler: newSampler(q), poller: newPoller(q),
	}
	q.ServeClients(&api.service.reserves)
	if config.Access != nil {
		api.service.aclChanged()
		config.Access.OnChange(api.service.aclChanged)
	}
	api.route()
	if config.History {
		api.service.poller.start()
	}
	return api
}

// Close stops the background polling. All requests must have ended.
func (api *API) Close() {
	if api.config.History {
		api.service.poller.close()
	}
}

// ServeHTTP answers one request.
func (api *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := checkPath(r); p != nil {
		p.Write(w)
		return
	}
	if !api.origins.check(w, r) {
		return
	}
	api.mux.ServeHTTP(w, r)
}

// Operations returns all operations.
func (api *API) Operations() (all []Operation) {
	for _, r := range api.rows {
		all = append(all, r.Operation)
	}
	return all
}

// route builds the muxes from the table of operations.
func (api *API) route() {
	api.rows = api.service.table()
	api.huma = newHuma(api.config.Version, adapter{api.service, api.rows, api.mux})
	allowed := make(map[string][]string)
	for _, row := range api.rows {
		allowed[row.Path] = append(allowed[row.Path], row.Method)
		row.document(api.huma)
	}
	api.mux.HandleFunc("GET /openapi.json", serveOpenAPI(api.huma, api.config.Log))
	api.mux.HandleFunc("GET /docs", serveDocs)
	for path, methods := range allowed {
		api.paths.Handle(path, notAllowed(methods))
	}
	api.mountHandlers()
}

// handlerRights are the rights on all tubes that other handlers need, by path. A handler that
// is not listed needs no right.
var handlerRights = map[string]access.Right{"/metrics": access.List}

// mountHandlers adds the handlers of the Config, and the fallback for all other paths.
func (api *API) mountHandlers() {
	elsewhere := http.Handler(http.HandlerFunc(noSuchPath))
	for pattern, h := range api.config.Handlers {
		if pattern == "/" {
			elsewhere = h
			continue
		}
		if need, guarded := handlerRights[pattern[strings.IndexByte(pattern, '/'):]]; guarded {
			h = api.config.Access.Protect(h, need)
		}
		api.mux.Handle(pattern, h)
	}
	api.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h, pattern := api.paths.Handler(r); pattern != "" {
			h.ServeHTTP(w, r)
			return
		}
		elsewhere.ServeHTTP(w, r)
	})
}

// notAllowed returns a handler for requests with a method that a path does not have.
func notAllowed(methods []string) http.HandlerFunc {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		newProblem(http.StatusMethodNotAllowed, codeUnsupported, "%s: this path allows %s", r.Method, allow).Write(w)
	}
}

func noSuchPath(w http.ResponseWriter, _ *http.Request) {
	newProblem(http.StatusNotFound, "NOT_FOUND", "there is no such path; /docs lists all paths").Write(w)
}
