package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// importer returns the store as an Importer. It skips the test for a store that is none.
func (b *harness) importer() storage.Importer {
	b.Helper()
	s, ok := b.store.(storage.Importer)
	if !ok {
		b.Skip("the suite replaces the ids of this store: see RunImport")
	}
	return s
}

// foreign returns jobs of another server, not in the order of their ids, with bodies of all
// sizes.
func (b *harness) foreign(n int) (jobs []storage.ImportJob) {
	began := tube.Instant(b.began.UnixNano())
	for i := range n {
		id := uint64(2*n - 2*i + 5)
		j := storage.ImportJob{
			Record: tube.Record{
				ID: id, Tube: fmt.Sprint("import", i%5), State: []tube.State{tube.Ready, tube.Buried, tube.Delayed}[i%3],
				Pri: uint32(i % 7 * 300), Delay: uint32(i), TTR: uint32(i%100 + 1), Created: began - tube.Instant(time.Hour),
				Counters: tube.Counters{uint32(i), 2, 3, 4, 5},
			},
			Body: bytes.Repeat([]byte{byte(i)}, []int{0, 3, 600, 5000, 40_000}[i%5*(i%2)]),
		}
		if j.State == tube.Delayed {
			j.Rank = int64(began) + int64(time.Hour)
			if i%2 == 0 {
				j.Rank = int64(began) - int64(time.Second)
			}
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// importJobs imports jobs into the store; only the first limit of them if that is not 0.
func (b *harness) importJobs(source string, lastID uint64, jobs []storage.ImportJob, limit int) *storage.Importing {
	b.Helper()
	im, err := storage.StartImport(b.importer(), source, lastID, func() tube.Instant { return tube.Instant(b.began.UnixNano()) })
	if err != nil {
		b.Fatal(err)
	}
	for i, j := range jobs {
		if limit > 0 && i == limit {
			break
		}
		if err := im.Add(j); err != nil {
			b.Fatal(err)
		}
	}
	if err := im.Flush(); err != nil {
		b.Fatal(err)
	}
	return im
}

// wantForeign checks all jobs under the ids that an import has given them.
func (b *harness) wantForeign(im *storage.Importing, jobs []storage.ImportJob) {
	b.Helper()
	for _, want := range jobs {
		id := im.IDOf(want.Tube, want.ID)
		got, state := b.job(id), want.State
		if state == tube.Delayed && want.Rank < b.began.UnixNano() {
			state = tube.Ready
		}
		w := want.Record
		if got.Tube != w.Tube || got.State != state || got.Pri != w.Pri || got.Delay != w.Delay || got.TTR != w.TTR || got.Counters != w.Counters {
			b.Fatalf("job %d, which was %+v, is %+v", id, w, got)
		}
		if off := got.Age - time.Hour; off.Abs() > 5*time.Minute {
			b.Fatalf("job %d is %v old, want an hour", id, got.Age)
		}
		if off := got.TimeLeft - time.Hour; state == tube.Delayed && off.Abs() > 5*time.Minute {
			b.Fatalf("job %d is due in %v, want an hour", id, got.TimeLeft)
		}
		if a := b.do(storage.Op{Kind: storage.Peek, ID: id}); !bytes.Equal(a.Body, want.Body) {
			b.Fatalf("job %d has a body of %d bytes, want %d", id, len(a.Body), len(want.Body))
		}
	}
}

// wantBuried checks the order in which the jobs of an import are buried.
func (b *harness) wantBuried(im *storage.Importing, jobs []storage.ImportJob, name string) {
	b.Helper()
	var want, got []uint64
	for _, j := range jobs {
		if j.State == tube.Buried && j.Tube == name {
			want = append(want, im.IDOf(name, j.ID))
		}
	}
	for id := b.head(name, tube.Buried); id != 0; id = b.head(name, tube.Buried) {
		got = append(got, id)
		b.must(tube.Delete, 1, id)
	}
	if !slices.Equal(got, want) {
		b.Fatalf("buried in %s are %v, want %v", name, got, want)
	}
}

// testImportLimited: imported jobs, which have no groups, obey the limits of their tube, and take turns with
// its groups.
func testImportLimited(b *harness) {
	b.reopens = false
	b.setPolicy("import0", &tube.Policy{Limits: tube.Limits{Concurrency: 2}})
	own := b.putGroup("import0", "g", 300)
	var jobs []storage.ImportJob
	for i := range 3 {
		record := tube.Record{ID: uint64(i + 1), Tube: "import0", State: tube.Ready, Pri: 300, TTR: 100, Created: tube.Instant(b.began.UnixNano())}
		jobs = append(jobs, storage.ImportJob{Record: record, Body: []byte("x")})
	}
	im := b.importJobs("limited", 10, jobs, 0)
	first, second := b.take(1, "import0"), b.take(1, "import0")
	if first != own && second != own || first == 0 || second == 0 {
		b.Errorf("took %d and %d: job %d and an imported one take turns", first, second, own)
	}
	b.wantTake(1, "import0")
	b.wantHeld("imported", tube.HeldByConcurrency, im.IDOf("import0", 3))
	b.must(tube.Delete, 1, first)
	if b.take(1, "import0") == 0 {
		b.Error("the slot is not free")
	}
	b.wantTake(1, "import0")
}

// testImport: jobs of another server keep all that they have; an interrupted import resumes, and a
// finished one is not repeated.
func testImport(b *harness) {
	b.reopens = false // the test reopens the store itself, and checks every job
	jobs := b.foreign(700)
	lastID := uint64(5000)
	im := b.importJobs("first", lastID, jobs, 260)
	if whole := b.importer().Parts() == 1; im.KeepsIDs() != whole {
		b.Errorf("an empty store keeps ids: %v", im.KeepsIDs())
	}
	if got := b.totals(); got.Jobs != 260 {
		b.Errorf("the first part of an import: %+v", got)
	}
	b.restart()
	im = b.importJobs("first", lastID, jobs, 0)
	if im.Done() != 260 {
		b.Errorf("an import resumes after %d jobs", im.Done())
	}
	for range 2 {
		b.wantForeign(im, jobs)
		got := b.totals()
		if got.Ready+got.Buried+got.Delayed != 700 || got.Buried != 233 || got.Delayed != 116 {
			b.Errorf("all of an import: %+v", got)
		}
		b.restart()
		if im = b.importJobs("first", lastID, jobs, 0); im.Done() != 700 {
			b.Errorf("a finished import has %d jobs done", im.Done())
		}
	}
	if id := b.put("import0", 0); id <= im.IDOf("import0", lastID) {
		b.Errorf("the first job after an import has the id %d", id)
	} else {
		b.must(tube.Delete, 1, id)
	}
	b.wantBuried(im, jobs, "import1")
}

// testImportBeside: a store that has jobs already gives imported jobs new ids, which no other job
// has, in the same order.
func testImportBeside(b *harness) {
	b.reopens = false
	own := b.put("import0", 0)
	jobs := b.foreign(90)
	im := b.importJobs("beside", 300, jobs, 0)
	if im.KeepsIDs() || im.IDOf("import0", 1) <= own {
		b.Errorf("a store with jobs imports job 1 as %d", im.IDOf("import0", 1))
	}
	other := b.importJobs("another", 300, jobs, 0)
	if first, last := other.IDOf("import0", 1), im.IDOf("import0", 300); first <= last {
		b.Errorf("a second import begins with the id %d, and the first one goes to %d", first, last)
	}
	b.wantForeign(im, jobs)
	b.wantForeign(other, jobs)
	if got := b.tube("import0"); got == nil || got.Total != 1+2*18 || got.Ready != 19 {
		b.Errorf("%+v", got)
	}
	for range 19 {
		id := b.take(7, "import0")
		if id == 0 {
			b.Fatal("a ready job of an import cannot be taken")
		}
		b.must(tube.Delete, 7, id)
	}
	if id := b.take(7, "import0"); id != 0 {
		b.Errorf("took job %d, and there were 19", id)
	}
}

// restart closes and reopens the store, if it is durable.
func (b *harness) restart() {
	if b.engine.Durable {
		b.close()
		b.open()
	}
}
