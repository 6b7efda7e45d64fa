package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
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

// lateHandler passes requests on to a handler that is set later. Until then it answers 503.
type lateHandler struct{ handler atomic.Pointer[http.Handler] }

func (l *lateHandler) open(h http.Handler) { l.handler.Store(&h) }

// ServeHTTP implements http.Handler.
func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := l.handler.Load()
	if h == nil {
		problem := httpserve.NewProblem(http.StatusServiceUnavailable, "LOADING", "the store is being loaded")
		problem.RetryAfter = 1
		problem.Write(w)
		return
	}
	(*h).ServeHTTP(w, r)
}
