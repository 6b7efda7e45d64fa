package telemetry

import (
	"slices"
	"sync/atomic"
	"time"
)

// Histogram counts values by size. The zero value must not be used. All methods may be
// called from any goroutine. On a nil Histogram they count nothing.
type Histogram struct {
	bounds []int64
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64
}

// Reading is a snapshot of a Histogram. Values that are added meanwhile can be in Sum and not
// in Counts, or the reverse.
type Reading struct {
	Bounds []int64  // upper bounds of the buckets, except the last one, which has none
	Counts []uint64 // of each bucket, not cumulative; one more than Bounds
	Sum    int64    // of all values
}

// durations are the bounds of NewDurations.
var durations = []time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second,
}

// NewDurations returns a Histogram of durations in nanoseconds, from 50 µs to 5 s.
func NewDurations() *Histogram {
	bounds := make([]int64, len(durations))
	for i, d := range durations {
		bounds[i] = int64(d)
	}
	return newHistogram(bounds)
}

// NewSizes returns a Histogram of numbers, from 1 to 4096 in powers of two.
func NewSizes() *Histogram {
	var bounds []int64
	for n := int64(1); n <= 4096; n *= 2 {
		bounds = append(bounds, n)
	}
	return newHistogram(bounds)
}

func newHistogram(bounds []int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Add counts a value.
func (h *Histogram) Add(v int64) {
	if h == nil {
		return
	}
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(v)
}

// Since counts the time that has passed since t.
func (h *Histogram) Since(t time.Time) { h.Add(int64(time.Since(t))) }

// Read returns what was counted so far; nil for a nil Histogram.
func (h *Histogram) Read() *Reading {
	if h == nil {
		return nil
	}
	r := &Reading{Bounds: slices.Clone(h.bounds), Counts: make([]uint64, len(h.counts)), Sum: h.sum.Load()}
	for i := range h.counts {
		r.Counts[i] = h.counts[i].Load()
	}
	return r
}

// Count returns the number of values; 0 for nil.
func (r *Reading) Count() (n uint64) {
	if r != nil {
		for _, c := range r.Counts {
			n += c
		}
	}
	return n
}
