package redis

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// putMany puts n jobs with a priority at once, with their numbers as bodies, and
// returns the id of the first.
func putMany(t *testing.T, s *Store, n int, pri uint32) uint64 {
	t.Helper()
	ops := make([]storage.Op, n)
	for i := range ops {
		ops[i] = put(fmt.Sprint("body ", i))
		ops[i].Pri = pri
	}
	storage.DoWait(s, ops)
	for i := range ops {
		if a := ops[i].Answer; a.Err != nil || a.ID != ops[0].Answer.ID+uint64(i) {
			t.Fatalf("put %d: %+v", i, a)
		}
	}
	return ops[0].Answer.ID
}

// takeMany takes n jobs at once and returns their ids and bodies.
func takeMany(t *testing.T, s *Store, n int) (ids []uint64, bodies []string) {
	t.Helper()
	ops := make([]storage.Op, n)
	for i := range ops {
		ops[i] = take(1)
	}
	storage.DoWait(s, ops)
	for i := range ops {
		a := ops[i].Answer
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if !a.NotFound {
			ids, bodies = append(ids, a.ID), append(bodies, string(a.Body))
		}
	}
	return ids, bodies
}

// readyMembers are the members of tube t's sorted set of ready jobs: ids without zeros
// in front, and for ranges how many jobs they have and of which priority.
func readyMembers(t *testing.T, server *redistest.Server, s *Store) (got []string) {
	const prefix = "redstalk:{0}:"
	for _, member := range server.Client(t).ZRange(context.Background(), prefix+"ready:t", 0, -1).Val() {
		id, terms, _ := strings.Cut(strings.TrimPrefix(member, prefix), ";")
		terms = strings.TrimSuffix(terms, ";600;"+s.parts[0].instance.name())
		got = append(got, strings.TrimSuffix(strings.TrimLeft(id, "0")+";"+terms, ";"))
	}
	return got
}

// wantReady checks how many jobs are urgent and ready, in tube t and in all.
func wantReady(t *testing.T, s *Store, what string, urgent, ready uint64) {
	t.Helper()
	stats := do(s, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats
	if sum := figures(t, s); stats.Urgent != urgent || stats.Ready != ready || sum.Urgent != urgent || sum.Ready != ready {
		t.Errorf("%s: %d urgent and %d ready jobs in the tube, %d and %d in all; want %d and %d",
			what, stats.Urgent, stats.Ready, sum.Urgent, sum.Ready, urgent, ready)
	}
}

// wantRanges is wantReady, and checks the members of tube t as well, and that all is sound.
func wantRanges(t *testing.T, server *redistest.Server, s *Store, what string, urgent, ready uint64, want []string) {
	t.Helper()
	if got := readyMembers(t, server, s); !slices.Equal(got, want) {
		t.Errorf("%s: ready:t has %q, want %q", what, got, want)
	}
	wantReady(t, s, what, urgent, ready)
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("%s: %q", what, wrong)
	}
}

// TestReadyRanges: jobs that are put together are one member of the sorted set, and operations
// on one of them leave the others as they are.
func TestReadyRanges(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	check := func(what string, urgent, ready uint64, want ...string) {
		t.Helper()
		wantRanges(t, server, s, what, urgent, ready, want)
	}
	putMany(t, s, schema.RangeFrom-1, 5)
	check("too few for a range", 3, 3, "1", "2", "3")
	putMany(t, s, 10, 5)
	check("ten", 13, 13, "1", "2", "3", "4;10;5")
	putMany(t, s, 6, 5000)
	check("six that are not urgent", 13, 19, "1", "2", "3", "4;10;5", "14;6;5000")
	if ids, _ := takeMany(t, s, 4); !slices.Equal(ids, []uint64{1, 2, 3, 4}) {
		t.Errorf("took %d", ids)
	}
	check("part of a range taken", 9, 15, "5;9;5", "14;6;5000")
	if a := do(s, move(tube.Delete, 1, 8)); a.NotFound || a.Err != nil {
		t.Errorf("%+v", a)
	}
	check("deleted in the middle", 8, 14, "5;3;5", "9;5;5", "14;6;5000")
	if a := do(s, move(tube.ReserveJob, 1, 19)); a.NotFound || string(a.Body) != "body 5" {
		t.Errorf("%+v", a)
	}
	check("the last one reserved by its id", 8, 13, "5;3;5", "9;5;5", "14;5;5000")
	for id, found := range map[uint64]bool{8: false, 19: false, 5: true} {
		if a := do(s, move(tube.ReserveJob, 2, id)); a.NotFound == found {
			t.Errorf("job %d: %+v", id, a)
		}
	}
	check("the first one reserved by its id", 7, 12, "6;2;5", "9;5;5", "14;5;5000")
	do(s, move(tube.Delete, 1, 7))
	check("one is left of a range", 6, 11, "6", "9;5;5", "14;5;5000")
	release := move(tube.Release, 1, 19)
	release.Pri = 5
	do(s, release)
	check("released among urgent ones", 7, 12, "6", "9;5;5", "19", "14;5;5000")
	if a := do(s, move(tube.Delete, 1, 16)); a.NotFound {
		t.Error("job 16 was not found, after one of another priority")
	}
	check("deleted in the middle, with another order", 7, 11, "6", "9;5;5", "19", "14;2;5000", "17;2;5000")
	if a := do(s, storage.Op{Kind: storage.Peek, ID: 17}); a.NotFound || string(a.Body) != "body 3" {
		t.Errorf("%+v", a)
	}
	if ids, _ := takeMany(t, s, 20); !slices.Equal(ids, []uint64{6, 9, 10, 11, 12, 13, 19, 14, 15, 17, 18}) {
		t.Errorf("took %d", ids)
	}
	check("all taken", 0, 0)
}

