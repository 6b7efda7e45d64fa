package redis

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// putLarge puts n jobs with bodies of so many bytes.
func putLarge(t *testing.T, s *Store, n, bytes int) {
	t.Helper()
	for range n {
		body := make([]byte, bytes)
		if a := do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Body: body}); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// takers starts a batch of n takes for each holder, all concurrently, and returns the answers.
func takers(s *Store, holders, n int) []storage.Answer {
	var all sync.WaitGroup
	var batches []*storage.Batch
	for h := range holders {
		ops := make([]storage.Op, n)
		for i := range ops {
			ops[i] = take(tube.Holder(h + 1))
		}
		all.Add(1)
		batches = append(batches, &storage.Batch{Ops: ops, Done: all.Done})
	}
	s.Do(batches...)
	all.Wait()
	var answers []storage.Answer
	for _, b := range batches {
		for i := range b.Ops {
			answers = append(answers, b.Ops[i].Answer)
		}
	}
	return answers
}

// TestLargeTakes: the size of a reply is limited, whoever has put the jobs; all are taken, each
// once.
func TestLargeTakes(t *testing.T) {
	t.Parallel()
	const jobs, size = 24, 1 << 20
	server := redistest.Start(t)
	putLarge(t, openAt(t, server.URL(), patient), jobs, size)
	s := openAt(t, server.URL(), patient)
	before := scriptCalls(t, server)
	seen := make(map[uint64]bool)
	for _, a := range takers(s, 4, 8) {
		switch {
		case a.Err != nil:
			t.Fatal(a.Err)
		case a.NotFound:
		case seen[a.ID], len(a.Body) != size:
			t.Errorf("job %d with %d bytes, got before: %v", a.ID, len(a.Body), seen[a.ID])
		default:
			seen[a.ID] = true
		}
	}
	if len(seen) != jobs {
		t.Errorf("%d jobs were taken, want %d", len(seen), jobs)
	}
	if n := scriptCalls(t, server) - before; n < jobs {
		t.Errorf("%d MiB came with %d calls", jobs, n)
	}
}

// TestSmallTakesBesideLarge: jobs of all sizes in one queue are taken in their order, and small
// ones many at once.
func TestSmallTakesBesideLarge(t *testing.T) {
	server := redistest.Start(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient, budget: 1000, noBodyCache: true})
	sizes := []int{10, 10, 900, 5000, 10, 10, 10, 300, 300, 300, 10, 2000, 2000, 10}
	for _, size := range sizes {
		putLarge(t, s, 1, size)
	}
	before := scriptCalls(t, server)
	for i, a := range takers(s, 1, len(sizes)+1) {
		if last := i == len(sizes); a.Err != nil || a.NotFound != last || !last && len(a.Body) != sizes[i] {
			t.Errorf("take %d: job %d with %d bytes, %v", i, a.ID, len(a.Body), a.Err)
		}
	}
	if n := scriptCalls(t, server) - before; n < 6 || n > 9 {
		t.Errorf("it took %d calls", n)
	}
}

// TestLargePeeks: peeks and reserve-job are cut like takes, and what follows them in their
// batch is done after them.
func TestLargePeeks(t *testing.T) {
	s := openWith(t, Options{URL: redistest.Start(t).URL(), Timeout: patient, budget: 1000})
	putLarge(t, s, 4, 800)
	peek := func(id uint64) storage.Op { return storage.Op{Kind: storage.Peek, ID: id} }
	head := storage.Op{Kind: storage.PeekHead, Tube: "t", State: tube.Ready}
	ops := []storage.Op{
		peek(1), peek(2), head, head,
		move(tube.ReserveJob, 1, 3), move(tube.ReserveJob, 1, 4), move(tube.Delete, 1, 3), move(tube.Delete, 2, 4),
		peek(3), take(1), move(tube.Release, 1, 1), head,
	}
	storage.DoWait(s, ops)
	want := []uint64{1, 2, 1, 1, 3, 4, 0, 0, 0, 1, 0, 1}
	for i := range ops {
		a := ops[i].Answer
		if a.Err != nil || a.ID != want[i] || want[i] != 0 && len(a.Body) != 800 || a.NotFound != (i == 7 || i == 8) {
			t.Errorf("operation %d: %+v", i, a)
		}
	}
}

// TestOthersBesideLargeTakes: a client that puts a small job need not wait until others have
// got all their large ones.
func TestOthersBesideLargeTakes(t *testing.T) {
	t.Parallel()
	const jobs = 60
	server := redistest.Start(t)
	putLarge(t, openAt(t, server.URL(), patient), jobs, 1<<20)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	taken := make(chan int64)
	calls := atomic.Int64{}
	begun := make(chan bool)
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) && calls.Add(1) == 3 {
			close(begun)
		}
		return redistest.Pass
	}, nil)
	go func() {
		takers(s, 4, jobs/4)
		taken <- calls.Load()
	}()
	<-begun
	if a := do(s, put("small")); a.Err != nil {
		t.Fatal(a.Err)
	}
	at := calls.Load()
	if all := <-taken; at > all/2 {
		t.Errorf("the put was answered after %d of %d calls", at, all)
	}
}

