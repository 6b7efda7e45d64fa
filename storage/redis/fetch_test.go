package redis

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// isFetch matches requests for the records of large jobs.
func isFetch(piece []byte) bool {
	return bytes.Contains(piece, []byte("\r\nget\r\n")) && !isCall(piece) && !isStaging(piece)
}

// isFetched matches the replies to them.
func isFetched(piece []byte) bool {
	return bytes.HasPrefix(piece, []byte("$")) && !bytes.Contains(piece, []byte("redis_version"))
}

// fetchBreaks are the moments at which a connection can break while records are read.
var fetchBreaks = map[string]func(p *redistest.Proxy){
	"in the request":     func(p *redistest.Proxy) { p.Intercept(once(redistest.Cut, 1, isFetch), nil) },
	"behind the request": func(p *redistest.Proxy) { p.Intercept(once(redistest.Last, 1, isFetch), nil) },
	"before the answer":  func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Cut, 1, isFetched)) },
	"behind the answer":  func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Last, 1, isFetched)) },
	"no answer":          func(p *redistest.Proxy) { p.Intercept(nil, once(redistest.Drop, 1, isFetched)) },
	"refused": func(p *redistest.Proxy) {
		var seen atomic.Bool
		p.Intercept(func(piece []byte) redistest.Fate {
			if isFetch(piece) && seen.CompareAndSwap(false, true) {
				copy(piece[bytes.Index(piece, []byte("\r\nget\r\n")):], "\r\ngot\r\n")
			}
			return redistest.Pass
		}, nil)
	},
}

// TestFetchedOnce breaks the connection at every moment while the records of taken jobs are
// read: the same jobs are returned with the same bodies, and no others are reserved.
func TestFetchedOnce(t *testing.T) {
	t.Parallel()
	for name, brk := range fetchBreaks {
		for _, partitions := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server)
				o := Options{URL: proxy.URL(), Partitions: partitions, Timeout: patient, noBodyCache: true}
				s := openWith(t, o)
				var puts []storage.Op
				for i := range 7 {
					puts = append(puts, putBody(bodyOf(byte('a'+i), []int{10, 20_000}[i%2])))
				}
				storage.DoWait(s, puts)
				brk(proxy)
				ops := []storage.Op{take(1), take(1), take(2), take(1), take(1), take(1)}
				storage.DoWait(s, ops)
				proxy.Intercept(nil, nil)
				for i := range ops {
					if a, want := ops[i].Answer, &puts[i]; a.Err != nil || a.ID != want.Answer.ID || !bytes.Equal(a.Body, want.Body) {
						t.Errorf("take %d: job %d with %d bytes, %v", i, a.ID, len(a.Body), a.Err)
					}
				}
				brk(proxy)
				last := do(s, move(tube.ReserveJob, 1, puts[1].Answer.ID))
				proxy.Intercept(nil, nil)
				if !last.NotFound { // it is reserved
					t.Errorf("%+v", last)
				}
				if got := figures(t, s); got.Reserved != 6 || got.Ready != 1 {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// TestFetchGivenUp: jobs are given back if their records could not be read before their clients
// were answered with an error.
func TestFetchGivenUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	putLarge(t, openAt(t, server.URL(), patient), 3, 20_000)
	s := openAt(t, proxy.URL(), hasty)
	proxy.Intercept(nil, func(piece []byte) redistest.Fate {
		if isFetched(piece) {
			return redistest.Cut
		}
		return redistest.Pass
	})
	for i, a := range takers(s, 1, 3) {
		if a.Err == nil {
			t.Errorf("take %d: %+v", i, a)
		}
	}
	proxy.Intercept(nil, nil)
	awaitReserved(t, s, 0)
	if got := figures(t, s); got.Ready != 3 {
		t.Errorf("%+v", got)
	}
}

// whileFetching calls a function once, before records are read.
func whileFetching(proxy *redistest.Proxy, what func()) {
	var seen atomic.Bool
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isFetch(piece) && seen.CompareAndSwap(false, true) {
			what()
		}
		return redistest.Pass
	}, nil)
}

// TestGoneBeforeFetch: a job whose record somebody deletes by hand just after it was taken does
// not exist; the client gets the next one, or none.
func TestGoneBeforeFetch(t *testing.T) {
	for name, op := range map[string]storage.Op{
		"take": take(1), "take-any": takeOf(1, "other", "t"), "reserve-job": move(tube.ReserveJob, 1, 1),
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server)
			s := openWith(t, Options{URL: proxy.URL(), Timeout: patient, noBodyCache: true})
			do(s, putBody(bodyOf('a', 20_000)))
			do(s, putBody(bodyOf('b', 20_000)))
			whileFetching(proxy, func() {
				server.Client(t).Del(context.Background(), "redstalk:{0}:"+digits(1))
			})
			a := do(s, op)
			if name == "reserve-job" {
				if !a.NotFound {
					t.Errorf("%+v", a)
				}
			} else if a.ID != 2 || !bytes.Equal(a.Body, bodyOf('b', 20_000)) {
				t.Errorf("job %d with %d bytes, %v", a.ID, len(a.Body), a.Err)
			}
			if name != "reserve-job" {
				if a := do(s, take(2)); !a.NotFound {
					t.Errorf("another one: %+v", a)
				}
			}
		})
	}
}

