package redis

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// rollbacks are the ways in which Redis loses what was done since save was called.
var rollbacks = map[string]struct {
	save, lose func(t *testing.T, server *redistest.Server)
}{
	"an older snapshot": {
		func(t *testing.T, server *redistest.Server) {
			if err := server.Client(t).Save(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		},
		func(t *testing.T, server *redistest.Server) {
			server.Kill()
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
		},
	},
	"FLUSHALL": {
		func(*testing.T, *redistest.Server) {},
		func(t *testing.T, server *redistest.Server) {
			if err := server.Client(t).FlushAll(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		},
	},
}

// TestIDsGoOn: after Redis has gone back in time no id is assigned that any instance has
// assigned before, and late commands of a connection about its former job do not affect another
// one. One of the instances was idle since, so it has lost nothing and cannot know by itself.
func TestIDsGoOn(t *testing.T) {
	for name, how := range rollbacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			a, b := openAt(t, server.URL(), patient), openAt(t, server.URL(), patient)
			for range 3 {
				do(b, put("x"))
			}
			how.save(t, server)
			var last, held uint64
			for range 5 {
				last = do(a, put("y")).ID
			}
			for range 8 {
				held = do(a, take(1)).ID
			}
			if held != last || last != 8 {
				t.Fatalf("job %d is held, and %d the last one", held, last)
			}
			how.lose(t, server)
			for range 5 {
				got := do(b, put("z"))
				if got.Err != nil || got.ID <= last {
					t.Fatalf("an id that is known to clients: %+v", got)
				}
				for id := range last + 1 { // a connection that does not hold a job can delete it
					if id > 3 && do(b, storage.Op{Kind: storage.Peek, ID: id}).Body != nil {
						t.Errorf("there is a job %d", id)
					}
				}
			}
			for _, m := range []tube.Move{tube.Delete, tube.Release, tube.Bury, tube.Touch} {
				if got := do(a, move(m, 1, held)); got.Err != nil || !got.NotFound {
					t.Errorf("%v of a job that was lost: %+v", m, got)
				}
			}
		})
	}
}

