package httpserve

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"redstalk/storage/telemetry"
)

// Unnamed is the operation of requests of which nobody has said what they are.
const Unnamed = "other"

// Name says for the metrics which operation a request asks for. w is what a handler of a Door
// got, and operation one of few words: it must not come from the client.
func Name(w http.ResponseWriter, operation string) {
	for {
		switch its := w.(type) {
		case *answer:
			its.operation = operation
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = its.Unwrap()
		default:
			return // no Door has got this request
		}
	}
}

// Named returns a handler whose requests ask for this operation, as Name says it.
func Named(operation string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Name(w, operation)
		h(w, r)
	}
}

// RequestStats is what has become of the requests for one operation.
type RequestStats struct {
	Operation string
	Statuses  map[int]uint64     // how many were answered so, by status
	Took      *telemetry.Reading // from the end of the header to that of the answer, in nanoseconds
}

// The statuses that there can be.
const (
	leastStatus = 100
	mostStatus  = 599
)

// requests counts those of a Door by operation.
type requests struct{ byOperation sync.Map } // of *operation

// operation counts the requests for one.
type operation struct {
	statuses [mostStatus - leastStatus + 1]atomic.Uint64
	took     *telemetry.Histogram
}

func (r *requests) of(name string) *operation {
	if its, ok := r.byOperation.Load(name); ok {
		return its.(*operation)
	}
	its, _ := r.byOperation.LoadOrStore(name, &operation{took: telemetry.NewDurations()})
	return its.(*operation)
}

// count counts a request that is over. A handler that has said nothing has answered 200; one
// that has panicked before it said anything has failed.
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
	its := a.door.requests.of(a.operation)
	its.statuses[min(max(status, leastStatus), mostStatus)-leastStatus].Add(1)
	its.took.Since(a.began)
}

// Requests returns what was counted so far, by the names of the operations.
func (d *Door) Requests() (all []RequestStats) {
	for name, counted := range d.requests.byOperation.Range {
		its := counted.(*operation)
		s := RequestStats{Operation: name.(string), Statuses: make(map[int]uint64), Took: its.took.Read()}
		for i := range its.statuses {
			if n := its.statuses[i].Load(); n > 0 {
				s.Statuses[leastStatus+i] = n
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b RequestStats) int { return strings.Compare(a.Operation, b.Operation) })
	return all
}

// Name is what the log and the metrics call the listener.
func (d *Door) Name() string { return d.config.Name }
