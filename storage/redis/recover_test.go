package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// patient and hasty are timeouts: one that outlasts every failure in these tests, and one that
// none does.
const (
	patient = 20 * time.Second
	hasty   = 800 * time.Millisecond
)

func openAt(t *testing.T, url string, timeout time.Duration) *Store {
	t.Helper()
	return openWith(t, Options{URL: url, Timeout: timeout})
}

// openWith opens a store on a reachable Redis. It tries again, because a busy machine can
// exceed a short timeout.
func openWith(t *testing.T, o Options) *Store {
	t.Helper()
	return openListening(t, o, nopListener{})
}

// openListening does that with a listener.
func openListening(t *testing.T, o Options, l storage.Listener) *Store {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	s, err := Open(context.Background(), o)
	for tries := 0; tries < 10 && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)); tries++ {
		s, err = Open(context.Background(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Listen(l)
	t.Cleanup(func() { s.Close() })
	return s
}

// do carries out one operation.
func do(s *Store, op storage.Op) storage.Answer {
	ops := []storage.Op{op}
	storage.DoWait(s, ops)
	return ops[0].Answer
}

func put(body string) storage.Op {
	return storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Body: []byte(body)}
}

func take(h tube.Holder) storage.Op {
	return storage.Op{Kind: storage.Take, Holder: h, Tubes: []string{"t"}}
}

func move(m tube.Move, h tube.Holder, id uint64) storage.Op {
	return storage.Op{Kind: storage.Move, Move: m, Holder: h, ID: id}
}

// figures asks for the totals, again while that fails.
func figures(t *testing.T, s *Store) tube.Totals {
	t.Helper()
	for range 200 {
		if a := do(s, storage.Op{Kind: storage.Stats}); a.Err == nil {
			return a.Stats.Totals
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the store does not recover")
	panic("unreachable")
}

// awaitReserved waits until so many jobs are reserved.
func awaitReserved(t *testing.T, s *Store, want uint64) {
	t.Helper()
	for range 200 {
		if figures(t, s).Reserved == want {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("%d jobs are reserved, want %d", figures(t, s).Reserved, want)
}

// assumeAlive makes a store declare silent instances dead, like a store that has run for long
// and was never held up. On a busy machine its last heartbeat can be too old for that.
func assumeAlive(s *Store) {
	p := s.parts[0]
	p.do(p.encodeHeartbeat)
	p.do(func(*call) {
		p.heartbeat.doubt(time.Time{})
		p.heartbeat.last = time.Time{}
	})
}

// isCall matches calls of the script that carry operations.
func isCall(piece []byte) bool {
	return bytes.Contains(piece, []byte("evalsha")) && !bytes.Contains(piece, []byte(keepaliveScript().Hash()))
}

// once returns a judge that gives the n-th piece that matches a fate.
func once(fate redistest.Fate, n int64, matches func([]byte) bool) func([]byte) redistest.Fate {
	var seen atomic.Int64
	return func(piece []byte) redistest.Fate {
		if matches(piece) && seen.Add(1) == n {
			return fate
		}
		return redistest.Pass
	}
}

// breaks are the moments at which a connection can break under a call.
var breaks = map[string]func(p *redistest.Proxy){
	"before the request": func(p *redistest.Proxy) { p.Break() },
	"in the request":     func(p *redistest.Proxy) { p.Intercept(once(redistest.Cut, 1, isCall), nil) },
	"behind the request": func(p *redistest.Proxy) { p.Intercept(once(redistest.Last, 1, isCall), nil) },
	"before the answer":  func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Cut, 1, isAnswer)) },
	"no answer":          func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Drop, 1, isAnswer)) },
}

// isAnswer distinguishes replies of the script, which are lists, from the empty ones of wake-up
// reads, and from the greeting of a new connection. Replies to staged records can precede them.
func isAnswer(piece []byte) bool {
	const ok = "+OK\r\n"
	for len(piece) > len(ok) && bytes.HasPrefix(piece, []byte(ok)) {
		piece = piece[len(ok):]
	}
	return piece[0] == '*' && !bytes.HasPrefix(piece, []byte("*-1")) && !bytes.Contains(piece, []byte("\r\nserver\r\n"))
}

