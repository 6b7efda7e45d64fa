package redis

import (
	"context"
	"errors"
	"flag"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/storage/storetest"
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

// fullQueue is jobs of a queue that has run full, as beanstalkd's binlog has them.
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

// takeOver imports jobs.
func takeOver(t *testing.T, s storage.Importer, n int) {
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

// No call of an import takes Redis as long as 20 ms. Redis says so by itself: its slow log has what
// took longer than so many µs of its own time.
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
	takeOver(t, s, *imported)
	took := time.Since(began)
	longest := time.Duration(0)
	for _, entry := range c.SlowLogGet(ctx, -1).Val() {
		if strings.EqualFold(entry.Args[0], "evalsha") {
			longest = max(longest, entry.Duration)
		}
	}
	t.Logf("%d jobs in %v, the longest call took Redis %v", *imported, took, longest)
	// The bar is 20 ms of a machine that does nothing else: Redis measures time that passes.
	if longest == 0 || longest > 200*time.Millisecond {
		t.Errorf("a call took Redis %v", longest)
	}
	ops := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(s, ops)
	if got := ops[0].Answer.Stats; got == nil || int(got.Ready+got.Delayed+got.Buried) != *imported {
		t.Errorf("%+v", got)
	}
}

// An import into a Redis that is full is refused, and goes on when there is room.
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
	takeOver(t, s, 3000)
	ops := []storage.Op{{Kind: storage.Stats}}
	storage.DoWait(s, ops)
	if got := ops[0].Answer.Stats; got == nil || int(got.Ready+got.Delayed+got.Buried) != 3000 {
		t.Errorf("%+v", got)
	}
}
