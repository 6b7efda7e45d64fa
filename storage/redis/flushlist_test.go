package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/tools/conformance/busy"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// wantNoFaults runs fsck on a server.
func wantNoFaults(t *testing.T, o Options) {
	t.Helper()
	_, err := fsck.Check(context.Background(), fsckOptions(o), false, fsck.Report{Found: func(at int, what string) { t.Errorf("partition %d: %s", at, what) }})
	if err != nil {
		t.Error(err)
	}
}

func flushOf(s *Store, name string, in tube.State) int {
	return do(s, storage.Op{Kind: storage.Flush, Tube: name, State: in}).Count
}

func moveJobsOf(s *Store, from string, in tube.State, to string, bound uint32) storage.Answer {
	return do(s, storage.Op{Kind: storage.MoveJobs, Tube: from, State: in, MaxJobs: bound, Args: &storage.Args{To: to}})
}

// takeSome puts jobs into a tube and reserves them for a holder.
func takeSome(t *testing.T, s *Store, name string, h tube.Holder, n int) (ids []uint64) {
	t.Helper()
	var puts, takes []storage.Op
	for i := range n {
		puts = append(puts, storage.Op{Kind: storage.Put, Tube: name, TTR: 600, Body: fmt.Append(nil, "body ", i)})
		takes = append(takes, takeOf(h, name))
	}
	storage.DoWait(s, puts)
	storage.DoWait(s, takes)
	for i := range takes {
		if takes[i].Answer.ID == 0 {
			t.Fatalf("take %d: %+v", i, takes[i].Answer)
		}
		ids = append(ids, takes[i].Answer.ID)
	}
	return ids
}

// TestFlushReservedElsewhere: flushed jobs are gone for their holders, on this instance and on
// others, whether these have been told or not; and they count once.
func TestFlushReservedElsewhere(t *testing.T) {
	for name, reported := range map[string]bool{"at once": false, "when reported": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			a := openWith(t, Options{URL: server.URL(), leaseSetFrom: 6})
			b := openWith(t, Options{URL: server.URL(), leaseSetFrom: 6})
			var ids []uint64
			for k, n := range []int{2, 3, 9, 300} { // single ones, and lease sets
				ids = append(ids, takeSome(t, a, "t", tube.Holder(1+k), n)...)
			}
			own := takeSome(t, b, "t", 9, 8)
			leased := takeSome(t, b, "t", tube.LeaseHolder, 2)
			kept := takeSome(t, a, "kept", 1, 9)
			if n := flushOf(b, "t", tube.Reserved); n != len(ids)+len(own)+len(leased) {
				t.Fatalf("%d jobs were flushed", n)
			}
			if reported {
				a.Tick()
				b.Tick()
				if n, m := a.parts[0].holdings.count(), b.parts[0].holdings.count(); n != len(kept) || m != 0 {
					t.Errorf("the instances hold %d and %d jobs", n, m)
				}
			}
			// A batch of deletes: of those that are gone, and of others between them.
			deletes := func(s *Store, h func(int) tube.Holder, ids []uint64, gone bool) {
				var ops []storage.Op
				for i, id := range ids {
					ops = append(ops, move(tube.Delete, h(i), id))
				}
				storage.DoWait(s, ops)
				for i := range ops {
					if a := ops[i].Answer; a.Err != nil || a.NotFound != gone {
						t.Errorf("delete of job %d: %+v", ops[i].ID, a)
					}
				}
			}
			deletes(a, func(i int) tube.Holder {
				return tube.Holder(1 + min(i/2, 1) + min(i/5, 1) + min(i/14, 1))
			}, ids, true)
			deletes(b, func(int) tube.Holder { return 9 }, own, true)
			deletes(a, func(int) tube.Holder { return 1 }, kept, false)
			want := tube.Totals{Jobs: uint64(len(ids) + len(own) + len(leased) + len(kept)), Tubes: 1}
			if got := figures(t, a); got != want {
				t.Errorf("in the end %+v, want %+v", got, want)
			}
			a.Tick()
			b.Tick()
			for _, s := range []*Store{a, b} {
				if n := s.parts[0].holdings.count(); n != 0 {
					t.Errorf("an instance holds %d jobs", n)
				}
			}
			wantNoFaults(t, Options{URL: server.URL()})
		})
	}
}

// tubesInTwoPartitions returns the names of two tubes in different partitions.
func tubesInTwoPartitions(of int) (from, to string) {
	from = "from"
	for n := 0; ; n++ {
		if to = fmt.Sprint("to", n); schema.PartitionOf(to, of) != schema.PartitionOf(from, of) {
			return from, to
		}
	}
}

