package redis

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// putSized puts a job of that many bytes into a tube.
func putSized(t *testing.T, s *Store, name string, bytes int) uint64 {
	t.Helper()
	a := do(s, storage.Op{Kind: storage.Put, Tube: name, TTR: 600, Body: make([]byte, bytes)})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return a.ID
}

func takeOf(h tube.Holder, names ...string) storage.Op {
	return storage.Op{Kind: storage.Take, Holder: h, Tubes: names}
}

// TestCutInTheMiddle: if one reply cannot return everything that a batch requests, what would
// still fit after the gap waits as well. Nothing is reserved for a connection that does not get
// it.
func TestCutInTheMiddle(t *testing.T) {
	for name, ops := range map[string][]storage.Op{
		"reserve-job": {move(tube.ReserveJob, 1, 1), move(tube.ReserveJob, 1, 2), move(tube.ReserveJob, 1, 3)},
		"tubes":       {takeOf(1, "a"), takeOf(1, "b"), takeOf(1, "c")},
		"many tubes":  {takeOf(1, "a", "x"), takeOf(1, "b", "x"), takeOf(1, "c", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			s := openWith(t, Options{URL: server.URL(), Timeout: patient, budget: 1000, noBodyCache: true})
			putSized(t, s, "a", 100)
			putSized(t, s, "b", 900)
			putSized(t, s, "c", 100)
			putSized(t, s, "c", 100)
			storage.DoWait(s, ops)
			for i := range ops {
				if a := ops[i].Answer; a.Err != nil || a.ID != uint64(i+1) {
					t.Errorf("operation %d: %+v", i, a)
				}
			}
			if n := figures(t, s).Reserved; n != 3 {
				t.Errorf("%d jobs are reserved, and the connection got 3", n)
			}
		})
	}
}

// cutReplies loses the replies of Redis from the n-th call of the script on.
func cutReplies(proxy *redistest.Proxy, from int64) {
	var calls atomic.Int64
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) && bytes.Contains(piece, []byte("\r\ntake\r\n")) && calls.Add(1) >= from {
			return redistest.Cut
		}
		return redistest.Pass
	}, func(piece []byte) redistest.Fate {
		if calls.Load() >= from {
			return redistest.Cut
		}
		return redistest.Pass
	})
}

// TestCutAndGivenUp: what the first calls of a batch have reserved is given back if its client
// is answered with an error in a later call.
func TestCutAndGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	putLarge(t, openAt(t, server.URL(), patient), 4, 800)
	proxy := redistest.NewProxy(t, server)
	s := openWith(t, Options{URL: proxy.URL(), Timeout: hasty, budget: 1000})
	cutReplies(proxy, 3)
	for i, a := range takers(s, 1, 4) {
		if a.Err == nil {
			t.Errorf("take %d: %+v", i, a)
		}
	}
	proxy.Intercept(nil, nil)
	awaitReserved(t, s, 0)
}

// TestCutAndDeclaredDead: what the first calls of a batch have reserved is not handed out if
// other instances have declared this one dead before the last call.
func TestCutAndDeclaredDead(t *testing.T) {
	lt := newLeaseSetTest(t)
	proxy := redistest.NewProxy(t, lt.redis)
	s := openWith(t, Options{
		URL: proxy.URL(), Timeout: patient, budget: 1000,
		skew: func() time.Duration { return time.Duration(lt.ahead.Load()) },
	})
	putLarge(t, lt.s, 3, 800)
	assumeAlive(lt.s)
	var calls atomic.Int64
	var other atomic.Uint64
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) && bytes.Contains(piece, []byte("\r\ntake\r\n")) && calls.Add(1) == 2 {
			lt.ahead.Add(int64(10 * time.Second))
			lt.s.Tick()
			awaitReserved(t, lt.s, 0)
			other.Store(do(lt.s, take(7)).ID)
		}
		return redistest.Pass
	}, nil)
	ops := []storage.Op{take(1), take(1)}
	storage.DoWait(s, ops)
	if other.Load() != 1 {
		t.Fatalf("the other instance got job %d", other.Load())
	}
	for i := range ops {
		if a := ops[i].Answer; a.ID == other.Load() {
			t.Errorf("take %d: job %d was given to two", i, a.ID)
		}
	}
}