// TestBrokenOnce breaks the connection at every moment of every operation: each is carried out
// once, and answered as usual.
func TestBrokenOnce(t *testing.T) {
	t.Parallel()
	for name, brk := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, redistest.Start(t))
			s := openAt(t, proxy.URL(), patient)
			broken := func(op storage.Op) storage.Answer {
				t.Helper()
				brk(proxy)
				a := do(s, op)
				proxy.Intercept(nil, nil)
				if a.Err != nil || a.NotFound {
					t.Fatalf("%v: %+v", op.Kind, a)
				}
				return a
			}
			for id := uint64(1); id <= 3; id++ {
				if a := broken(put("body")); a.ID != id {
					t.Fatalf("put job %d, want %d", a.ID, id)
				}
			}
			for id := uint64(1); id <= 3; id++ {
				if a := broken(take(1)); a.ID != id || string(a.Body) != "body" {
					t.Fatalf("took job %d, %q, want %d", a.ID, a.Body, id)
				}
			}
			broken(move(tube.Release, 1, 1))
			broken(move(tube.Bury, 1, 2))
			broken(move(tube.Delete, 1, 3))
			broken(storage.Op{Kind: storage.Kick, Tube: "t", MaxJobs: 9})
			got := figures(t, s)
			want := tube.Totals{Urgent: 2, Ready: 2, Jobs: 3, Tubes: 2}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestUndeliveredAreGivenBack: clients time out while Redis is down, and the reply of a batch
// that was carried out is lost for good: jobs that were reserved for them are given back, and
// jobs that they put exist once.
func TestUndeliveredAreGivenBack(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t))
	s := openAt(t, proxy.URL(), hasty)
	for range 3 {
		do(s, put("x"))
	}
	proxy.Intercept(nil, func(piece []byte) redistest.Fate {
		if isAnswer(piece) || piece[0] == '-' {
			return redistest.Cut
		}
		return redistest.Pass
	})
	begun := time.Now()
	ops := []storage.Op{put("y"), take(1), take(1)}
	storage.DoWait(s, ops)
	for i := range ops {
		if !errors.Is(ops[i].Answer.Err, storage.ErrUnavailable) {
			t.Errorf("operation %d: %+v", i, ops[i].Answer)
		}
	}
	if took := time.Since(begun); took < hasty || took > patient {
		t.Errorf("gave up after %v, want %v", took, hasty)
	}
	if a := do(s, take(2)); !errors.Is(a.Err, storage.ErrUnavailable) {
		t.Errorf("while Redis is away: %+v", a)
	}
	proxy.Intercept(nil, nil)
	awaitReserved(t, s, 0)
	if got := figures(t, s); got.Jobs != 4 || got.Ready != 4 {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestNeverSent: clients time out while Redis cannot be reached: none of their operations is
// carried out later, except that their connections end, whether their batch was under way or
// waiting.
func TestNeverSent(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]bool{"under way": true, "behind": false} {
		t.Run(name, func(t *testing.T) { testNeverSent(t, first) })
	}
}

func testNeverSent(t *testing.T, first bool) {
	proxy := redistest.NewProxy(t, redistest.Start(t))
	s := openAt(t, proxy.URL(), hasty)
	ref := func(delta int) storage.Op {
		return storage.Op{Kind: storage.Ref, Role: tube.Watching, Delta: delta, Tubes: []string{"t", "gone"}}
	}
	do(s, ref(1))
	do(s, put("x"))
	if a := do(s, take(1)); a.ID != 1 {
		t.Fatalf("%+v", a)
	}
	fails := func(ops ...storage.Op) {
		t.Helper()
		if storage.DoWait(s, ops); !errors.Is(ops[0].Answer.Err, storage.ErrUnavailable) {
			t.Errorf("%+v", ops[0].Answer)
		}
	}
	proxy.Refuse(true)
	if first {
		fails(storage.Op{Kind: storage.ReleaseAll, Holder: 1}, ref(-1))
		fails(put("y"))
	} else {
		fails(put("y"))
		fails(storage.Op{Kind: storage.ReleaseAll, Holder: 1}, ref(-1))
	}
	if _, err := s.Tick(); err == nil {
		t.Error("a tick without Redis")
	}
	proxy.Refuse(false)
	awaitReserved(t, s, 0)
	sizesOK := true
	for i := 0; i < 100 && sizesOK; i++ {
		s.Tick()
		sizesOK = !do(s, storage.Op{Kind: storage.TubeStats, Tube: "gone"}).NotFound
		time.Sleep(20 * time.Millisecond)
	}
	if got, want := figures(t, s), (tube.Totals{Urgent: 1, Ready: 1, Jobs: 1, Tubes: 2}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestStoppedServer stops Redis for longer than the timeout. When it continues it carries out
// what it finds on its connections, all attempts of it.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openAt(t, server.URL(), hasty)
	do(s, put("x"))
	server.Stop()
	results := make(chan storage.Answer, 3)
	for _, op := range []storage.Op{put("y"), take(1), put("z")} {
		go func() { results <- do(s, op) }()
	}
	for range 3 {
		if a := <-results; !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Errorf("%+v", a)
		}
	}
	server.Continue()
	awaitReserved(t, s, 0)
	got := figures(t, s)
	seen := make(map[string]bool)
	for a := do(s, take(2)); !a.NotFound; a = do(s, take(2)) {
		if seen[string(a.Body)] {
			t.Errorf("job %s is there twice", a.Body)
		}
		seen[string(a.Body)] = true
	}
	if !seen["x"] || got.Jobs != got.Ready || len(seen) != int(got.Jobs) {
		t.Errorf("afterwards: %+v, %v", got, seen)
	}
}

