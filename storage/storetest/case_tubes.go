package storetest

import (
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

func testUrgent(b *harness) {
	b.put("t", 1023)
	id := b.put("t", 1024)
	b.putWith("t", 0, 100, 9, "")
	if u, v := b.tube("t").Urgent, b.totals().Urgent; u != 1 || v != 1 {
		b.Errorf("%d and %d urgent, want 1", u, v)
	}
	b.must(tube.ReserveJob, 1, id)
	b.move(tube.Release, 1, id, 7, 0)
	if u, v := b.tube("t").Urgent, b.totals().Urgent; u != 2 || v != 2 {
		b.Errorf("%d and %d urgent, want 2", u, v)
	}
	b.take(1, "t")
	b.take(1, "t")
	if u, v := b.tube("t").Urgent, b.totals().Urgent; u != 0 || v != 0 {
		b.Errorf("%d and %d urgent, want 0", u, v)
	}
}

func testTubeLifetime(b *harness) {
	exists := func(name string, want bool) {
		b.Helper()
		if got := b.tube(name) != nil; got != want {
			b.Fatalf("tube %s exists: %v, want %v", name, got, want)
		}
		if got := slices.Contains(b.tubes(), name); got != want {
			b.Fatalf("tube %s is listed: %v, want %v", name, got, want)
		}
	}
	exists("default", true)
	exists("t", false)
	b.ref(tube.Using, 1, "t")
	exists("t", true)
	b.ref(tube.Watching, 1, "t")
	b.ref(tube.Using, -1, "t")
	exists("t", true)
	id := b.put("t", 0)
	b.pause("t", 1000)
	b.ref(tube.Watching, -1, "t")
	exists("t", true)
	b.must(tube.ReserveJob, 1, id)
	exists("t", true)
	b.must(tube.Delete, 1, id)
	exists("t", false)
	b.ref(tube.Using, 1, "t")
	if s := b.tube("t"); s.Total != 0 || s.Deletes != 0 || s.Pauses != 0 || s.Pause != 0 {
		b.Errorf("a new tube has the counters of an old one: %+v", s)
	}
	b.batch(storage.Op{Kind: storage.Put, Tube: "t", TTR: 1}, // in one batch the tube stays
		storage.Op{Kind: storage.Ref, Role: tube.Using, Delta: -1, Tubes: []string{"t"}})
	exists("t", true)
	b.ref(tube.Using, -1, "default", "nothing")
	exists("default", true)
}

func testTubeOrder(b *harness) {
	b.ref(tube.Watching, 1, "a", "b", "m", "n", "o", "p")
	b.ref(tube.Watching, -1, "m")
	want := []string{"default", "a", "b", "p", "n", "o"}
	if got := b.tubes(); !slices.Equal(got, want) {
		b.Errorf("tubes are %v, want %v", got, want)
	}
}

func testTubeCounters(b *harness) {
	b.ref(tube.Using, 2, "t")
	b.ref(tube.Watching, 3, "t")
	ids := []uint64{b.put("t", 0), b.put("t", 5000), b.put("t", 1), b.putWith("t", 0, 9, 9, "")}
	b.must(tube.ReserveJob, 1, ids[2])
	b.must(tube.Bury, 1, ids[2])
	b.take(1, "t")
	got := b.tube("t")
	want := tube.TubeStats{Name: "t", Ready: 1, Reserved: 1, Delayed: 1, Buried: 1, Total: 4, Using: 2, Watching: 3}
	if !sameTube(*got, want, 0) {
		b.Errorf("got  %+v\nwant %+v", *got, want)
	}
	for _, id := range ids {
		b.must(tube.Delete, 1, id)
	}
	b.move(tube.Delete, 1, ids[0], 0, 0) // not found: does not count
	if got := b.tube("t"); got.Deletes != 4 || got.Total != 4 || got.Ready+got.Reserved+got.Delayed+got.Buried != 0 {
		b.Errorf("after all were deleted: %+v", *got)
	}
}

func testTotals(b *harness) {
	b.put("a", 0)
	b.put("b", 2000)
	b.putWith("c", 0, 9, 9, "")
	id := b.put("d", 0)
	b.must(tube.ReserveJob, 1, id)
	want := tube.Totals{Urgent: 1, Ready: 2, Reserved: 1, Delayed: 1, Jobs: 4, Tubes: 5}
	if got := b.totals(); got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
	b.must(tube.Bury, 1, id)
	want.Buried, want.Reserved = 1, 0
	if got := b.totals(); got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
	b.must(tube.Delete, 1, id)
	want.Buried, want.Tubes = 0, 4
	if got := b.totals(); got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
}
