package redis

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// bodyOf is a body of so many bytes that no other call returns.
func bodyOf(mark byte, size int) []byte { return bytes.Repeat([]byte{mark}, size) }

// putBody is a put of a body.
func putBody(body []byte) storage.Op { return put(string(body)) }

// stagedNow are the staged keys that Redis has.
func stagedNow(t *testing.T, client *goredis.Client) []string {
	t.Helper()
	keys, err := client.Keys(context.Background(), "redstalk:{*}:put:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// wantNothingStaged fails if a staged key is left after two more calls of the instance.
func wantNothingStaged(t *testing.T, s *Store, client *goredis.Client) {
	t.Helper()
	for range 2 {
		if err := s.each(func(p *partition) error { return p.do(p.encodeHeartbeat) }); err != nil {
			t.Error(err)
		}
	}
	if keys := stagedNow(t, client); len(keys) > 0 {
		t.Errorf("%d staged records are left: %q", len(keys), keys)
	}
}

// takeBody takes a job and compares it.
func takeBody(t *testing.T, s *Store, id uint64, body []byte) {
	t.Helper()
	if a := do(s, take(1)); a.Err != nil || a.ID != id || !bytes.Equal(a.Body, body) {
		t.Errorf("took job %d with %d bytes, %v; want job %d with %d", a.ID, len(a.Body), a.Err, id, len(body))
	}
}

// firstStaging matches how the first record is staged that a call puts.
var firstStaging = regexp.MustCompile(`\r\nset\r\n\$\d+\r\n\S*}(:put:\w+:\d+:1)\r\n`)

// callOf matches how a call of the script begins.
var callOf = regexp.MustCompile(`evalsha\r\n\$40\r\n` + lua.Main().Hash())

// isStaging matches pieces that contain it.
func isStaging(piece []byte) bool { return firstStaging.Match(piece) }

// TestStagedRecordsBypassLua: Lua sees no body of a large job, whoever puts or takes it, and no
// record expires.
func TestStagedRecordsBypassLua(t *testing.T) {
	for _, partitions := range []int{1, 2} {
		server := redistest.Start(t)
		client, body := server.Client(t), bodyOf('x', 50_000)
		putter := openWith(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient})
		taker := openWith(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient})
		a := do(putter, putBody(body))
		delayed := putBody(body)
		delayed.Delay = 1000
		b := do(putter, delayed)
		if a.Err != nil || b.Err != nil {
			t.Fatal(a.Err, b.Err)
		}
		for _, id := range []uint64{a.ID, b.ID} {
			keys, _ := client.Keys(context.Background(), "redstalk:{*}:"+digits(id)).Result()
			if len(keys) != 1 {
				t.Fatalf("job %d has the keys %q", id, keys)
			}
			if left := client.TTL(context.Background(), keys[0]).Val(); left != -1 {
				t.Errorf("job %d is gone in %v", id, left)
			}
		}
		takeBody(t, taker, a.ID, body)
		if got := do(taker, move(tube.ReserveJob, 1, b.ID)); got.Err != nil || !bytes.Equal(got.Body, body) {
			t.Errorf("reserved with %d bytes, %v", len(got.Body), got.Err)
		}
		if n := commandStat(t, server, "mset", "calls"); n != 2*int64(partitions) { // when the permissions were checked
			t.Errorf("%d calls of MSET", n)
		}
		wantNothingStaged(t, putter, client)
	}
}

// TestStagedOnce breaks the connection at every moment of a put whose record is staged, and of
// a take that reads it: each is carried out once, and nothing is left over.
func TestStagedOnce(t *testing.T) {
	t.Parallel()
	for name, brk := range breaks {
		for _, partitions := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server)
				o := Options{URL: proxy.URL(), Partitions: partitions, Timeout: patient, noBodyCache: true}
				s := openWith(t, o)
				var ids []uint64
				for i := range 3 {
					brk(proxy)
					a := do(s, putBody(bodyOf(byte('a'+i), 20_000)))
					proxy.Intercept(nil, nil)
					if ids = append(ids, a.ID); a.Err != nil {
						t.Fatal(a.Err)
					}
				}
				for i, id := range ids {
					brk(proxy)
					takeBody(t, s, id, bodyOf(byte('a'+i), 20_000))
					proxy.Intercept(nil, nil)
				}
				if got := figures(t, s); got.Jobs != 3 || got.Reserved != 3 {
					t.Errorf("%+v", got)
				}
				wantNothingStaged(t, s, server.Client(t))
			})
		}
	}
}

// cutBehindStaging loses a request after its first staged record, which gets to Redis.
func cutBehindStaging(t *testing.T, server *redistest.Server, piece []byte) {
	t.Helper()
	_, from, _ := strings.Cut(string(piece), "*5\r\n$3\r\nset\r\n") // after what is left over
	words := strings.SplitN(from, "\r\n", 5)                        // $n KEY $m RECORD…
	if len(words) < 4 {
		t.Errorf("%.100q has no SET", piece)
		return
	}
	if err := server.Client(t).Set(context.Background(), words[1], words[3], stagedFor).Err(); err != nil {
		t.Error(err)
	}
}

