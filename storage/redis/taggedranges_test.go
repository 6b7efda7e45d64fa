package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// putKeyed puts jobs with keys and a priority at once, and returns the answers.
func putKeyed(s *Store, pri uint32, what tube.OnDuplicate, keys ...string) (answers []storage.Answer) {
	var ops []storage.Op
	for _, key := range keys {
		op := put("body of " + key)
		op.Pri, op.Args = pri, &storage.Args{Tags: &tube.Tags{Key: key, OnDuplicate: what}}
		ops = append(ops, op)
	}
	storage.DoWait(s, ops)
	for i := range ops {
		answers = append(answers, ops[i].Answer)
	}
	return answers
}

// keysOf are n keys that begin with a word.
func keysOf(word string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprint(word, i))
	}
	return keys
}

// TestTaggedRanges: jobs with tags that are put together are one member of the sorted set like
// others, except for those that are due later; also if puts among them replace what was put
// just before.
func TestTaggedRanges(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	check := func(what string, urgent, ready uint64, want ...string) {
		t.Helper()
		wantRanges(t, server, s, what, urgent, ready, want)
	}
	putKeyed(s, 5, tube.Keep, keysOf("few", schema.RangeFrom-1)...)
	check("too few for a range", 3, 3, "1", "2", "3")
	putKeyed(s, 5, tube.Keep, keysOf("a", 10)...)
	check("ten", 13, 13, "1", "2", "3", "4;10;5;600")
	answers := putKeyed(s, 5000, tube.Replace, "b0", "b1", "b2", "b3", "b1", "c0", "c1", "c2", "c3")
	for i, a := range answers {
		if a.Err != nil || a.ID != uint64(14+i) {
			t.Errorf("put %d: %+v", i, a)
		}
	}
	check("one replaced that was put just before", 13, 21, "1", "2", "3", "4;10;5;600", "14", "16;2;5000;600", "18;5;5000;600")
	answers = putKeyed(s, 7, tube.Fail, "d0", "d1", "d0", "a5", "d2", "d3", "d4", "d5")
	for i, want := range []uint64{23, 24, 23, 9, 25, 26, 27, 28} {
		if a := answers[i]; a.Err != nil || a.ID != want || (a.Outcome == tube.PutDuplicate) != (i == 2 || i == 3) {
			t.Errorf("put %d: %+v", i, a)
		}
	}
	check("two not put", 19, 27, "1", "2", "3", "4;10;5;600", "23", "24", "25;4;7;600", "14", "16;2;5000;600", "18;5;5000;600")
	ops := []storage.Op{put("x"), put("x"), put("x"), put("x"), put("x")}
	for i := range ops {
		ops[i].Pri, ops[i].Args = 9, &storage.Args{Tags: &tube.Tags{Delay: time.Hour, HasDelay: i == 2}}
	}
	storage.DoWait(s, ops)
	check("one is delayed", 23, 31, "1", "2", "3", "4;10;5;600", "23", "24", "25;4;7;600", "29", "30", "32", "33", "14", "16;2;5000;600", "18;5;5000;600")
}

// TestTaggedReservedTogether: jobs with tags that were reserved together make no lease set,
// because each of their deletes could have to split it; they are deleted, found by their keys
// and released one by one, on their instance and on others.
func TestTaggedReservedTogether(t *testing.T) {
	server := redistest.Start(t)
	o := Options{URL: server.URL(), leaseSetFrom: 6}
	a, b := openWith(t, o), openWith(t, o)
	for _, word := range []string{"a", "b", "c"} {
		putKeyed(a, 5, tube.Keep, keysOf(word, 8)...)
	}
	ids, bodies := takeMany(t, a, 24)
	if len(ids) != 24 || bodies[0] != "body of a0" || bodies[23] != "body of c7" {
		t.Fatalf("took %d: %q", ids, bodies)
	}
	if n := server.Client(t).ZCard(context.Background(), "redstalk:{0}:groups:"+a.parts[0].instance.name()).Val(); n != 0 {
		t.Errorf("%d lease sets", n)
	}
	byKey := storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "a3"}}
	if got := do(b, byKey); got.NotFound || got.Err != nil {
		t.Errorf("delete by key elsewhere: %+v", got)
	}
	if got := do(a, move(tube.Delete, 1, ids[3])); !got.NotFound {
		t.Errorf("delete by who had held it: %+v", got)
	}
	if got := putKeyed(a, 5, tube.Replace, "b3")[0]; got.Err != nil || got.ID != 25 {
		t.Errorf("replaced: %+v", got)
	}
	for i, m := range []tube.Move{tube.Delete, tube.Release, tube.Bury, tube.Touch} {
		if got := do(a, move(m, 1, ids[16+i])); got.NotFound || got.Err != nil {
			t.Errorf("%v: %+v", m, got)
		}
	}
	var deletes []storage.Op
	for _, id := range ids[4:11] {
		deletes = append(deletes, move(tube.Delete, 1, id))
	}
	storage.DoWait(a, deletes)
	for i := range deletes {
		if got := deletes[i].Answer; got.NotFound || got.Err != nil {
			t.Errorf("delete %d: %+v", deletes[i].ID, got)
		}
	}
	wantNoFaults(t, o)
	want := tube.Totals{Reserved: 12, Ready: 2, Urgent: 2, Buried: 1, Jobs: 25, Tubes: 2}
	if got := figures(t, a); got != want {
		t.Errorf("in the end %+v, want %+v", got, want)
	}
}

// TestKeyCosts: a job with a key costs at most 200 bytes more than one without, its key
// of 32 bytes included.
func TestKeyCosts(t *testing.T) {
	const jobs, most = 10_000, 200
	var each []float64
	for _, tags := range []func(i int) *storage.Args{
		func(int) *storage.Args { return nil },
		func(i int) *storage.Args {
			return &storage.Args{Tags: &tube.Tags{Key: fmt.Sprintf("order-%026d", i)}}
		},
	} {
		server := redistest.Start(t)
		s, client := openAt(t, server.URL(), patient), server.Client(t)
		before := used(t, client, "used_memory")
		for i := 0; i < jobs; i += maxTogether {
			ops := make([]storage.Op, maxTogether)
			for k := range ops {
				ops[k] = storage.Op{Kind: storage.Put, Tube: "t", Pri: 1, TTR: 600, Body: make([]byte, 64), Args: tags(i + k)}
			}
			storage.DoWait(s, ops)
		}
		each = append(each, (used(t, client, "used_memory")-before)/jobs)
	}
	t.Logf("%.0f bytes a job, %.0f with a key", each[0], each[1])
	if more := each[1] - each[0]; more > most || more < 50 {
		t.Errorf("a key costs %.0f bytes", more)
	}
}
