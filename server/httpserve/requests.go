package httpserve

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"redstalk/storage/telemetry"
)

// Unnamed is the operation of requests without a name.
const Unnamed = "other"

// Name sets the operation of a request for the metrics. w is the writer that a handler of a
// Server got. operation must be one of few words, and must not come from the client.
func Name(w http.ResponseWriter, operation string) {
	for {
		switch inner := w.(type) {
		case *answer:
			inner.operation = operation
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return // no Server has received this request
		}
	}
}

// Named returns a handler whose requests have this operation; see Name.
func Named(operation string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Name(w, operation)
		h(w, r)
	}
}

// RequestStats are the counters of one operation.
type RequestStats struct {
	Operation string
	Statuses  map[int]uint64     // number of answers by status
	Took      *telemetry.Reading // from the end of the header to the end of the answer, in nanoseconds
}

// The range of statuses.
const (
	minStatus = 100
	maxStatus = 599
)

// requests counts the requests of a Server by operation.
type requests struct{ byOperation sync.Map } // of *operation

// operation holds the counters of one operation.
type operation struct {
	statuses [maxStatus - minStatus + 1]atomic.Uint64
	took     *telemetry.Histogram
}

func (r *requests) of(name string) *operation {
	if loaded, ok := r.byOperation.Load(name); ok {
		return loaded.(*operation)
	}
	loaded, _ := r.byOperation.LoadOrStore(name, &operation{took: telemetry.NewDurations()})
	return loaded.(*operation)
}

// count counts a request that has ended. A handler that has written nothing has answered
// 200; one that has panicked before writing anything has failed.
func (a *answer) count() {
	if a.operation == "" {
		a.operation = Unnamed
	}
	status := a.status
	switch {
	case status == 0 && a.whole:
		status = http.StatusOK
	case status == 0:
		status = http.StatusInternalServerError
	}
	stats := a.srv.requests.of(a.operation)
	stats.statuses[min(max(status, minStatus), maxStatus)-minStatus].Add(1)
	stats.took.Since(a.began)
}

// Requests returns the counters so far, sorted by operation.
func (d *Server) Requests() (all []RequestStats) {
	for name, counted := range d.requests.byOperation.Range {
		stats := counted.(*operation)
		s := RequestStats{Operation: name.(string), Statuses: make(map[int]uint64), Took: stats.took.Read()}
		for i := range stats.statuses {
			if n := stats.statuses[i].Load(); n > 0 {
				s.Statuses[minStatus+i] = n
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b RequestStats) int { return strings.Compare(a.Operation, b.Operation) })
	return all
}

// Name returns the name of the server in the log and in metrics.
func (d *Server) Name() string { return d.config.Name }