// bodiesIn returns the bodies of the jobs of a tube in a state, in their order.
func bodiesIn(t *testing.T, s *Store, name string, in tube.State) (bodies []string) {
	t.Helper()
	a := do(s, storage.Op{Kind: storage.ListJobs, Tube: name, State: in, MaxJobs: 1000})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	for _, j := range a.Result.Jobs {
		bodies = append(bodies, string(do(s, storage.Op{Kind: storage.Peek, ID: j.ID}).Body))
	}
	return bodies
}

// moveOfCalls is how many calls a move to another partition takes in the tests below.
const moveOfCalls = 8

// isStep returns whether a piece is a call about a move of jobs.
func isStep(piece []byte) bool {
	for _, word := range []string{"move-jobs", "arrive", "depart"} {
		if isCall(piece) && bytes.Contains(piece, []byte("\r\n"+word+"\r\n")) {
			return true
		}
	}
	return false
}

// putSizes puts n jobs of different sizes, and returns their bodies in order.
func putSizes(t *testing.T, o Options, tube string, n int) (bodies []string) {
	t.Helper()
	s := openWith(t, o)
	defer s.Close()
	for i := range n {
		body := fmt.Sprintf("body %02d %s", i, strings.Repeat("x", i*5))
		bodies = append(bodies, body)
		if a := do(s, storage.Op{Kind: storage.Put, Tube: tube, Pri: 5, TTR: 600, Body: []byte(body)}); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	return bodies
}

// TestMoveAcrossPartitionsKilled: after whichever step of a move to another partition an
// instance dies, the next one leaves each job in exactly one place.
func TestMoveAcrossPartitionsKilled(t *testing.T) {
	t.Parallel()
	const of, jobs = 4, 20
	from, to := tubesInTwoPartitions(of)
	for n := range int64(moveOfCalls) {
		for name, fate := range map[string]redistest.Fate{"before": redistest.Cut, "after": redistest.Last} {
			if !inThisHalf(int(n) + len(name)) {
				continue
			}
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server)
				want := putSizes(t, Options{URL: server.URL(), Partitions: of, Timeout: patient, largeFrom: 60}, from, jobs)
				s := openWith(t, Options{URL: proxy.URL(), Partitions: of, Timeout: busy.Times(hasty), largeFrom: 60})
				var seen atomic.Int64
				var dead atomic.Bool
				proxy.Intercept(func(piece []byte) redistest.Fate {
					if dead.Load() {
						return redistest.Cut
					}
					if isStep(piece) && seen.Add(1) > n {
						dead.Store(true)
						return fate
					}
					return redistest.Pass
				}, func([]byte) redistest.Fate {
					if dead.Load() {
						return redistest.Cut
					}
					return redistest.Pass
				})
				a := moveJobsOf(s, from, tube.Ready, to, jobs)
				if dead.Load() != (a.Err != nil) && n < 3 {
					t.Errorf("dead: %v, and the move was answered %+v", dead.Load(), a)
				}
				s.crash()
				next := openWith(t, Options{URL: server.URL(), Partitions: of, largeFrom: 60})
				var got []string
				for range 300 {
					next.TickAll()
					got = slices.Concat(bodiesIn(t, next, from, tube.Ready), bodiesIn(t, next, to, tube.Ready))
					if len(got) == jobs && figures(t, next).Buried == 0 {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("of %d jobs there are %d: %q", jobs, len(got), got)
				}
				next.TickAll()
				wantNoFaults(t, Options{URL: server.URL(), Partitions: of})
			})
		}
	}
}

// TestMoveAnswerLost: a reply that is lost in the middle of a move has no effect, and nothing
// is done twice.
func TestMoveAnswerLost(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for _, of := range []int{1, 4} {
		from, to := "from", "to"
		if of > 1 {
			from, to = tubesInTwoPartitions(of)
		}
		for n := range int64(6) {
			t.Run(fmt.Sprint(of, " partitions, call ", n), func(t *testing.T) {
				server := redistest.Start(t)
				proxy := redistest.NewProxy(t, server)
				s := openWith(t, Options{URL: proxy.URL(), Partitions: of, Timeout: patient})
				const jobs = 600
				var puts []storage.Op
				for i := range jobs {
					puts = append(puts, storage.Op{Kind: storage.Put, Tube: from, Pri: 5, TTR: 600, Body: fmt.Appendf(nil, "body %03d", i)})
				}
				storage.DoWait(s, puts)
				var seen atomic.Int64
				var lose atomic.Bool
				proxy.Intercept(func(piece []byte) redistest.Fate {
					if isStep(piece) && seen.Add(1) == n+1 {
						lose.Store(true)
					}
					return redistest.Pass
				}, func([]byte) redistest.Fate {
					if lose.Swap(false) {
						return redistest.Cut
					}
					return redistest.Pass
				})
				if a := moveJobsOf(s, from, tube.Ready, to, jobs-1); a.Err != nil || a.Count != jobs-1 {
					t.Errorf("moved: %+v", a)
				}
				proxy.Intercept(nil, nil)
				if got := bodiesIn(t, s, to, tube.Ready); len(got) != jobs-1 || !slices.IsSorted(got) {
					t.Errorf("%d jobs have arrived, in order: %v", len(got), slices.IsSorted(got))
				}
				if got := bodiesIn(t, s, from, tube.Ready); len(got) != 1 || got[0] != "body 599" {
					t.Errorf("left: %q", got)
				}
				wantNoFaults(t, Options{URL: server.URL(), Partitions: of})
			})
		}
	}
}

