package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"redstalk/server/httpserve"
	"redstalk/server/metrics"
	"redstalk/tube"
)

// metricsSettings are the settings of metrics and health checks.
type metricsSettings struct {
	tubes    int           // tubes that are counted and shown by name
	readyLag time.Duration // timer lag up to which an instance is ready
}

// maxNamedTubes limits the size of a scrape.
const maxNamedTubes = 100_000

func defaultMetrics() metricsSettings {
	return metricsSettings{tubes: tube.DefaultNamed, readyLag: metrics.DefaultReadyLag}
}

// namedTubes is the value for queue.Config.NamedTubes, where 0 means the default.
func (m *metricsSettings) namedTubes() int {
	if m.tubes == 0 {
		return -1
	}
	return m.tubes
}

func (s *settings) setMetricsTubes(v string) error {
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n > maxNamedTubes {
		return fmt.Errorf("%q is not a number of tubes, 0 to %d", v, maxNamedTubes)
	}
	s.metrics.tubes = int(n)
	return nil
}

func (s *settings) setReadyLag(v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a duration such as 5s or 500ms, or it is zero", v)
	}
	s.metrics.readyLag = d
	return nil
}

// loadingWait is how long a request waits for the store at the start. That of a small store is open
// sooner.
const loadingWait = 5 * time.Second

// lateHandler passes requests on to a handler that is set later. Until then they wait, but not for
// long; then the answer is 503.
type lateHandler struct {
	handler http.Handler
	opened  chan struct{} // closed when there is a handler
}

func newLateHandler() *lateHandler { return &lateHandler{opened: make(chan struct{})} }

func (l *lateHandler) open(h http.Handler) {
	l.handler = h
	close(l.opened)
}

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit := time.NewTimer(loadingWait)
	defer limit.Stop()
	select {
	case <-l.opened:
		l.handler.ServeHTTP(w, r)
		return
	case <-limit.C:
	case <-r.Context().Done():
	case <-httpserve.Ending(r.Context()):
	}
	problem := httpserve.NewProblem(http.StatusServiceUnavailable, "LOADING", "the store is being loaded")
	problem.RetryAfter = 1
	problem.Write(w)
}