// TestLostBehindStaging: a record was staged, and the call after it never reached Redis. It is
// sent again and carried out once; if its client has timed out it is not, and the staged record
// is deleted.
func TestLostBehindStaging(t *testing.T) {
	t.Parallel()
	for name, forever := range map[string]bool{"once": false, "for good": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server)
			timeout := patient
			if forever {
				timeout = hasty
			}
			s := openAt(t, proxy.URL(), timeout)
			var lost atomic.Int64
			proxy.Intercept(func(piece []byte) redistest.Fate {
				if isStaging(piece) && (lost.Add(1) == 1 || forever) {
					cutBehindStaging(t, server, piece)
					return redistest.Cut
				}
				return redistest.Pass
			}, nil)
			a := do(s, putBody(bodyOf('a', 20_000)))
			proxy.Intercept(nil, nil)
			if lost.Load() == 0 {
				t.Fatal("nothing was staged")
			}
			if forever != errors.Is(a.Err, storage.ErrUnavailable) {
				t.Errorf("%+v", a)
			}
			if n := figures(t, s).Jobs; n != 0 == forever {
				t.Errorf("%d jobs are there", n)
			}
			wantNothingStaged(t, s, server.Client(t))
			if !forever {
				takeBody(t, s, a.ID, bodyOf('a', 20_000))
			}
		})
	}
}

// TestUnstaged: the staged record is gone when the call arrives, as after a failover in
// between, or on a Redis that evicts keys with an expiry. The call does nothing, and is made
// again with the records in it; or, if its outcome is unknown, as it was.
func TestUnstaged(t *testing.T) {
	for name, uncertain := range map[string]bool{"at once": false, "after a call that was lost": true} {
		for _, partitions := range []int{1, 2} {
			t.Run(name, func(t *testing.T) {
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server)
				s := openWith(t, Options{URL: proxy.URL(), Partitions: partitions, Timeout: patient})
				var seen atomic.Int64
				proxy.Intercept(func(piece []byte) redistest.Fate {
					if !isStaging(piece) {
						return redistest.Pass
					}
					n := seen.Add(1)
					if uncertain {
						n--
					}
					switch n {
					case 0:
						return redistest.Cut
					case 1: // the record goes elsewhere
						copy(piece[firstStaging.FindSubmatchIndex(piece)[2]:], ":pot")
					}
					return redistest.Pass
				}, nil)
				ops := []storage.Op{putBody(bodyOf('a', 20_000)), put("small"), putBody(bodyOf('b', 30_000))}
				storage.DoWait(s, ops)
				for i, body := range [][]byte{bodyOf('a', 20_000), []byte("small"), bodyOf('b', 30_000)} {
					if ops[i].Answer.Err != nil {
						t.Fatal(ops[i].Answer.Err)
					}
					takeBody(t, s, ops[i].Answer.ID, body)
				}
				if n := figures(t, s).Jobs; n != 3 {
					t.Errorf("%d jobs are there", n)
				}
				if n, want := seen.Load(), map[bool]int64{false: 1, true: 3}[uncertain]; n != want {
					t.Errorf("records were staged %d times", n)
				}
				wantNothingStaged(t, s, server.Client(t))
			})
		}
	}
}

// TestStagedNamesOfCalls: a late record, on a connection that was given up, is not taken for
// one of another call.
func TestStagedNamesOfCalls(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	var mu sync.Mutex
	var names []string
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if found := firstStaging.FindSubmatch(piece); found != nil {
			mu.Lock()
			names = append(names, string(found[1]))
			mu.Unlock()
		}
		return redistest.Pass
	}, nil)
	for range 3 {
		do(s, putBody(bodyOf('a', 20_000)))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(names) != 3 || names[0] == names[1] || names[1] == names[2] {
		t.Errorf("the records were staged as %q", names)
	}
}

// TestFullWhileStaging: without memory for the records of a call, some of which Redis may have
// accepted, nothing is put, everything else works, and staged records are deleted.
func TestFullWhileStaging(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		server := redistest.Start(t)
		ctx, client, proxy := context.Background(), server.Client(t), redistest.NewProxy(t, server)
		s := openWith(t, Options{URL: proxy.URL(), Partitions: partitions, Timeout: patient})
		do(s, put("x"))
		do(s, put("y"))
		held := do(s, take(1)).ID
		used, _ := strconv.Atoi(conn.InfoValue(client.Info(ctx, "memory").Val(), "used_memory"))
		if err := client.ConfigSet(ctx, "maxmemory", strconv.Itoa(used+3_000_000)).Err(); err != nil {
			t.Fatal(err)
		}
		ops := []storage.Op{move(tube.Release, 1, held)}
		for range 9 {
			ops = append(ops, putBody(bodyOf('a', 900_000)))
		}
		var calls atomic.Int64
		proxy.Intercept(func(piece []byte) redistest.Fate {
			calls.Add(int64(len(callOf.FindAll(piece, -1))))
			return redistest.Pass
		}, nil)
		storage.DoWait(s, ops)
		proxy.Intercept(nil, nil)
		if n := calls.Load(); n > 2 {
			t.Errorf("it took %d calls to find out", n)
		}
		if a := ops[0].Answer; a.Err != nil || a.NotFound {
			t.Errorf("what is beside the puts: %+v", a)
		}
		for _, op := range ops[1:] {
			if !errors.Is(op.Answer.Err, storage.ErrNoSpace) {
				t.Errorf("%+v", op.Answer)
			}
		}
		wantNothingStaged(t, s, client)
		if n := figures(t, s).Jobs; n != 2 {
			t.Errorf("%d jobs are there", n)
		}
		client.ConfigSet(ctx, "maxmemory", "0")
		if a := do(s, putBody(bodyOf('a', 900_000))); a.Err != nil {
			t.Errorf("when there is memory again: %v", a.Err)
		}
	}
}
