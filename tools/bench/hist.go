package main

import "math/bits"

// The histogram is log-linear: each power of two is cut into histSub equal
// buckets, so a value is known to 1/histSub (under 0.8 %) whatever its size.
const (
	histBits = 7
	histSub  = 1 << histBits
	// histTop is the limit of distinguished values: 2^40 ns is a little over 18 minutes.
	histTop = 40
	histLen = (histTop - histBits + 1) * histSub
)

// A histogram counts durations in nanoseconds in fixed memory. Its zero value
// is empty. It is not safe for concurrent use; merge private ones instead.
type histogram struct {
	counts [histLen]uint64
	total  uint64
	max    int64
}

// bucketOf returns the bucket of v; anything below zero counts as zero and
// anything at 2^histTop or above falls in the last bucket.
func bucketOf(v int64) int {
	if v < histSub {
		return int(max(v, 0))
	}
	shift := bits.Len64(uint64(v)) - histBits - 1
	if shift > histTop-histBits-1 {
		return histLen - 1
	}
	return shift*histSub + int(v>>shift)
}

// bucketMid returns the middle of bucket i, the value reported for it.
func bucketMid(i int) int64 {
	if i < 2*histSub {
		return int64(i)
	}
	shift := i/histSub - 1
	low := int64(i-shift*histSub) << shift
	return low + int64(1)<<shift/2
}

// add counts one duration of v nanoseconds.
func (h *histogram) add(v int64) {
	h.counts[bucketOf(v)]++
	h.total++
	if v > h.max {
		h.max = v
	}
}

// merge adds all that o counted.
func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.max = max(h.max, o.max)
}

// quantile returns the duration, in nanoseconds, that the share q (0 to 1) of the
// counted ones do not exceed; 0 if nothing was counted.
func (h *histogram) quantile(q float64) int64 {
	if h.total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.total)+0.999999), 1)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(bucketMid(i), h.max)
		}
	}
	return h.max
}

// percentiles is what a report shows of a histogram, in microseconds.
type percentiles struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

func (h *histogram) percentiles() percentiles {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return percentiles{
		Count: h.total,
		P50:   us(h.quantile(0.50)),
		P99:   us(h.quantile(0.99)),
		P999:  us(h.quantile(0.999)),
		Max:   us(h.max),
	}
}
