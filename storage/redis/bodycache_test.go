package redis

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// recordsRead returns how many commands have read records since its last call. Each call of the script
// asks for its last batch by the same command.
func recordsRead(t *testing.T, client *goredis.Client) int {
	t.Helper()
	ctx, n := context.Background(), 0
	for _, line := range strings.Fields(client.Info(ctx, "commandstats").Val()) {
		var calls int
		switch name, rest, _ := strings.Cut(line, ":calls="); name {
		case "cmdstat_mget":
			fmt.Sscanf(rest, "%d", &calls)
			n += calls
		case "cmdstat_evalsha", "cmdstat_eval":
			fmt.Sscanf(rest, "%d", &calls)
			n -= calls
		}
	}
	client.ConfigResetStat(ctx)
	return n
}

// bodiesFrom returns the bodies of putMany.
func bodiesFrom(from, upto int) []string {
	var all []string
	for i := from; i < upto; i++ {
		all = append(all, fmt.Sprint("body ", i))
	}
	return all
}

// TestOwnBodies: Redis does not return bodies that the instance has recently put into a range,
// in a lease set or not. It returns those that other instances have put, that were put long
// ago, or whose job is no longer in the range.
func TestOwnBodies(t *testing.T) {
	lt := newLeaseSetTest(t)
	other := lt.open(lt.redis.URL(), patient)
	recordsRead(t, lt.client)
	taken := func(what string, s *Store, reads int, want []string) {
		t.Helper()
		_, bodies := takeMany(t, s, len(want))
		if !slices.Equal(bodies, want) {
			t.Errorf("%s: took %q, want %q", what, bodies, want)
		}
		if got := recordsRead(t, lt.client); got != reads {
			t.Errorf("%s: records were read %d times, want %d", what, got, reads)
		}
	}
	putMany(t, lt.s, 50, 5)
	taken("its own", lt.s, 0, bodiesFrom(0, 7))
	taken("a lease set of its own", lt.s, 0, bodiesFrom(7, 30))
	taken("those of another instance", other, 1, bodiesFrom(30, 35))
	taken("what that one has left", lt.s, 0, bodiesFrom(35, 50))
	putMany(t, lt.s, 10, 5)
	putMany(t, other, 10, 5)
	taken("its own and those of another", lt.s, 1, slices.Concat(bodiesFrom(0, 10), bodiesFrom(0, 10)))
	first := putMany(t, lt.s, 10, 5)
	do(lt.s, move(tube.Delete, 1, first+4))
	do(lt.s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 7, ID: first + 8})
	do(lt.s, move(tube.Release, 7, first+8)) // urgent, it is before the others
	recordsRead(t, lt.client)
	taken("out of the middle", lt.s, 1, slices.Concat(bodiesFrom(8, 9), bodiesFrom(0, 4), bodiesFrom(5, 8), bodiesFrom(9, 10)))
	putMany(t, lt.s, 10, 5)
	lt.ahead.Add(int64(cacheFor))
	taken("long ago", lt.s, 1, bodiesFrom(0, 10))
	cache := lt.s.parts[0].bodies
	putMany(t, lt.s, 10, 5)
	if cache.bytes <= 0 || len(cache.ranges) == 0 {
		t.Errorf("%d bytes in %d ranges are cached", cache.bytes, len(cache.ranges))
	}
	taken("a moment ago", lt.s, 0, bodiesFrom(0, 10))
	do(lt.s, storage.Op{Kind: storage.Peek, ID: 1})
	if cache.bytes != 0 || len(cache.ranges) != 0 {
		t.Errorf("%d bytes in %d ranges are cached of what is gone", cache.bytes, len(cache.ranges))
	}
	cache.limit = 100
	putMany(t, lt.s, 10, 5)
	putMany(t, lt.s, 10, 5)
	taken("a range, and another one for which there was no room", lt.s, 1, slices.Concat(bodiesFrom(0, 10), bodiesFrom(0, 10)))
	if _, wrong := checkAt(t, lt.redis.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// TestOwnBodyAfterRename: a connection that takes a job of a range of its instance can use it
// in the same batch.
func TestOwnBodyAfterRename(t *testing.T) {
	lt := newLeaseSetTest(t)
	first := putMany(t, lt.s, 10, 5)
	ops := []storage.Op{take(1), move(tube.Delete, 1, first), take(1), take(2)}
	storage.DoWait(lt.s, ops)
	for i, want := range map[int]string{0: "body 0", 2: "body 1", 3: "body 2"} {
		if a := ops[i].Answer; a.Err != nil || string(a.Body) != want {
			t.Errorf("operation %d: %+v, want %q", i, a, want)
		}
	}
	if a := ops[1].Answer; a.Err != nil || a.NotFound {
		t.Errorf("%+v", a)
	}
	lt.check("one deleted, two reserved", 2, "2", "3")
}

// TestBodyCacheAfterRollback: after Redis has lost everything, ids begin again, and belong to
// other jobs.
func TestBodyCacheAfterRollback(t *testing.T) {
	lt := newLeaseSetTest(t)
	putMany(t, lt.s, 10, 5)
	lt.client.FlushDB(context.Background())
	prepare(context.Background(), nodeOf(t, lt.s), lt.s.parts[0].options)
	ops := make([]storage.Op, 10)
	for i := range ops {
		ops[i] = put(fmt.Sprint("new ", i))
	}
	other := lt.open(lt.redis.URL(), patient)
	storage.DoWait(other, ops)
	_, bodies := takeMany(t, lt.s, 10)
	if len(bodies) != 10 || bodies[0] != "new 0" || ops[0].Answer.ID != 1 {
		t.Errorf("took %q, of which the first is job %d", bodies, ops[0].Answer.ID)
	}
	if cache := lt.s.parts[0].bodies; cache.bytes != 0 {
		t.Errorf("%d bytes are cached", cache.bytes)
	}
	putMany(t, lt.s, 10, 5)
	recordsRead(t, lt.client)
	takeMany(t, lt.s, 10)
	if n := recordsRead(t, lt.client); n != 0 {
		t.Errorf("what was put since is not cached: records were read %d times", n)
	}
}

// TestBodiesOfMany: two instances put, take, release and delete jobs of one tube at random,
// with several partitions or one, and compare every body.
func TestBodiesOfMany(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			server := redistest.Start(t)
			m := &cutTest{t: t, rng: rand.New(rand.NewPCG(5, uint64(partitions))), bodies: make(map[uint64]string), held: make(map[uint64]int)}
			for range 2 {
				m.stores = append(m.stores, openWith(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient}))
			}
			for range 600 {
				m.step()
			}
			if m.taken < 1000 {
				t.Errorf("only %d jobs were taken", m.taken)
			}
		})
	}
}