// TestSlowLine: a reply can take longer than the timeout of an attempt, as long as it keeps
// arriving. It is tried again, because a busy machine can interrupt it.
func TestSlowLine(t *testing.T) {
	t.Parallel()
	const tries = 5
	for try := range tries {
		calls, silent := slowLine(t)
		if calls == 2 {
			return
		}
		if silent < longestAttempt/2 && busy.Factor() < 2 || try == tries-1 {
			t.Fatalf("%d calls were sent, want 2; nothing came for %v at most", calls, silent)
		}
	}
}

// slowLine takes a job by a slow line and puts one. It returns how many calls were sent, and for
// how long nothing was passed on, at most.
func slowLine(t *testing.T) (sent int64, silent time.Duration) {
	t.Helper()
	const size = 2 << 20
	server := redistest.Start(t)
	putLarge(t, openAt(t, server.URL(), patient), 1, size)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	calls, begun := atomic.Int64{}, time.Now()
	var mu sync.Mutex // guards the two
	longest, last := time.Duration(0), begun
	slowly := func(piece []byte) redistest.Fate {
		if isCall(piece) {
			calls.Add(1)
		}
		time.Sleep(longestAttempt * time.Duration(len(piece)) / (size * 2 / 3))
		mu.Lock()
		defer mu.Unlock()
		longest, last = max(longest, time.Since(last)), time.Now()
		return redistest.Pass
	}
	proxy.Intercept(slowly, slowly)
	if a := do(s, take(1)); a.Err != nil || len(a.Body) != size {
		t.Errorf("%d bytes, %v", len(a.Body), a.Err)
	}
	if took := time.Since(begun); took < longestAttempt {
		t.Errorf("the line is not slow: %v", took)
	}
	if a := do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: make([]byte, size)}); a.Err != nil {
		t.Error(a.Err)
	}
	mu.Lock()
	defer mu.Unlock()
	return calls.Load(), longest
}

// TestSlowLineBehindSmaller: the reply to an earlier command does not end the time limit of the
// rest.
func TestSlowLineBehindSmaller(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	proxy := redistest.NewProxy(t, redistest.Start(t))
	s := openAt(t, proxy.URL(), patient)
	do(s, put("x"))
	var calls, staged atomic.Int64
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isStaging(piece) {
			staged.Add(1)
		}
		if isCall(piece) {
			calls.Add(1)
		}
		if len(piece) > 100<<10 || staged.Load() == 0 { // the first record comes at once
			time.Sleep(longestAttempt * time.Duration(len(piece)) / (size * 2 / 3))
		}
		return redistest.Pass
	}, nil)
	ops := []storage.Op{putBody(bodyOf('a', 20_000)), putBody(bodyOf('b', size))}
	storage.DoWait(s, ops)
	if ops[0].Answer.Err != nil || ops[1].Answer.Err != nil || calls.Load() != 1 || staged.Load() != 1 {
		t.Errorf("%v, %v; %d calls, staged %d times", ops[0].Answer.Err, ops[1].Answer.Err, calls.Load(), staged.Load())
	}
}

// TestVoidBringsNoBodies: after clients were answered with an error, the question about the
// outcome of their batch does not return the bodies of its jobs again and again.
func TestVoidBringsNoBodies(t *testing.T) {
	t.Parallel()
	const jobs, size = 8, 100 << 10
	server := redistest.Start(t)
	putLarge(t, openAt(t, server.URL(), patient), jobs, size)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), hasty)
	var given atomic.Bool // up
	var behind atomic.Int64
	proxy.Intercept(nil, func(piece []byte) redistest.Fate {
		if given.Load() {
			behind.Add(int64(len(piece)))
			return redistest.Pass
		}
		if bytes.HasPrefix(piece, []byte("*")) && !bytes.HasPrefix(piece, []byte("*-1")) {
			return redistest.Cut
		}
		return redistest.Pass
	})
	for _, a := range takers(s, 1, jobs) {
		if !errors.Is(a.Err, storage.ErrUnavailable) {
			t.Fatalf("%d: %v", a.ID, a.Err)
		}
	}
	given.Store(true)
	awaitReserved(t, s, 0)
	if n := behind.Load(); n > size {
		t.Errorf("%d bytes came to find out what became of it", n)
	}
	if got := figures(t, s); got.Ready != jobs {
		t.Errorf("%+v", got)
	}
}
