package metrics

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"redstalk/server/httpserve"
	"redstalk/server/queue"
	"redstalk/server/webhook"
)

// The paths of the handlers.
const (
	MetricsPath = "/metrics"
	HealthPath  = "/healthz"
	ReadyPath   = "/readyz"
)

// Config says how an Observer behaves.
type Config struct {
	// Tubes is how many tubes metrics show by name. It should be what the queue has as
	// NamedTubes.
	Tubes int

	// ReadyLag is how late the timer may be of an instance that is ready. 0 means
	// DefaultReadyLag.
	ReadyLag time.Duration

	// Commands are the names of the commands that queue.Counters has by number.
	Commands []string

	// Version is that of the program.
	Version string

	// Log gets what an operator should know; nil means slog.Default.
	Log *slog.Logger
}

// DefaultReadyLag is the default of Config.ReadyLag.
const DefaultReadyLag = 5 * time.Second

// Observer watches an instance from its beginning to its end. Its methods may be called
// from any goroutine.
type Observer struct {
	config  Config
	runtime *prometheus.Registry // Go and the process

	mu     sync.Mutex
	queue  *queue.Queue // nil until Serving
	ending bool
	pushes func() *webhook.Stats // nil: nothing is pushed
	doors  []*httpserve.Door

	// The snapshot is guarded by snapping, which is held while one is taken: whoever asks
	// meanwhile gets the same one.
	snapping sync.Mutex
	last     *snapshot
	listing  listing
}

// New returns an Observer of an instance that loads its store.
func New(config Config) *Observer {
	if config.ReadyLag == 0 {
		config.ReadyLag = DefaultReadyLag
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	o := &Observer{config: config, runtime: prometheus.NewRegistry()}
	o.runtime.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return o
}

// Serving says that the store is loaded, this is the queue on it, and all listeners are open.
func (o *Observer) Serving(q *queue.Queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = q
}

// Ending says that the instance ends. The queue is not asked any more by those who come
// later.
func (o *Observer) Ending() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
}

// state returns the queue, nil while there is none that may be asked, and whether the
// instance ends.
func (o *Observer) state() (q *queue.Queue, ending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ending {
		return nil, true
	}
	return o.queue, false
}

// Unready returns why the instance is not ready; "" if it is. The words are for operators,
// and name no address and no secret.
func (o *Observer) Unready() string {
	q, ending := o.state()
	if ending {
		return "the instance ends"
	}
	if q == nil {
		return "the store is being loaded"
	}
	var reasons []string
	if q.Report().Away != nil {
		reasons = append(reasons, "the store is away")
	}
	if q.Draining() {
		reasons = append(reasons, "the instance drains")
	}
	if lag := q.TimerLag(); lag > o.config.ReadyLag {
		reasons = append(reasons, fmt.Sprintf("timers are %v late", lag.Round(time.Millisecond)))
	}
	return strings.Join(reasons, "; ")
}

// Handler returns what answers requests for the paths of this package, and passes on all
// others.
func (o *Observer) Handler(others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var h http.Handler
		switch r.URL.Path {
		case MetricsPath:
			h = http.HandlerFunc(o.serveMetrics)
		case HealthPath:
			h = http.HandlerFunc(healthy)
		case ReadyPath:
			h = http.HandlerFunc(o.serveReady)
		default:
			others.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// healthy answers that the process runs.
func healthy(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }

func (o *Observer) serveReady(w http.ResponseWriter, _ *http.Request) {
	if reason := o.Unready(); reason != "" {
		w.Header().Set("Retry-After", "1")
		say(w, http.StatusServiceUnavailable, reason)
		return
	}
	say(w, http.StatusOK, "ready")
}

// serveMetrics answers with all metrics as text, which is not packed: that would take longer than
// all the rest.
func (o *Observer) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	runtime := o.runtimeText()
	s := o.current()
	age := newFamilies(families{})
	age.add("redstalk_snapshot_age_seconds", time.Since(s.at).Seconds())
	parts := append(s.families.sorted(), age.sorted()...)
	length := len(runtime)
	for _, f := range parts {
		length += len(f.text)
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.Write(runtime)
	for _, f := range parts {
		w.Write(f.text)
	}
}

// runtimeText returns the metrics of Go and of the process. One that cannot be read is missing.
func (o *Observer) runtimeText() []byte {
	all, err := o.runtime.Gather()
	if err != nil {
		o.config.Log.Warn("metrics of the process are missing", "err", err)
	}
	var text bytes.Buffer
	for _, f := range all {
		expfmt.MetricFamilyToText(&text, f) // fails for families without a name or samples
	}
	return text.Bytes()
}

// say answers with a line of text that nobody may keep.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, text+"\n")
}
