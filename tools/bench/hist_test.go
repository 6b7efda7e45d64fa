package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHistogramAgainstExactPercentiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() int64{
		"uniform":   func() int64 { return rng.Int64N(5_000_000) },
		"lognormal": func() int64 { return int64(math.Exp(rng.NormFloat64()*2 + 11)) },
		"small":     func() int64 { return rng.Int64N(100) },
		"two peaks": func() int64 { return 20_000 + rng.Int64N(50) + rng.Int64N(2)*9_000_000 },
	}
	for name, draw := range shapes {
		var h histogram
		values := make([]int64, 20_001)
		for i := range values {
			values[i] = draw()
			h.add(values[i])
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
			rank := max(int(math.Ceil(q*float64(len(values)))), 1)
			exact, got := float64(values[rank-1]), float64(h.quantile(q))
			if math.Abs(got-exact) > exact/histSub {
				t.Errorf("%s: quantile %v is %v, want %v within 1/%d", name, q, got, exact, histSub)
			}
		}
	}
}

func TestHistogramEdges(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	h.add(-5)
	h.add(math.MaxInt64)
	if h.counts[0] != 1 || h.counts[histLen-1] != 1 {
		t.Error("values out of range are not in the end buckets")
	}
	last := -1
	for v := int64(1); v < 1<<41; v += v/300 + 1 {
		b := bucketOf(v)
		if b < last || b > last+1 && last >= 0 {
			t.Fatalf("bucket of %d is %d after %d", v, b, last)
		}
		if last = b; v < 1<<histTop && bucketOf(bucketMid(b)) != b {
			t.Fatalf("the middle of bucket %d is not in it", b)
		}
	}
}

func TestHistogramMerge(t *testing.T) {
	var a, b histogram
	for i := range int64(100) {
		a.add(i)
		b.add(i + 100)
	}
	a.merge(&b)
	if a.total != 200 || a.max != 199 || a.quantile(0.5) != 99 {
		t.Errorf("merged: total %d, max %d, median %d", a.total, a.max, a.quantile(0.5))
	}
}