// TestDeclaredDeadBeforeFetch: an instance is paused between the script and the reading of a
// record. If others have meanwhile declared it dead and reassigned the job, no client here gets
// it.
func TestDeclaredDeadBeforeFetch(t *testing.T) {
	for name, deleted := range map[string]bool{"taken": false, "taken and deleted": true} {
		t.Run(name, func(t *testing.T) {
			lt := newLeaseSetTest(t)
			proxy := redistest.NewProxy(t, lt.redis)
			s := lt.open(proxy.URL(), patient)
			putLarge(t, lt.s, 1, 20_000)
			assumeAlive(lt.s)
			var other atomic.Uint64
			whileFetching(proxy, func() {
				lt.ahead.Add(int64(10 * time.Second))
				lt.s.Tick()
				awaitReserved(t, lt.s, 0)
				other.Store(do(lt.s, take(7)).ID)
				if deleted {
					do(lt.s, move(tube.Delete, 7, 1))
				}
			})
			a := do(s, take(1))
			if other.Load() != 1 {
				t.Fatalf("the other instance got job %d", other.Load())
			}
			if a.ID != 0 {
				t.Errorf("job %d was given to two", a.ID)
			}
		})
	}
}

// TestOwnLargeBodies: the body of a large job that this instance has recently put is not read
// from Redis. One that it has delivered before, or that others have put, is.
func TestOwnLargeBodies(t *testing.T) {
	server := redistest.Start(t)
	s, other := openAt(t, server.URL(), patient), openAt(t, server.URL(), patient)
	takes := func(what string, s *Store, id uint64, mark byte, want int64) {
		t.Helper()
		before := commandStat(t, server, "get", "calls")
		takeBody(t, s, id, bodyOf(mark, 20_000))
		got := commandStat(t, server, "get", "calls") - before
		if got != want {
			t.Errorf("%s: %d records were read, want %d", what, got, want)
		}
	}
	do(s, putBody(bodyOf('a', 20_000)))
	takes("its own", s, 1, 'a', 0)
	do(s, move(tube.Release, 1, 1))
	takes("once more", s, 1, 'a', 1)
	do(other, putBody(bodyOf('b', 20_000)))
	takes("that of another instance", s, 2, 'b', 1)
	do(s, putBody(bodyOf('c', 20_000)))
	takes("by another instance", other, 3, 'c', 1)
	cache := s.parts[0].bodies
	if cache.limit = 1; cache.bytes == 0 {
		t.Error("nothing is cached")
	}
	do(s, putBody(bodyOf('d', 20_000)))
	takes("without room", s, 4, 'd', 1)
}

// TestParseSizes: the sizes in a reply must refer to its records.
func TestParseSizes(t *testing.T) {
	for sizes, good := range map[string]bool{
		"": true, "0;5000;": true, "0;5000;1;6000;": true, "2;5000;": false, "-1;5000;": false, "x;1;": false, "0": false,
	} {
		r, err := parseReply([]any{"1;0;0;0;-1;0;", "", sizes, "a", "b"}, "p", 1, time.Now())
		if good != (err == nil) {
			t.Errorf("%q: %v", sizes, err)
		}
		if good && len(r.large) != strings.Count(sizes, ";")/2 {
			t.Errorf("%q: %v", sizes, r.large)
		}
	}
}

// TestPeekedAndGone: a large job that is deleted between the call that peeks at it and the GET
// of its record is not found.
func TestPeekedAndGone(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openWith(t, Options{URL: proxy.URL(), Timeout: patient, noBodyCache: true})
	id := do(s, putBody(bodyOf('a', 20_000))).ID
	if a := do(s, storage.Op{Kind: storage.Peek, ID: id}); a.ID != id || string(a.Body) != string(bodyOf('a', 20_000)) {
		t.Errorf("at first: %d with %d bytes", a.ID, len(a.Body))
	}
	client, asked := server.Client(t), new(atomic.Int64)
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if bytes.Contains(piece, []byte("\r\nget\r\n")) {
			asked.Add(1)
			client.Del(context.Background(), "redstalk:{0}:"+digits(id))
		}
		return redistest.Pass
	}, nil)
	if a := do(s, storage.Op{Kind: storage.Peek, ID: id}); !a.NotFound || asked.Load() != 1 {
		t.Errorf("then: job %d with %d bytes, asked for %d times", a.ID, len(a.Body), asked.Load())
	}
}
