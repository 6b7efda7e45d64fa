package redis

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

func TestRefs(t *testing.T) {
	a, nobody := newTubeRefs(), func(string) int { return 0 }
	untold := func() []string {
		a.findChanged(nobody)
		return a.nextToReport(maxTubesReported)
	}
	if !a.add("t", tube.Using, 1) || a.add("t", tube.Watching, 1) {
		t.Error("only the first connection at a tube is worth telling at once")
	}
	if got := untold(); !slices.Equal(got, []string{"t"}) {
		t.Errorf("untold: %v", got)
	}
	a.markReported("t", 0)
	if got := untold(); len(got) != 0 {
		t.Errorf("unreported after it was reported: %v", got)
	}
	if !a.isReported("t") {
		t.Error("it was reported and is not known")
	}
	a.markUnreported("t") // the call that reported it was not carried out
	if a.isReported("t") {
		t.Error("it is owed and known")
	}
	if got := untold(); !slices.Equal(got, []string{"t"}) {
		t.Errorf("untold after the call failed: %v", got)
	}
	a.markReported("t", 0)
	if got := untold(); len(got) != 0 {
		t.Errorf("unreported after it was reported again: %v", got)
	}
	if a.add("t", tube.Using, -1) || !a.add("t", tube.Watching, -1) {
		t.Error("only the last connection at a tube is worth telling at once")
	}
}

// TestInstances: an instance counts until it ends, or has sent no heartbeat for too long,
// whether or not others have declared it dead.
func TestInstances(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			var ahead atomic.Int64
			o := Options{
				URL: redistest.Start(t).URL(), Partitions: partitions,
				skew: func() time.Duration { return time.Duration(ahead.Load()) },
			}
			var stores []*Store
			for range 3 {
				s, err := Open(context.Background(), o)
				if err != nil {
					t.Fatal(err)
				}
				stores = append(stores, s)
			}
			asked := stores[0]
			defer asked.Close()
			do(asked, put("x")) // without a batch on record every call sends a heartbeat, and declares others dead
			want := func(n uint64) {
				t.Helper()
				a := do(asked, storage.Op{Kind: storage.Stats})
				if a.Stats == nil || a.Stats.Instances != n {
					t.Errorf("%+v, want %d instances", a.Stats, n)
				}
			}
			want(3)
			stores[1].Close()
			want(2)
			stores[2].crash()
			ahead.Add(int64(schema.HeartbeatTimeout - time.Second))
			want(2)
			ahead.Add(int64(2 * time.Second))
			want(1)
		})
	}
}

// TestManyRefs: a heartbeat compares a limited number of tubes, and over time all of them; they
// are reported in parts.
func TestManyRefs(t *testing.T) {
	const tubes = 3*maxReviewed + 7
	a, asked := newTubeRefs(), 0
	for _, name := range names(tubes) {
		a.add(name, tube.Watching, 1)
		a.markReported(name, 0)
	}
	reported := make(map[string]bool)
	for range 4 {
		before := asked
		a.findChanged(func(string) int {
			asked++
			return 1
		})
		if n := asked - before; n > maxReviewed {
			t.Fatalf("%d tubes were looked at", n)
		}
		for part := a.nextToReport(maxTubesReported); len(part) > 0; part = a.nextToReport(maxTubesReported) {
			if len(part) > maxTubesReported {
				t.Fatalf("%d are reported at once", len(part))
			}
			for _, name := range part {
				reported[name] = true
				a.markReported(name, 1)
			}
		}
	}
	if len(reported) != tubes || asked != tubes {
		t.Errorf("%d tubes were reported, and %d compared, want %d", len(reported), asked, tubes)
	}
}