// TestFailsBetweenParts: if Redis fails between two parts of a kick, flush or move for longer
// than the timeout, the answer has the number of jobs of the earlier parts.
func TestFailsBetweenParts(t *testing.T) {
	t.Parallel()
	const jobs, partitions = 3000, 4
	_, there := tubesInTwoPartitions(partitions)
	here := "here"
	for schema.PartitionOf(here, partitions) != schema.PartitionOf("from", partitions) {
		here += "e"
	}
	for _, test := range []struct {
		word string
		op   storage.Op
	}{
		{"kick", storage.Op{Kind: storage.Kick, MaxJobs: jobs}},
		{"flush", storage.Op{Kind: storage.Flush, State: tube.Delayed}},
		{"move-jobs", storage.Op{Kind: storage.MoveJobs, State: tube.Delayed, MaxJobs: jobs, Args: &storage.Args{To: here}}},
		{"move-jobs", storage.Op{Kind: storage.MoveJobs, State: tube.Delayed, MaxJobs: jobs, Args: &storage.Args{To: there}}},
	} {
		t.Run(test.word, func(t *testing.T) {
			proxy := redistest.NewProxy(t, redistest.Start(t))
			s := openWith(t, Options{URL: proxy.URL(), Partitions: partitions, Timeout: hasty})
			var puts []storage.Op
			for range jobs {
				puts = append(puts, storage.Op{Kind: storage.Put, Tube: "from", TTR: 600, Delay: 600, Body: []byte("x")})
			}
			storage.DoWait(s, puts)
			failFrom(proxy, test.word, 3)
			test.op.Tube = "from"
			ops := []storage.Op{test.op, {Kind: storage.TubeStats, Tube: "from"}}
			storage.DoWait(s, ops)
			proxy.Intercept(nil, nil)
			a := ops[0].Answer
			if !errors.Is(a.Err, storage.ErrUnavailable) || a.Count == 0 || a.Count == jobs || ops[1].Answer.Err == nil {
				t.Fatalf("answers %+v, %+v", a, ops[1].Answer)
			}
			figures(t, s)
			if left := do(s, ops[1]).TubeStats; left.Delayed != uint64(jobs-a.Count) {
				t.Errorf("the answer says %d of %d jobs, but %d are left", a.Count, jobs, left.Delayed)
			}
		})
	}
}

// failFrom simulates a failing Redis from the n-th call with an operation on.
func failFrom(proxy *redistest.Proxy, word string, n int64) {
	var calls atomic.Int64
	var away atomic.Bool
	proxy.Intercept(func(piece []byte) redistest.Fate {
		if isCall(piece) && bytes.Contains(piece, []byte("\r\n"+word+"\r\n")) && calls.Add(1) == n {
			away.Store(true)
		}
		if away.Load() {
			return redistest.Cut
		}
		return redistest.Pass
	}, nil)
}

// TestNoneReserved: listing or flushing the reserved jobs of a tube without any does not read
// those of other tubes, whatever their number.
func TestNoneReserved(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	putMany(t, s, 3000, 5)
	for range 3000 / 250 {
		takeMany(t, s, 250)
	}
	do(s, putIn("none", 5))
	list := storage.Op{Kind: storage.ListJobs, Tube: "none", State: tube.Reserved, MaxJobs: 1000}
	atMost(t, server, 50, func() {
		if a := do(s, list); a.Err != nil || len(a.Result.Jobs) != 0 {
			t.Errorf("%+v", a)
		}
		if n := flushOf(s, "none", tube.Reserved); n != 0 {
			t.Errorf("%d were flushed", n)
		}
	})
	if do(s, takeFrom(1, false, "none")); len(do(s, list).Result.Jobs) != 1 {
		t.Error("a job that is reserved is not listed")
	}
}
