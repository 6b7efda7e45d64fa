package redis

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// lines is what a store has logged. It is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) has(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.all.String(), words)
}

// errorLog is a log of what an operator has to do something about.
func (l *lines) errorLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelError}))
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(patient); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
	}
}

// logged opens a store that logs its errors to lines.
func logged(t *testing.T, o Options) (*Store, *lines) {
	t.Helper()
	l := &lines{}
	o.Log = l.errorLog()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Listen(nopListener{})
	t.Cleanup(func() { s.Close() })
	return s, l
}

// TestEvictionLater: after meeting a Redis that deletes jobs when its memory is full, nothing
// is put there, and the reason is logged; everything else works.
func TestEvictionLater(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		s, log := logged(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient})
		first := do(s, put("x"))
		server.Kill()
		server.SetLater("--maxmemory-policy", "allkeys-lru")
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		do(s, storage.Op{Kind: storage.Peek, ID: first.ID}) // meets it: a put that the old process may have carried out would be repeated
		if a := do(s, put("y")); !errors.Is(a.Err, storage.ErrNoSpace) {
			t.Errorf("%d partitions, put: %s", partitions, show(&a))
		}
		if a := do(s, take(1)); a.Err != nil || a.ID != first.ID {
			t.Errorf("%d partitions, take: %s", partitions, show(&a))
		}
		if a := do(s, move(tube.Delete, 1, first.ID)); a.Err != nil || a.NotFound {
			t.Errorf("%d partitions, delete: %s", partitions, show(&a))
		}
		if !log.has("maxmemory-policy=allkeys-lru") {
			t.Errorf("%d partitions: the log does not name the policy", partitions)
		}
	}
}

// TestEvictionSet: a policy that is changed while Redis runs is noticed, and the change back
// too.
func TestEvictionSet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	o := Options{URL: server.URL(), Timeout: patient, inspectEvery: 10 * time.Millisecond}
	s, log := logged(t, o)
	o.AllowEviction = true
	allowed, _ := logged(t, o)
	client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lfu")
	eventually(t, "puts are refused", func() bool { return errors.Is(do(s, put("x")).Err, storage.ErrNoSpace) })
	if a := do(allowed, put("x")); a.Err != nil || !log.has("maxmemory-policy=allkeys-lfu") {
		t.Errorf("where it is allowed: %s", show(&a))
	}
	client.ConfigSet(t.Context(), "maxmemory-policy", "volatile-lru")
	eventually(t, "puts go on", func() bool { return do(s, put("x")).Err == nil })
}

// TestEvictionIsLogged: evicted keys are logged once, with their number; those of a volatile policy are not, as they are no jobs. While
// the policy evicts jobs, the report says that none are put.
func TestEvictionIsLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	set := func(name, value string) {
		if err := client.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s, log := logged(t, Options{URL: server.URL(), Timeout: patient, Partitions: 2, inspectEvery: 10 * time.Millisecond})
	set("maxmemory-policy", "volatile-ttl")
	fill := func(expiry time.Duration) {
		for i := range 2000 {
			client.Set(ctx, fmt.Sprint("other", i), strings.Repeat("x", 2000), expiry)
		}
	}
	fill(time.Hour)
	set("maxmemory", "2mb")
	eventually(t, "keys are evicted", func() bool { return conn.InfoValue(client.Info(ctx).Val(), "evicted_keys") != "0" })
	set("maxmemory", "0")
	s.recheck(ctx, evictions{})
	if s.Report().Refusing != nil || log.has("evicted") {
		t.Errorf("under a volatile policy: %v", s.Report().Refusing)
	}
	set("maxmemory-policy", "allkeys-random")
	eventually(t, "puts are refused", func() bool { return errors.Is(s.Report().Refusing, storage.ErrNoSpace) })
	fill(0)
	set("maxmemory", "2mb")
	eventually(t, "it is logged", func() bool { return log.has("Redis has evicted keys") && log.has("fsck") })
	set("maxmemory", "0")
	set("maxmemory-policy", "noeviction")
	eventually(t, "puts go on", func() bool { return s.Report().Refusing == nil && do(s, put("x")).Err == nil })
}

