package redis

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// rollbackTest is a Redis in which a replica takes over that lacks the last writes.
type rollbackTest struct {
	url      string
	tube     string // is on the partition concerned
	primary  *redistest.Server
	replica  *redistest.Server
	takeover func() // kills the primary, and returns when the replica is in its place
}

// rollbackBySentinels lets sentinels decide.
func rollbackBySentinels(t *testing.T) rollbackTest {
	redis := redistest.StartSentinelsWithProxies(t, 1)
	primary := redis.Servers[0]
	return rollbackTest{redis.URL(), "t", primary, redis.Servers[1], func() {
		primary.Kill()
		redis.AwaitPrimary(t, primary)
	}}
}

// rollbackInCluster lets the primaries of a cluster decide.
func rollbackInCluster(t *testing.T) rollbackTest {
	redis := redistest.StartClusterWithProxies(t, 3, 1)
	primary, replica := redis.Primaries[0], redis.Replicas[0]
	number := 0
	for redis.Owner(t, schema.KeyPrefix(schema.DefaultNamespace, number), primary) != primary {
		number++
	}
	return rollbackTest{redis.URL(), tubeIn(number, clusterPartitions), primary, replica, func() {
		primary.Kill()
		redis.AwaitReplaced(t, primary)
	}}
}

// loseLaterWrites returns when the replica has everything that the primary has, and silently
// gets no more.
func (r rollbackTest) loseLaterWrites(t *testing.T) {
	t.Helper()
	if err := r.primary.Client(t).Do(context.Background(), "wait", 1, 10_000).Err(); err != nil {
		t.Fatal(err)
	}
	r.primary.Front.Of(r.replica.Pid()).Swallow(true)
}

// TestReplicaWithoutTheEnd: a replica takes over that lacks the last jobs. Their ids are not
// assigned again, neither by the instance that has put them nor by one that does not know them;
// and late commands of their holders affect neither later jobs nor jobs that the replica did
// have and others can reserve.
func TestReplicaWithoutTheEnd(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for name, start := range map[string]func(*testing.T) rollbackTest{
		"sentinels": rollbackBySentinels, "cluster": rollbackInCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := start(t)
			client := redis.replica.Client(t)
			a, b := openAt(t, redis.url, patient), openAt(t, redis.url, patient)
			known := putAll(t, b, redis.tube, 3)
			redis.loseLaterWrites(t)
			known = append(known, putAll(t, a, redis.tube, 5)...)
			held := takeAll(t, a, redis.tube, len(known))
			redis.takeover()
			if n := recordsIn(t, client); n != 3 {
				t.Fatalf("the replica has %d jobs, not just those that it was sent", n)
			}
			lost := held[3:]
			later := append(putAll(t, b, redis.tube, 5), putAll(t, a, redis.tube, 5)...)
			seen := make(map[uint64]bool)
			for _, id := range append(known, later...) {
				if seen[id] {
					t.Errorf("id %d was given twice", id)
				}
				seen[id] = true
			}
			for i, m := range []tube.Move{tube.Delete, tube.Release, tube.Bury, tube.Touch, tube.Delete} {
				if got := do(a, move(m, 1, lost[i])); got.Err != nil || !got.NotFound {
					t.Errorf("%v of a job that was lost: %+v", m, got)
				}
			}
			if got := do(b, move(tube.ReserveJob, 2, held[0])); got.Err != nil || got.NotFound {
				t.Errorf("a job that is there: %+v", got)
			}
			for _, id := range held[:2] { // one that somebody else has now, and one that is ready again
				if got := do(a, move(tube.Delete, 1, id)); got.Err != nil || !got.NotFound {
					t.Errorf("delete by who had reserved job %d before: %+v", id, got)
				}
			}
			for _, id := range append(later, held[:3]...) {
				if got := do(b, storage.Op{Kind: storage.Peek, ID: id}); got.Err != nil || got.NotFound {
					t.Errorf("job %d is gone: %+v", id, got)
				}
			}
		})
	}
}

// putAll puts n jobs, one at a time.
func putAll(t *testing.T, s *Store, name string, n int) (ids []uint64) {
	t.Helper()
	for range n {
		a := do(s, putIn(name, 0))
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// takeAll takes n jobs for holder 1, one at a time.
func takeAll(t *testing.T, s *Store, name string, n int) (ids []uint64) {
	t.Helper()
	for range n {
		a := do(s, takeFrom(1, false, name))
		if a.Err != nil || a.NotFound {
			t.Fatalf("%+v", a)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// recordsIn returns how many jobs a server has.
func recordsIn(t *testing.T, client *goredis.Client) (n int) {
	t.Helper()
	for _, key := range client.Keys(context.Background(), schema.DefaultNamespace+":{*}:*").Val() {
		if schema.IsID(key[max(len(key)-schema.IDLen, 0):]) {
			n++
		}
	}
	return n
}
