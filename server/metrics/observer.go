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
	"redstalk/server/jobbatch"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/server/webhook"
)

// The paths of the handlers.
const (
	MetricsPath = "/metrics"
	HealthPath  = "/healthz"
	ReadyPath   = "/readyz"
)

// Config configures an Observer.
type Config struct {
	// Tubes is the number of tubes that metrics show by name. It should be equal to NamedTubes
	// of the queue.
	Tubes int

	// ReadyLag is how late the timer of a ready instance can be. 0 means DefaultReadyLag.
	ReadyLag time.Duration

	// Commands are the names of the commands, by their number in queue.Counters.
	Commands []string

	// Version is the version of the program.
	Version string

	// Log receives messages for operators; nil means slog.Default.
	Log *slog.Logger
}

// DefaultReadyLag is the default of Config.ReadyLag.
const DefaultReadyLag = 5 * time.Second

// Observer observes an instance from start to end. Its methods are safe for concurrent use.
type Observer struct {
	config  Config
	runtime *prometheus.Registry // the Go runtime and the process

	mu      sync.Mutex
	queue   *queue.Queue // nil until Serving
	ending  bool
	pushes  func() *webhook.Stats // nil if nothing is pushed
	servers []*httpserve.Server

	schedules *schedule.Counts // nil: not known
	batches   *jobbatch.Counts // nil: not known
	dropped   func() uint64    // spans; nil: none are sent

	// snapshotMu guards the snapshot. It is held while one is taken, so concurrent scrapes get
	// the same one.
	snapshotMu  sync.Mutex
	last        *snapshot
	listing     listing
	deadLetters deadLetterTubes
}

// New returns an Observer of an instance that is loading its store.
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

// Serving reports that the store is loaded, that q is its queue, and that all listeners are
// open.
func (o *Observer) Serving(q *queue.Queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = q
}

// Ending reports that the instance ends. Later requests do not ask the queue any more.
func (o *Observer) Ending() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = true
}

// state returns the queue, or nil if it must not be asked, and whether the instance ends.
func (o *Observer) state() (q *queue.Queue, ending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ending {
		return nil, true
	}
	return o.queue, false
}

// Unready returns why the instance is not ready, or "" if it is. The text is for operators,
// and contains no address and no secret.
func (o *Observer) Unready() string {
	q, ending := o.state()
	if ending {
		return "the instance is shutting down"
	}
	if q == nil {
		return "the store is being loaded"
	}
	var reasons []string
	report := q.Report()
	if report.Unavailable != nil {
		reasons = append(reasons, "the store cannot be reached")
	}
	if report.Refusing != nil {
		reasons = append(reasons, "no jobs can be put: "+report.Refusing.Error())
	}
	if q.Draining() {
		reasons = append(reasons, "the instance drains")
	}
	if lag := q.TimerLag(); lag > o.config.ReadyLag {
		reasons = append(reasons, fmt.Sprintf("timers are %v late", lag.Round(time.Millisecond)))
	}
	return strings.Join(reasons, "; ")
}

// Handler returns a handler that answers requests for the paths of this package, and passes
// all others to others.
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
func healthy(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }

func (o *Observer) serveReady(w http.ResponseWriter, _ *http.Request) {
	if reason := o.Unready(); reason != "" {
		w.Header().Set("Retry-After", "1")
		writeText(w, http.StatusServiceUnavailable, reason)
		return
	}
	writeText(w, http.StatusOK, "ready"+o.refusing())
}

// refusing says that the store has no room for puts, for an instance that is ready for everything else.
func (o *Observer) refusing() string {
	if q, _ := o.state(); q != nil {
		if r := q.Report(); r.Disk != nil && r.Disk.Refusing != "" {
			return ", but puts are refused: " + r.Disk.Refusing
		}
	}
	return ""
}

// serveMetrics answers with all metrics as text. It does not compress them, which would take
// longer than everything else.
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

// runtimeText returns the metrics of the Go runtime and of the process. Those that cannot be
// read are missing.
func (o *Observer) runtimeText() []byte {
	all, err := o.runtime.Gather()
	if err != nil {
		o.config.Log.Warn("metrics of the process are missing", "err", err)
	}
	var text bytes.Buffer
	for _, f := range all {
		expfmt.MetricFamilyToText(&text, f) // fails only for families without a name or samples
	}
	return text.Bytes()
}

// writeText answers with a line of text that must not be cached.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, text+"\n")
}