// TestPassingErrors: operations are held up while Redis refuses them temporarily.
func TestPassingErrors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	ctx := context.Background()
	s := openAt(t, server.URL(), patient)
	refusals := map[string]struct{ begin, end []any }{
		"NOSCRIPT":   {[]any{"script", "flush"}, []any{"ping"}},
		"NOREPLICAS": {[]any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}},
		"READONLY":   {[]any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
		"pause":      {[]any{"client", "pause", "1500"}, nil},
	}
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			before := figures(t, s)
			if err := client.Do(ctx, refusal.begin...).Err(); err != nil {
				t.Fatal(err)
			}
			done := make(chan storage.Answer, 1)
			go func() { done <- do(s, put(name)) }()
			time.Sleep(200 * time.Millisecond)
			if refusal.end != nil {
				if err := client.Do(ctx, refusal.end...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if a := <-done; a.Err != nil {
				t.Errorf("%+v", a)
			}
			if got := figures(t, s); got.Jobs != before.Jobs+1 || got.Ready != before.Ready+1 {
				t.Errorf("before %+v, after %+v", before, got)
			}
		})
	}
}

// TestFull: without memory Redis accepts no jobs, and everything else works, also in the same
// batch.
func TestFull(t *testing.T) {
	server := redistest.Start(t)
	ctx, client := context.Background(), server.Client(t)
	s := openAt(t, server.URL(), patient)
	for range 4 {
		do(s, put("x"))
	}
	storage.DoWait(s, []storage.Op{take(1), take(1), take(1)})
	if err := client.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	ops := []storage.Op{put("y"), move(tube.Release, 1, 1), put("z"), move(tube.Bury, 1, 2), move(tube.Delete, 1, 3), take(2)}
	storage.DoWait(s, ops)
	for i, op := range ops {
		if op.Kind == storage.Put {
			if !errors.Is(op.Answer.Err, storage.ErrNoSpace) {
				t.Errorf("put: %+v", op.Answer)
			}
		} else if op.Answer.Err != nil || op.Answer.NotFound {
			t.Errorf("operation %d: %+v", i, op.Answer)
		}
	}
	if a := do(s, put("alone")); !errors.Is(a.Err, storage.ErrNoSpace) {
		t.Errorf("put: %+v", a)
	}
	if a := do(s, move(tube.Touch, 2, 1)); a.Err != nil || a.NotFound {
		t.Errorf("touch: %+v", a)
	}
	if err := s.parts[0].do(s.parts[0].encodeHeartbeat); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	if err := client.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if got, want := figures(t, s), (tube.Totals{Urgent: 1, Ready: 1, Reserved: 1, Buried: 1, Jobs: 4, Tubes: 2}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if a := do(s, put("again")); a.Err != nil || a.ID != 5 {
		t.Errorf("put when there is memory again: %+v", a)
	}
}

// TestOpenFull: an instance starts on a Redis without memory, whether its namespace is in use
// or new. Puts are refused, and everything else works: jobs of a dead instance are given back,
// jobs are processed, keepalives are sent, faults are repaired. When there is memory again jobs
// are put.
func TestOpenFull(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		for name, used := range map[string]bool{"in use": true, "new": false} {
			t.Run(fmt.Sprint(name, partitions), func(t *testing.T) {
				t.Parallel()
				testOpenFull(t, partitions, used)
			})
		}
	}
}

