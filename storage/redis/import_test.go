package redis

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/storetest"
	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// imported is how many jobs TestImportMany imports.
var imported = flag.Int("imported", 20_000, "jobs to be imported at once")

func TestImportInPartitions(t *testing.T) {
	t.Parallel()
	e := &engines{url: redistest.Start(t).URL(), partitions: *suitePartitions, plain: true}
	storetest.RunImport(t, e.fresh)
	e.check(t)
}

// fullQueue returns jobs of a large queue, as beanstalkd's binlog has them.
func fullQueue(n int) func(yield func(storage.ImportJob) bool) {
	body := []byte(strings.Repeat("x", 100))
	return func(yield func(storage.ImportJob) bool) {
		for i := range n {
			j := storage.ImportJob{Body: body, Record: tube.Record{
				ID: uint64(i + 1), Tube: "tube" + strconv.Itoa(i%10), State: []tube.State{tube.Ready, tube.Ready, tube.Delayed, tube.Buried}[i/10%4],
				Pri: uint32(i % 5), TTR: 60, Created: tube.Instant(time.Now().UnixNano()), Rank: time.Now().Add(time.Hour).UnixNano(),
			}}
			if !yield(j) {
				return
			}
		}
	}
}

// importAll imports jobs.
func importAll(t *testing.T, s storage.Importer, n int) {
	t.Helper()
	im, err := storage.StartImport(s, "many", uint64(n), func() tube.Instant { return tube.Instant(time.Now().UnixNano()) })
	if err != nil {
		t.Fatal(err)
	}
	for j := range fullQueue(n) {
		if err := im.Add(j); err != nil {
			t.Fatal(err)
		}
	}
	if err := im.Flush(); err != nil {
		t.Fatal(err)
	}
}

// No call of an import keeps Redis busy for 20 ms, by its own slow log. That is wall time, so
// on a busy machine some calls are slow whatever is in them; with too much in them all calls
// are.
func TestImportMany(t *testing.T) {
	server := redistest.Start(t)
	s, err := Open(context.Background(), Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	ctx := context.Background()
	if err := c.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	c.ConfigSet(ctx, "slowlog-max-len", "100000")
	began := time.Now()
	importAll(t, s, *imported)
	took := time.Since(began)
	var calls []time.Duration
	for _, entry := range c.SlowLogGet(ctx, -1).Val() {
		if strings.EqualFold(entry.Args[0], "evalsha") {
			calls = append(calls, entry.Duration)
		}
	}
	slices.Sort(calls)
	if len(calls) < *imported/5000 {
		t.Fatalf("%d calls", len(calls))
	}
	median := calls[len(calls)/2]
	t.Logf("%d jobs in %v, %d calls, the median took Redis %v, the longest %v", *imported, took, len(calls), median, calls[len(calls)-1])
	if median > busy.Times(20*time.Millisecond) {
		t.Errorf("half of the calls took Redis %v", median)
	}
	ops := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(s, ops)
	if got := ops[0].Answer.Stats; got == nil || int(got.Ready+got.Delayed+got.Buried) != *imported {
		t.Errorf("%+v", got)
	}
}

// An import into a full Redis is refused, and continues when there is memory again.
func TestImportIntoFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := Open(context.Background(), Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	ctx := context.Background()
	now := func() tube.Instant { return tube.Instant(time.Now().UnixNano()) }
	c.ConfigSet(ctx, "maxmemory", "1")
	if _, err := storage.StartImport(s, "many", 10, now); !errors.Is(err, storage.ErrNoSpace) {
		t.Errorf("an import begins in a Redis that is full: %v", err)
	}
	c.ConfigSet(ctx, "maxmemory", "0")
	im, err := storage.StartImport(s, "many", 3000, now)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for j := range fullQueue(3000) {
		if n++; n == 1000 {
			if err := im.Flush(); err != nil {
				t.Fatal(err)
			}
			c.ConfigSet(ctx, "maxmemory", "1")
		}
		if err = im.Add(j); err != nil {
			break
		}
	}
	if err = errors.Join(err, im.Flush()); !errors.Is(err, storage.ErrNoSpace) {
		t.Errorf("jobs get into a Redis that is full: %v", err)
	}
	c.ConfigSet(ctx, "maxmemory", "0")
	importAll(t, s, 3000)
	ops := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(s, ops)
	if got := ops[0].Answer.Stats; got == nil || int(got.Ready+got.Delayed+got.Buried) != 3000 {
		t.Errorf("%+v", got)
	}
}

// importOnly opens a store on a Redis of its own, and begins an import.
func importOnly(t *testing.T) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{URL: redistest.Start(t).URL(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if a := do(s, importing(storage.BeginImport, storage.Import{Largest: 100})); a.Err != nil {
		t.Fatal(a.Err)
	}
	return s
}

func importing(kind storage.Kind, imported storage.Import) storage.Op {
	imported.Source = "other"
	return storage.Op{Kind: kind, Args: &storage.Args{Import: &imported}}
}

// importedJob is a job for the tube t.
func importedJob(id uint64, state tube.State, due time.Time, body string) storage.ImportJob {
	return storage.ImportJob{Body: []byte(body), Record: tube.Record{ID: id, Tube: "t", State: state, TTR: 60, Rank: due.UnixNano(), Size: uint32(len(body))}}
}

// Delayed jobs are imported in any order, and the first due one is not late.
func TestImportedFirstIsDue(t *testing.T) {
	t.Parallel()
	s, now := importOnly(t), time.Now()
	do(s, importing(storage.ImportJobs, storage.Import{Jobs: []storage.ImportJob{
		importedJob(1, tube.Delayed, now.Add(time.Hour), "late"),
		importedJob(2, tube.Delayed, now.Add(100*time.Millisecond), "soon"),
		importedJob(3, tube.Delayed, now.Add(2*time.Hour), "later"),
	}}))
	for figures(t, s).Ready == 0 {
		if time.Since(now) > time.Minute {
			t.Fatal("it is not ready")
		}
		s.Tick()
	}
	if a := do(s, take(7)); a.ID != 2 {
		t.Errorf("%+v", a)
	}
}

// Large jobs that another instance has already imported leave staged records behind; a put of
// the same call does not take them for its own.
func TestImportedMeanwhile(t *testing.T) {
	t.Parallel()
	s := importOnly(t)
	ops := []storage.Op{
		importing(storage.ImportJobs, storage.Import{From: 1, Jobs: []storage.ImportJob{importedJob(2, tube.Ready, time.Time{}, strings.Repeat("i", 8<<10))}}),
		put(strings.Repeat("p", 8<<10)),
	}
	storage.DoWait(s, ops)
	if done := ops[0].Answer.Result.Import.Done; done != 0 {
		t.Errorf("%d jobs are there", done)
	}
	if a := do(s, take(7)); len(a.Body) != 8<<10 || a.Body[0] != 'p' {
		t.Errorf("%.20q, %v", a.Body, a.Err)
	}
}