// reclaimGone declares instances dead that do not exist any more, and lets another one give back what
// they had reserved.
func reclaimGone(t *testing.T, server *redistest.Server, by *Store, others ...*Store) {
	t.Helper()
	const key = "redstalk:{0}:reserved:"
	names := []string{by.parts[0].instance.name()}
	for _, s := range others {
		names = append(names, s.parts[0].instance.name())
	}
	client, ctx := server.Client(t), context.Background()
	for _, old := range client.Keys(ctx, key+"*").Val() {
		if slices.Contains(names, old[len(key):]) {
			continue
		}
		client.Set(ctx, "redstalk:{0}:batch:"+old[len(key):], "dead", 0)
		if err := by.parts[0].do(func(c *call) {
			c.add(func(r *reply) { r.int64() }, "reclaim", old[len(key):], maxMoves, -1)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGroupsAfterRollback: after Redis has gone back in time no group is above its limit, and none is stuck:
// what an instance held then is not held any more, and other instances go on.
func TestGroupsAfterRollback(t *testing.T) {
	server := redistest.Start(t)
	a, b := openAt(t, server.URL(), patient), openAt(t, server.URL(), patient)
	setPolicy(a, "t", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 2, Rates: tube.Rates{0, 1000, 0}}})
	for range 6 {
		do(a, putGroup("g"))
	}
	for range 2 {
		do(a, take(1))
	}
	how := rollbacks["an older snapshot"]
	how.save(t, server)
	for id := range uint64(2) { // in the snapshot they are reserved
		do(a, move(tube.Delete, 1, 1+id))
		do(b, take(2))
	}
	if s := groupStats(t, b, "g"); s.Reserved != 2 || s.Ready != 2 {
		t.Fatalf("before: %+v", s)
	}
	how.lose(t, server)
	for _, s := range []*Store{a, b} { // each continues under another name
		do(s, storage.Op{Kind: storage.Put, Tube: "u", TTR: 600})
	}
	if got := do(b, take(3)); !got.NotFound {
		t.Errorf("the limit is exceeded: %+v", got)
	}
	reclaimGone(t, server, b, a)
	for range 3 {
		x, y, z := do(b, take(3)), do(a, take(4)), do(b, take(3))
		if x.NotFound || y.NotFound || !z.NotFound {
			t.Errorf("took jobs %d, %d and %d, want two: %+v", x.ID, y.ID, z.ID, groupStats(t, b, "g"))
		}
		do(b, move(tube.Delete, 3, x.ID))
		do(a, move(tube.Delete, 4, y.ID))
	}
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// TestForfeited: a connection no longer owns what it held when its instance lost contact, even
// if there is a job with that id; after it has reserved that job again it does.
func TestForfeited(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := openAt(t, server.URL(), patient)
	for range 2 {
		do(s, put("x"))
	}
	do(s, take(1))
	do(s, take(1))
	if err := client.Del(context.Background(), "redstalk:{0}:batch:"+s.parts[0].instance.name()).Err(); err != nil {
		t.Fatal(err) // as if others had declared it dead
	}
	do(s, put("y"))
	for _, id := range []uint64{1, 2} { // as they have given the jobs back
		whole := client.ZRange(context.Background(), "redstalk:{0}:ready:t", 0, -1).Val()
		if got := do(s, move(tube.Delete, 1, id)); !got.NotFound {
			t.Errorf("job %d, with %q ready: %+v", id, whole, got)
		}
	}
	other := openAt(t, server.URL(), patient)
	reclaimGone(t, server, other, s)
	if got := do(s, move(tube.Delete, 1, 1)); !got.NotFound {
		t.Errorf("deleted while it is ready for others: %+v", got)
	}
	if got := do(s, move(tube.ReserveJob, 1, 1)); got.ID != 1 {
		t.Fatalf("%+v", got)
	}
	if got := do(s, move(tube.Delete, 1, 1)); got.NotFound || got.Err != nil {
		t.Errorf("had again: %+v", got)
	}
	if got := do(s, move(tube.Delete, 2, 2)); got.NotFound || got.Err != nil {
		t.Errorf("by another connection: %+v", got)
	}
	do(s, storage.Op{Kind: storage.ReleaseAll, Holder: 1})
	if n := len(s.parts[0].holdings.forfeited); n != 0 {
		t.Errorf("%d holders that are gone are still known", n)
	}
}

// TestLayoutIsMarkedAgain: a namespace that was emptied under a running instance is marked by
// its next call, so that another number of partitions is refused.
func TestLayoutIsMarkedAgain(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	if err := server.Client(t).FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	if a := do(s, put("x")); a.Err != nil {
		t.Fatal(a.Err)
	}
	if _, err := Open(context.Background(), Options{URL: server.URL(), Partitions: 3}); err == nil {
		t.Error("an instance with other partitions was let in")
	}
	o := Options{URL: server.URL()}
	if _, err := fsck.Check(context.Background(), fsckOptions(o), false, fsck.Report{Found: func(_ int, what string) { t.Error(what) }}); err != nil {
		t.Error(err)
	}
}

// TestClockStep: when the clock of Redis is set, by any amount, while Redis works or is down,
// instances that keep sending heartbeats are not declared dead, and one that sends none is, as
// soon as usual.
func TestClockStep(t *testing.T) {
	const day = 24 * time.Hour
	n := 0
	for name, step := range map[string]time.Duration{"nothing": 0, "a minute": time.Minute, "a day": day + time.Minute, "a year": 365 * day, "a day back": -day} {
		for _, when := range []string{"noticed by a call", "noticed by a heartbeat", "while Redis is away"} {
			if n++; !inThisHalf(n) {
				continue
			}
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				testClockStep(t, step, when)
			})
		}
	}
}

func testClockStep(t *testing.T, by time.Duration, when string) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always") // else a write can wait for a slow disk when it is killed
	var step, ahead atomic.Int64
	o := Options{
		URL: server.URL(), Timeout: patient, redisStep: func() time.Duration { return time.Duration(step.Load()) },
		skew: func() time.Duration { return time.Duration(ahead.Load()) },
	}
	a, b, dead := openWith(t, o), openWith(t, o), openWith(t, o)
	for i, s := range []*Store{b, dead} {
		do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: math.MaxUint32})
		if got := do(s, take(1)); got.ID != uint64(i+1) {
			t.Fatalf("%+v", got)
		}
	}
	dead.crash()
	assumeAlive(a)
	if when == "while Redis is away" {
		server.Kill()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	step.Store(int64(by))
	if when != "noticed by a heartbeat" {
		do(a, put("x"))
	}
	took := time.Duration(0)
	for figures(t, a).Reserved == 2 && took < 5*schema.HeartbeatTimeout {
		begun := time.Now()
		for _, s := range []*Store{a, b} {
			p := s.parts[0]
			p.do(func(*call) { p.heartbeat.last = time.Time{} }) // a busy machine is not what is tested
			p.do(p.encodeHeartbeat)
		}
		if took += heartbeatEvery; time.Since(begun) > schema.SlowCall {
			took = 0 // a slow call has put it off
		}
		ahead.Add(int64(heartbeatEvery))
	}
	if got := do(b, move(tube.Touch, 1, 1)); got.Err != nil || got.NotFound {
		t.Errorf("a job of a living instance was given away: %+v", got)
	}
	if got := do(a, move(tube.ReserveJob, 1, 2)); got.Err != nil || got.NotFound || took > 2*schema.HeartbeatTimeout {
		t.Errorf("the job of the dead one, after %v: %+v", took, got)
	}
}

