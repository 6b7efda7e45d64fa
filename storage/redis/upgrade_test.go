package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

// restoreOlder has Redis have what the version before this one has written: by commands, one
// a line, with their words quoted. Instances were killed. By hand, delays were made to last
// until 2100, and the last heartbeats to be of 2023.
func restoreOlder(t *testing.T, client *goredis.Client) {
	t.Helper()
	file, err := os.Open("testdata/older/redis-6.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var words []any
		name, rest, _ := strings.Cut(lines.Text(), " ")
		for words = append(words, name); rest != ""; rest = strings.TrimPrefix(rest, " ") {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatal(err)
			}
			word, _ := strconv.Unquote(quoted)
			words, rest = append(words, word), rest[len(quoted):]
		}
		if err := client.Do(context.Background(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderNamespace: the first instance upgrades what the version before this one has
// written, and all jobs are there; but not while an older instance is alive.
func TestOlderNamespace(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	for _, partitions := range []int{1, 3} {
		restoreOlder(t, client)
		namespace := fmt.Sprint("older", partitions)
		o := Options{URL: server.URL(), Namespace: namespace, Partitions: partitions, watchFor: briefWatch, Log: slog.New(slog.DiscardHandler)}
		alive := goredis.Z{Score: float64(time.Now().UnixMilli()), Member: "ALIVE123"}
		client.ZAdd(ctx, keyPrefix(namespace, 0)+"instances", alive)
		if _, err := Open(ctx, o); !errors.Is(err, errLayout) || !strings.Contains(err.Error(), "older redstalk serves") {
			t.Errorf("opened beside an older instance: %v", err)
		}
		if got := client.HGet(ctx, keyPrefix(namespace, 0)+"layout", "version").Val(); got != "6" {
			t.Errorf("version %s", got)
		}
		client.ZRem(ctx, keyPrefix(namespace, 0)+"instances", "ALIVE123")
		openOlder(t, o)
		checkWhole(t, server.URL(), namespace)
		client.FlushAll(ctx)
	}
}

// TestUpgradeFull: a namespace is upgraded though Redis has no memory left.
func TestUpgradeFull(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	restoreOlder(t, client)
	client.ConfigSet(t.Context(), "maxmemory", "1")
	o := Options{URL: server.URL(), Namespace: "older3", Partitions: 3, watchFor: briefWatch}
	if err := openWith(t, o).Close(); err != nil {
		t.Error(err)
	}
	checkWhole(t, server.URL(), o.Namespace)
}

// openOlder opens the data with two instances at once, and looks at all of it.
func openOlder(t *testing.T, o Options) {
	t.Helper()
	var ahead atomic.Int64
	o.skew = func() time.Duration { return time.Duration(ahead.Load()) }
	stores := make([]*Store, 2)
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() {
			s, err := Open(context.Background(), o)
			if err != nil {
				t.Error(err)
				return
			}
			s.Listen(deaf{})
			stores[i] = s
		})
	}
	if all.Wait(); t.Failed() {
		t.FailNow()
	}
	for range 12 {
		ahead.Add(int64(time.Second))
		for _, s := range stores {
			s.Settle()
		}
	}
	for _, name := range []string{"mail", "video", "a.b"} {
		lookAtOlder(t, stores[0], name)
	}
	for _, s := range stores {
		s.Close()
	}
}

// lookAtOlder looks at a tube: 16 jobs, of which one is delayed, one was released with a
// delay, and one buried.
func lookAtOlder(t *testing.T, s *Store, name string) {
	t.Helper()
	stats := do(s, storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats
	if stats.Ready != 13 || stats.Delayed != 2 || stats.Buried != 1 || stats.Reserved != 0 || (stats.Pause > 0) != (name == "video") {
		t.Errorf("%s: %+v", name, *stats)
	}
	do(s, storage.Op{Kind: storage.Pause, Tube: name})
	do(s, storage.Op{Kind: storage.Kick, Tube: name, Bound: 100})
	do(s, storage.Op{Kind: storage.Kick, Tube: name, Bound: 100})
	have := 0
	want := []string{"one", "two", "delayed", strings.Repeat("large", 60)}
	for k := range 12 {
		want = append(want, fmt.Sprint("range", k))
	}
	for _, body := range want {
		have += len(body)
	}
	quota := &tube.Policy{QuotaBytes: uint64(have + 1), HasQuotaBytes: true}
	do(s, storage.Op{Kind: storage.SetPolicy, Tube: name, Rare: &storage.Rare{Policy: quota}})
	for i, refused := range []bool{true, false} {
		a := do(s, storage.Op{Kind: storage.Put, Tube: name, TTR: 10, Body: make([]byte, 2-i)})
		if errors.Is(a.Err, storage.ErrNoSpace) != refused {
			t.Errorf("%s: %d bytes more than there are: %v", name, 2-i, a.Err)
		}
	}
	want = append(want, "\x00")
	var got []string
	for range 20 {
		if a := do(s, storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{name}}); a.ID != 0 {
			got = append(got, string(a.Body))
			do(s, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: a.ID})
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: bodies %q, want %q", name, got, want)
	}
}

// TestUpgradedMeanwhile: an instance that has read an older version does not fail if another one
// has upgraded the namespace since, whether that serves already or has ended again. It does fail
// beside an older instance.
func TestUpgradedMeanwhile(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	o := Options{URL: server.URL(), Namespace: "meanwhile", Partitions: 1, watchFor: briefWatch, Log: slog.New(slog.DiscardHandler)}
	s, err := Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := o
	elsewhere.Namespace = "elsewhere"
	late, err := Open(ctx, elsewhere) // for its link
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	u := &upgrade{link: late.parts[0].link, options: &o, node: client, name: "LATE1234", log: o.Log}
	begins := func(when string, fails bool) {
		t.Helper()
		mine, err := u.begin(ctx, olderVersion)
		if mine || errors.Is(err, errLayout) != fails {
			t.Errorf("%s: it upgrades: %v, %v", when, mine, err)
		}
	}
	begins("another one serves", false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	begins("another one has ended", false)
	client.ZAdd(ctx, u.key("instances"), goredis.Z{Score: float64(time.Now().UnixMilli()), Member: "ALIVE123"})
	client.HSet(ctx, u.key("layout"), "version", olderVersion)
	begins("an older one serves", true)
}