func testOpenFull(t *testing.T, partitions int, used bool) {
	server := redistest.Start(t)
	ctx, client := context.Background(), server.Client(t)
	var ahead atomic.Int64
	o := Options{
		URL: server.URL(), Partitions: partitions, Timeout: patient, Version: "1",
		skew: func() time.Duration { return time.Duration(ahead.Load()) },
	}
	if used {
		dead := openWith(t, o)
		do(dead, put("x"))
		do(dead, put("y"))
		do(dead, take(1))
		dead.crash()
	}
	client.ConfigSet(ctx, "maxmemory", "1")
	s, other := openWith(t, o), openWith(t, o)
	if versions := client.HLen(ctx, "redstalk:{0}:versions").Val(); versions < 2 {
		t.Errorf("the versions of %d instances are known", versions)
	}
	for tries := 0; used && tries < 10 && figures(t, s).Reserved > 0; tries++ {
		ahead.Add(int64(schema.HeartbeatTimeout + schema.SlowCall))
		s.TickAll()
	}
	for _, s := range []*Store{s, other} {
		if a := do(s, put("z")); !errors.Is(a.Err, storage.ErrNoSpace) {
			t.Errorf("put: %+v", a)
		}
		if err := s.keepalives[0].send(ctx); err != nil {
			t.Errorf("a heartbeat beside a call: %v", err)
		}
		if a := do(s, take(1)); a.Err != nil || a.NotFound == used {
			t.Errorf("take: %+v", a)
		} else if used {
			if a := do(s, move(tube.Delete, 1, a.ID)); a.Err != nil || a.NotFound {
				t.Errorf("delete: %+v", a)
			}
		}
		policy := &tube.Policy{QuotaJobs: 9, HasQuotaJobs: true}
		if a := do(s, storage.Op{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: policy}}); a.Err != nil {
			t.Errorf("a policy: %+v", a)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	client.ConfigSet(ctx, "maxmemory", "0")
	client.HSet(ctx, "redstalk:{0}:counts", "urgent", "7")
	client.ConfigSet(ctx, "maxmemory", "1")
	for _, repair := range []bool{true, false} {
		faults := 0
		if _, err := fsck.Check(ctx, fsckOptions(o), repair, fsck.Report{Found: func(int, string) { faults++ }}); err != nil || repair != (faults > 0) {
			t.Errorf("fsck, repairing %v: %d faults, %v", repair, faults, err)
		}
	}
	client.ConfigSet(ctx, "maxmemory", "0")
	if a := do(openWith(t, o), put("again")); a.Err != nil {
		t.Errorf("put when there is memory again: %+v", a)
	}
}

// TestLostData: Redis comes back empty. The instance continues as a new one.
func TestLostData(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	do(s, storage.Op{Kind: storage.Ref, Role: tube.Using, Delta: 1, Tubes: []string{"mine"}})
	do(s, put("x"))
	do(s, take(1))
	if err := server.Client(t).FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	a := do(s, put("y"))
	if a.Err != nil || a.ID <= 1 {
		t.Errorf("%+v", a) // the id 1 is known to clients
	}
	if got := do(s, take(2)); got.ID != a.ID || string(got.Body) != "y" {
		t.Errorf("%+v", got)
	}
	if a := do(s, storage.Op{Kind: storage.TubeStats, Tube: "mine"}); a.NotFound {
		t.Error("a tube that is used is not there")
	}
}

// TestRestart restarts Redis, which keeps everything, under load: every acknowledged put exists
// once, and nothing stays reserved.
func TestRestart(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	const workers, each = 8, 40
	results := make(chan map[string]bool, workers)
	for w := range workers {
		go func() {
			mine := make(map[string]bool)
			for i := range each {
				body := fmt.Sprintf("%d/%d", w, i)
				if a := do(s, put(body)); a.Err == nil {
					mine[body] = true
				}
				if a := do(s, take(tube.Holder(w+1))); a.Err == nil && !a.NotFound && i%2 == 0 {
					do(s, move(tube.Release, tube.Holder(w+1), a.ID))
				}
				time.Sleep(2 * time.Millisecond)
			}
			results <- mine
		}()
	}
	for range 4 {
		time.Sleep(30 * time.Millisecond)
		proxy.Break()
	}
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(map[string]bool)
	for range workers {
		for body := range <-results {
			acknowledged[body] = true
		}
	}
	for w := range workers {
		do(s, storage.Op{Kind: storage.ReleaseAll, Holder: tube.Holder(w + 1)})
	}
	awaitReserved(t, s, 0)
	seen := make(map[string]int)
	for {
		a := do(s, take(1))
		if a.NotFound || a.Err != nil {
			break
		}
		seen[string(a.Body)]++
	}
	for body := range acknowledged {
		if seen[body] != 1 {
			t.Errorf("job %s was put and is there %d times", body, seen[body])
		}
	}
	if len(seen) != workers*each {
		t.Errorf("%d jobs are there, want %d", len(seen), workers*each)
	}
}