// TestRepeatIsWritten: a repeated reply writes again, even if Redis has no memory, so that an
// instance that waits for replicas has a write to wait for.
func TestRepeatIsWritten(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	ctx := context.Background()
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	do(s, put("x"))
	changes := func() string {
		return conn.InfoValue(client.Info(ctx, "persistence").Val(), "rdb_changes_since_last_save")
	}
	var before string
	var first sync.Once
	proxy.Intercept(nil, func(piece []byte) redistest.Fate {
		fate := redistest.Pass
		if isAnswer(piece) {
			first.Do(func() {
				client.ConfigSet(ctx, "maxmemory", "1")
				before, fate = changes(), redistest.Cut
			})
		}
		return fate
	})
	if a := do(s, take(1)); a.ID != 1 || string(a.Body) != "x" {
		t.Errorf("%+v", a)
	}
	if after := changes(); before == "" || after == before {
		t.Errorf("nothing was written: %s changes before, %s after", before, after)
	}
	client.ConfigSet(ctx, "maxmemory", "0")
}

// afterChange is a link whose pool has met another process.
type afterChange struct{ conn.Link }

func (a afterChange) Connect(node conn.Node) (changes uint64, err error) {
	changes, err = a.Link.Connect(node)
	return changes + 1, err
}

// TestAnotherConnectionMeetsItFirst: after a restart of Redis, the first connection that leads
// to the new process is refused, whatever it is for. If a call gets the second one, its jobs
// have unknown ids too.
func TestAnotherConnectionMeetsItFirst(t *testing.T) {
	s := openAt(t, redistest.Start(t).URL(), patient)
	first, p := do(s, put("x")).ID, s.parts[0]
	replaced := make(chan struct{})
	p.submit(&unit{mustRun: true, background: func(*call) {
		p.link = afterChange{p.link}
		close(replaced)
	}})
	<-replaced
	if got := do(s, put("x")); got.Err != nil || got.ID < first+maxIDRate {
		t.Errorf("after %d: %+v", first, got)
	}
}