// TestLargeTakeBesideOtherReads: a client takes a job as large as a whole reply although others
// peek at small jobs all the time.
func TestLargeTakeBesideOtherReads(t *testing.T) {
	s := openWith(t, Options{URL: redistest.Start(t).URL(), Timeout: patient, budget: 1000, noBodyCache: true})
	putSized(t, s, "small", 10)
	putSized(t, s, "t", 990)
	ctx, stop := context.WithCancel(context.Background())
	var lookers sync.WaitGroup
	for range 64 {
		lookers.Go(func() {
			for ctx.Err() == nil {
				do(s, storage.Op{Kind: storage.Peek, ID: 1})
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	got := make(chan storage.Answer, 1)
	begun := time.Now()
	go func() { got <- do(s, take(1)) }()
	select {
	case a := <-got:
		t.Logf("after %v", time.Since(begun))
		if a.ID != 2 {
			t.Errorf("%+v", a)
		}
	case <-time.After(patient):
		t.Errorf("nothing for %v", patient)
	}
	stop()
	lookers.Wait()
}

// TestVoidPuts: a put that was answered with an error, and not carried out, has neither told
// Redis the size of its record nor advanced the ids.
func TestVoidPuts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), hasty)
	p := s.parts[0]
	do(s, put("x"))
	p.do(func(*call) {
		p.ids.skipping = true
		p.ids.order.saw(1000)
	})
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) {
			return redistest.Cut
		}
		return redistest.Pass
	}, nil)
	if a := do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: make([]byte, 5000)}); a.Err == nil {
		t.Fatalf("%+v", a)
	}
	proxy.Intercept(nil, nil)
	for range 100 {
		if figures(t, s); !p.failing.Load() {
			break
		}
	}
	a := do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: make([]byte, 5000)})
	if a.Err != nil || a.ID <= 1000 {
		t.Errorf("job %d, %v: want one beyond 1000", a.ID, a.Err)
	}
	if n, _ := server.Client(t).HGet(context.Background(), "redstalk:{0}:counts", "largest").Int(); n < 5000 {
		t.Errorf("no record has more than %d bytes, Redis thinks", n)
	}
}

// TestLoadedWhileConfirming: units that arrive while a paused instance asks whether it is alive
// are carried out, even if nothing follows them.
func TestLoadedWhileConfirming(t *testing.T) {
	var ahead atomic.Int64
	var armed atomic.Bool
	var s *Store
	answered := make(chan storage.Answer, 1)
	o := Options{Timeout: patient}
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	o.URL = proxy.URL()
	o.skew = func() time.Duration {
		if ahead.Load() > 0 && armed.CompareAndSwap(true, false) {
			go func() { answered <- do(s, put("late")) }()
			for queued := false; !queued; time.Sleep(time.Millisecond) {
				s.parts[0].inbox.mu.Lock()
				queued = len(s.parts[0].inbox.queue) > 0
				s.parts[0].inbox.mu.Unlock()
			}
		}
		return time.Duration(ahead.Load())
	}
	s = openWith(t, o)
	do(s, put("x"))
	between(proxy, "take", func() {
		ahead.Store(int64(10 * time.Second))
		time.Sleep(10 * time.Millisecond)
	})
	armed.Store(true)
	took := make(chan storage.Answer, 1)
	s.DoPolling(func(bool) int { return 0 }, &storage.Batch{Ops: []storage.Op{take(1)}, Done: func() { took <- storage.Answer{} }})
	<-took
	select {
	case a := <-answered:
		if a.ID != 2 {
			t.Errorf("%+v", a)
		}
	case <-time.After(patient):
		t.Errorf("not answered for %v", patient)
	}
}

// TestOthersBesideWideTakes: a put need not wait until a connection that watches very many
// tubes has had all its takes, for any number of partitions.
func TestOthersBesideWideTakes(t *testing.T) {
	const takes = 100
	for _, partitions := range []int{1, 2} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server)
			s := openWith(t, Options{URL: proxy.URL(), Partitions: partitions, Timeout: patient})
			var all []string
			for _, name := range names(5 * maxTubes) {
				if schema.PartitionOf(name, partitions) == 0 && len(all) < maxTubes {
					all = append(all, name)
				}
			}
			var calls atomic.Int64
			begun := make(chan bool)
			proxy.Intercept(func(piece []byte) redistest.Fate {
				if bytes.Contains(piece, []byte("take-any")) && calls.Add(1) == 3 {
					close(begun)
				}
				return redistest.Pass
			}, nil)
			done := make(chan bool)
			go func() {
				ops := make([]storage.Op, takes)
				for i := range ops {
					ops[i] = takeOf(1, all...)
				}
				storage.DoWait(s, ops)
				close(done)
			}()
			<-begun
			putSized(t, s, all[0], 1)
			at := calls.Load()
			if <-done; at > calls.Load()/2 {
				t.Errorf("the put was answered after %d of %d calls", at, calls.Load())
			}
		})
	}
}

// TestOthersWithinAWideTake: a put waits for only a few calls of a take from so many tubes that
// it takes many calls.
func TestOthersWithinAWideTake(t *testing.T) {
	const places = 20
	proxy := redistest.NewProxy(t, redistest.Start(t))
	s := openWith(t, Options{URL: proxy.URL(), Timeout: patient})
	var calls atomic.Int64
	third, waits := make(chan bool), make(chan bool)
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if bytes.Contains(piece, []byte("\r\nbest\r\n")) && calls.Add(1) == 3 {
			close(third)
			<-waits
		}
		return redistest.Pass
	}, nil)
	taken := make(chan bool)
	go func() {
		do(s, takeOf(1, names(places*maxTubes)...))
		close(taken)
	}()
	<-third
	answered := make(chan bool)
	s.Do(&storage.Batch{Ops: []storage.Op{put("")}, Done: func() { close(answered) }})
	close(waits)
	<-answered
	at := calls.Load()
	if <-taken; calls.Load() != places || at > places/2 {
		t.Errorf("the put was answered after %d of %d calls", at, calls.Load())
	}
}