// TestLargestBody: a job with the largest body that Redis takes is not refused, however it comes.
func TestLargestBody(t *testing.T) {
	for n, want := range map[int]bool{10: false, 11: true} {
		body, schedule := make([]byte, n), &tube.Schedule{Body: make([]byte, n)}
		for _, op := range []storage.Op{
			{Kind: storage.Put, Body: body},
			{Kind: storage.SetSchedule, Args: &storage.Args{Schedule: schedule}},
			{Kind: storage.PutScheduled, Body: body, Args: &storage.Args{Schedule: &tube.Schedule{}}},
			{Kind: storage.ImportJobs, Args: &storage.Args{Import: &storage.Import{Jobs: []storage.ImportJob{{Body: body}}}}},
		} {
			if got := (&call{body: 10}).isTooLarge(&op); got != want {
				t.Errorf("%v of %d bytes: %v", op.Kind, n, got)
			}
		}
	}
}

// TestTooLargeForRedis: the put of a job that Redis does not accept is refused, and no other
// client is held up, whether the setting was known, is detected, or cannot be read.
func TestTooLargeForRedis(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args       []string
		set        []any
		partitions int
	}{
		"known":      {args: []string{"--proto-max-bulk-len", "1mb"}},
		"buffer":     {args: []string{"--client-query-buffer-limit", "1mb"}},
		"set":        {set: []any{"config", "set", "proto-max-bulk-len", "1mb"}},
		"not to ask": {args: []string{"--proto-max-bulk-len", "1mb", "--rename-command", "CONFIG", ""}},
		"partitions": {args: []string{"--proto-max-bulk-len", "1mb"}, partitions: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, tc.args...)
			s := openWith(t, Options{URL: server.URL(), Timeout: 4 * patient, Partitions: tc.partitions})
			if tc.set != nil {
				if err := server.Client(t).Do(t.Context(), tc.set...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for _, size := range []int{5 << 20, 1 << 20} {
				begun := time.Now()
				batches := []*storage.Batch{
					{Ops: []storage.Op{put("small"), putBody(make([]byte, size)), {Kind: storage.Peek, ID: 1 << 40}}}, {Ops: []storage.Op{putBody(make([]byte, size)), putBody(make([]byte, 500_000))}},
				}
				var all sync.WaitGroup
				all.Add(len(batches))
				for _, b := range batches {
					b.Done = all.Done
				}
				s.Do(batches...)
				all.Wait()
				for _, op := range []*storage.Op{&batches[0].Ops[1], &batches[1].Ops[0]} {
					if !errors.Is(op.Answer.Err, storage.ErrTooBig) {
						t.Errorf("%d bytes: %s", size, show(&op.Answer))
					}
				}
				for _, op := range []*storage.Op{&batches[0].Ops[0], &batches[1].Ops[1]} {
					if op.Answer.Err != nil {
						t.Errorf("beside %d bytes: %s", size, show(&op.Answer))
					}
				}
				if took := time.Since(begun); took > patient {
					t.Errorf("%d bytes: it took %v", size, took)
				}
			}
		})
	}
}

// TestForbiddenLater: if a command is forbidden while the engine runs, only the first script
// fails halfway; and everything works when it is allowed again.
func TestForbiddenLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	rules := func(words ...any) {
		if err := client.Do(t.Context(), append([]any{"acl", "setuser", "u"}, words...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rules("on", ">p", "~*", "+@all")
	s, log := logged(t, Options{URL: "redis://u:p@" + server.Addr + "/0", Timeout: hasty})
	rules("-zadd")
	for range 2 {
		if a := do(s, put("x")); !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("without ZADD: %s", show(&a))
		}
	}
	if !log.has("user of Redis: ZADD") {
		t.Error("the log does not name ZADD")
	}
	rules("+zadd")
	if a := do(s, put("y")); a.Err != nil {
		t.Errorf("with ZADD: %s", show(&a))
	}
}