// cutTest is what TestBodiesOfMany has put and taken.
type cutTest struct {
	t      *testing.T
	rng    *rand.Rand
	stores []*Store
	bodies map[uint64]string
	held   map[uint64]int // by which instance
	taken  int
}

func (m *cutTest) step() {
	at := m.rng.IntN(len(m.stores))
	var ops []storage.Op
	n := 1 + m.rng.IntN(20)
	switch m.rng.IntN(5) {
	case 0, 1:
		for range n {
			op := put(fmt.Sprint("body ", m.rng.Uint64()))
			op.Tube = fmt.Sprint("t", n%3)
			ops = append(ops, op)
		}
	case 2, 3:
		for range n {
			op := take(1)
			op.Tubes = []string{"t0", "t1", "t2"}[n%3 : n%3+1]
			ops = append(ops, op)
		}
	default:
		for _, id := range slices.Sorted(maps.Keys(m.held)) {
			if m.held[id] == at && len(ops) < n {
				ops = append(ops, move([]tube.Move{tube.Delete, tube.Release}[m.rng.IntN(2)], 1, id))
			}
		}
	}
	storage.DoWait(m.stores[at], ops)
	for i := range ops {
		m.note(at, &ops[i])
	}
}

func (m *cutTest) note(at int, op *storage.Op) {
	a := op.Answer
	switch {
	case a.Err != nil || op.Kind == storage.Move && a.NotFound:
		m.t.Fatalf("%+v", *op)
	case op.Kind == storage.Put:
		m.bodies[a.ID] = string(op.Body)
	case op.Kind == storage.Take && !a.NotFound:
		if m.taken++; string(a.Body) != m.bodies[a.ID] {
			m.t.Errorf("job %d has the body %q, want %q", a.ID, a.Body, m.bodies[a.ID])
		}
		m.held[a.ID] = at
	case op.Kind == storage.Move:
		delete(m.held, op.ID)
	}
}

// putsFrom returns answered puts of one partition of three, the first one with that id. An
// empty body is nil.
func putsFrom(first uint64, bodies ...string) (puts []*storage.Op) {
	for i, body := range bodies {
		op := put(body)
		if body == "" {
			op.Body = nil
		}
		op.Answer.ID = first + 3*uint64(i)
		puts = append(puts, &op)
	}
	return puts
}

// TestBodyCache keeps, takes and forgets ranges, in one partition of three.
func TestBodyCache(t *testing.T) {
	m := newBodyCache(Options{Partitions: 3})
	begun := time.Unix(1000, 0)
	keep := func(first uint64, after time.Duration, bodies ...string) {
		m.keep(putsFrom(first, bodies...), begun.Add(after))
	}
	want := func(id uint64, body string, textOK bool) {
		t.Helper()
		job, ok := m.take(id)
		if ok != textOK || string(job.body) != body || textOK && (job.tube != "t" || job.ttr != 600*time.Second) {
			t.Errorf("job %d: %+v, %v; want %q, %v", id, job, ok, body, textOK)
		}
	}
	want(1, "", false)
	keep(10, 0, "a", "b", "")
	keep(40, time.Second, "d", "e")
	keep(70, 2*time.Second, "f")
	want(13, "b", true)
	want(13, "", false)
	want(16, "", true)
	want(70, "f", true)
	want(43, "e", true)
	for _, id := range []uint64{1, 11, 19, 46, 73} {
		want(id, "", false)
	}
	if at := m.since(begun.Add(cacheFor - 1)); at != 0 {
		t.Errorf("cached from %d on, want all", at)
	}
	if at := m.since(begun.Add(cacheFor)); at != 19 {
		t.Errorf("cached from %d on, want 19", at)
	}
	want(10, "a", true) // a call that was made before
	m.forget(19)
	want(40, "d", true)
	m.forget(19)
	if m.bytes != 0 || m.done != 0 || len(m.ranges) != 0 || m.since(begun.Add(time.Hour)) != 19 {
		t.Errorf("%+v is left", m)
	}
	keep(100, 0, "first")
	for i := range uint64(1000) {
		keep(200+3*i, 0, "x")
		want(200+3*i, "x", true)
	}
	if len(m.ranges) > 200 {
		t.Errorf("%d empty ranges are still there", len(m.ranges))
	}
	want(100, "first", true)
	keep(5000, 0, "z")
	if m.since(begun.Add(time.Hour)) != 5003 {
		t.Error("the last range is not old")
	}
	if m.forget(5003); m.bytes != 0 || len(m.ranges) != 0 {
		t.Errorf("%+v is left", m)
	}
}