// TestReadyRangesPastLostRecord: jobs of a range whose record somebody has deleted are dropped,
// and the remaining ones are counted correctly.
func TestReadyRangesPastLostRecord(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	other := openAt(t, server.URL(), patient)
	putMany(t, other, 6, 5)
	putMany(t, other, 6, 5000)
	server.Client(t).Del(context.Background(), "redstalk:{0}:"+digits(2), "redstalk:{0}:"+digits(8))
	ids, bodies := takeMany(t, s, 8)
	if want := []uint64{1, 3, 4, 5, 6, 7, 9, 10}; !slices.Equal(ids, want) || bodies[7] != "body 3" {
		t.Errorf("took %d, %q, want %d", ids, bodies, want)
	}
	if got := figures(t, s); got.Urgent != 0 || got.Reserved != 8 {
		t.Errorf("%+v", got)
	}
	if got := do(s, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats; got.Ready != 2 {
		t.Errorf("%+v", got)
	}
}

// TestReadyRangesTakenOnce: a take that is repeated because its reply was lost returns the same
// jobs.
func TestReadyRangesTakenOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redstalk", "with,a;comma", "cacheless!"} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server)
			s, err := Open(context.Background(), Options{
				URL: proxy.URL(), Timeout: patient, Namespace: name, noBodyCache: name == "cacheless!", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.Listen(nopListener{})
			do(s, put("single"))
			putMany(t, s, 4, 0)
			putMany(t, s, 9, 0)
			putMany(t, openWith(t, Options{URL: server.URL(), Timeout: patient, Namespace: name}), 9, 0)
			for _, want := range []struct {
				ids    []uint64
				bodies []string
			}{
				{[]uint64{1, 2, 3, 4, 5, 6, 7}, []string{"single", "body 0", "body 1", "body 2", "body 3", "body 0", "body 1"}},
				{[]uint64{8}, []string{"body 2"}},
				{[]uint64{9, 10, 11, 12}, bodiesFrom(3, 7)},
				{[]uint64{13, 14, 15, 16}, []string{"body 7", "body 8", "body 0", "body 1"}},
			} {
				proxy.Intercept(nil, once(redistest.Drop, 1, isAnswer))
				ids, bodies := takeMany(t, s, len(want.ids))
				proxy.Intercept(nil, nil)
				if !slices.Equal(ids, want.ids) || !slices.Equal(bodies, want.bodies) {
					t.Errorf("took %d, %q; want %d, %q", ids, bodies, want.ids, want.bodies)
				}
			}
			if got := figures(t, s); got.Ready != 7 || got.Reserved != 16 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestRepairRanges damages ranges, and then finds and corrects that.
func TestRepairRanges(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	putMany(t, s, 5, 5)
	putMany(t, s, 5, 5000)
	s.Close()
	client.Del(ctx, p+digits(2))                                                 // is in the first range
	client.ZAdd(ctx, p+"ready:t", goredis.Z{Score: 5000, Member: p + digits(7)}) // twice
	client.HSet(ctx, p+"tube:t", "joined", 77, "joined-urgent", 77)              // are wrong
	_, wrong := checkAt(t, redis.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		"ready:t has " + digits(2) + ": there is no such job",
		"ready:t has " + digits(7) + ": it is in a range and by itself",
		"joined of tube:t is 77, and should be 8", "joined-urgent of tube:t is 77, and should be 4",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s\nin %s", want, text)
		}
	}
	checkAt(t, redis.URL(), true)
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	s = openAt(t, redis.URL(), patient)
	if ids, _ := takeMany(t, s, 20); !slices.Equal(ids, []uint64{1, 3, 4, 5, 6, 7, 8, 9, 10}) {
		t.Errorf("took %d", ids)
	}
	if got := figures(t, s); got.Urgent != 0 || got.Ready != 0 || got.Reserved != 9 {
		t.Errorf("%+v", got)
	}
}

// TestCheckManyRanges: ranges are checked in parts. If there are more members than a script can
// read, they are counted in parts too.
func TestCheckManyRanges(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	putMany(t, s, 3*maxTogether, 5)
	if got := client.ZCard(ctx, p+"ready:t").Val(); got != 3 {
		t.Errorf("%d members, want 3 ranges", got)
	}
	client.Del(ctx, p+digits(2), p+digits(3*maxTogether-1))
	client.HIncrBy(ctx, p+"counts", "deleted", 2)
	client.HIncrBy(ctx, p+"tube:t", "joined", 1)
	client.HIncrBy(ctx, p+"tube:t", "total", 1)
	want := []string{
		"bytes of tube:t is 5890, and should be 5876",
		"joined of tube:t is 748, and should be 747",
		"ready:t has " + digits(2) + ": there is no such job",
		"ready:t has " + digits(3*maxTogether-1) + ": there is no such job",
	}
	jobs, wrong := checkAt(t, redis.URL(), false)
	wrong = slices.DeleteFunc(wrong, func(what string) bool { return strings.Contains(what, "deleted") || strings.Contains(what, "deletes") })
	if jobs != 3*maxTogether-2 || !slices.Equal(wrong, want) {
		t.Errorf("%d jobs, %q", jobs, wrong)
	}
	var many []goredis.Z
	for i := range 2 * fsck.DefaultWork {
		many = append(many, goredis.Z{Score: 5, Member: p + digits(uint64(10_000+i))})
	}
	client.ZAdd(ctx, p+"ready:t", many...)
	if _, wrong := checkAt(t, redis.URL(), false); !strings.Contains(strings.Join(wrong, "\n"), "joined of tube:t is 748, and should be 747") {
		t.Error("not all of a large queue was looked at")
	}
	s.Close()
	if _, wrong := checkAt(t, redis.URL(), true); !strings.Contains(strings.Join(wrong, "\n"), "joined of tube:t") {
		t.Error("a repair does not look at all of a large queue")
	}
	if _, wrong := checkAt(t, redis.URL(), false); len(wrong) > 0 {
		t.Errorf("still wrong after the repair: %q", wrong)
	}
}

func TestPutsTogether(t *testing.T) {
	for _, test := range []struct {
		pris string // of puts, a letter each; upper case: to another tube; z: a with another TTR
		n    int
		same bool
	}{
		{"a", 1, false}, {"aaa", 3, false}, {"aaaa", 4, true}, {"aaaaa", 5, true},
		{"aaaab", 4, true}, {"aaab", 4, false}, {"ab", 2, false}, {"abab", 4, false},
		{"abbbb", 1, false}, {"aabbbbb", 2, false}, {"aabbcccc", 4, false}, {"aaaabbbb", 4, true},
		{"aaaaA", 4, true}, {"abA", 2, false}, {"aabbbA", 5, false},
		{"aaaaz", 4, true}, {"aaaz", 4, false}, {"azzzz", 1, false}, {"aazbbbb", 3, false},
	} {
		var ops []*storage.Op
		for _, letter := range test.pris {
			op := put("x")
			op.Pri = uint32(letter | 0x20)
			if letter < 'a' {
				op.Tube = "other"
			}
			if letter == 'z' {
				op.Pri, op.TTR = 'a', op.TTR+1
			}
			ops = append(ops, &op)
		}
		if n, same := (&call{body: 9}).consecutivePuts(ops, plainPut); n != test.n || same != test.same {
			t.Errorf("%s: %d, %v, want %d, %v", test.pris, n, same, test.n, test.same)
		}
	}
}
