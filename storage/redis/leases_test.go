package redis

import (
	"reflect"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// leaseAll leases n jobs of a tube in one batch, whose stats are wanted.
func leaseAll(t *testing.T, s *Store, name string, n int) []storage.Op {
	t.Helper()
	ops := make([]storage.Op, n)
	for i := range ops {
		ops[i] = takeOf(tube.LeaseHolder, name)
		ops[i].Info = true
	}
	storage.DoWait(s, ops)
	for i := range ops {
		if a := &ops[i].Answer; a.Err != nil || a.NotFound || a.Result == nil || a.Job == nil {
			t.Fatalf("take %d of %d: %+v", i, n, a)
		}
	}
	return ops
}

// deleteLeased is the delete of a leased job by a token.
func deleteLeased(id, token uint64) storage.Op {
	return storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: tube.LeaseHolder, ID: id, Args: &storage.Args{Lease: token}}
}

// putAllKinds puts jobs of all kinds into tube t, and returns their bodies by their ids.
func putAllKinds(t *testing.T, s *Store, size int, group string) map[uint64]string {
	t.Helper()
	tags := []*tube.Tags{
		nil, nil, nil, {Key: "k"}, {Meta: []tube.Meta{{Name: "a", Value: "b"}}, Trace: "t"}, nil,
		{Rules: tube.Rules{Max: 3}}, {Expire: tube.LifetimeOf(3600e9)}, {Group: group}, nil,
	}
	ops := make([]storage.Op, 0, 40)
	for i := range 40 {
		op := put(string(bodyOf(byte('a'+i%26), size+i)))
		op.Pri = 7 // urgent
		if i < len(tags) && tags[i] != nil {
			op.Args = &storage.Args{Tags: tags[i]}
		}
		ops = append(ops, op)
	}
	storage.DoWait(s, ops)
	bodies := map[uint64]string{}
	for i := range ops {
		if ops[i].Answer.Err != nil {
			t.Fatalf("put %d: %+v", i, ops[i].Answer)
		}
		bodies[ops[i].Answer.ID] = string(ops[i].Body)
	}
	return bodies
}

// TestLeasesTogether: jobs of every kind that are leased together and deleted together are the same
// as others: for their stats, for those who have another token, and for fsck.
func TestLeasesTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, group string
		size        int
		policy      *tube.Policy
	}{
		{name: "small", size: 10},
		{name: "some are large", size: 4000},
		{name: "with groups", size: 10, group: "g"},
		{name: "with a policy", size: 10, policy: &tube.Policy{Rules: tube.Rules{Max: 9}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lt := newLeaseSetTest(t)
			if c.policy != nil {
				do(lt.s, storage.Op{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: c.policy}})
			}
			bodies := putAllKinds(t, lt.s, c.size, c.group)
			leased := leaseAll(t, lt.s, "t", len(bodies))
			lt.checkLeased(leased, bodies)
			lt.deleteAll(leased)
			if got := figures(t, lt.s); got.Reserved != 0 || got.Urgent != 0 || got.Ready != 0 {
				t.Errorf("deleted: %+v", got)
			}
			if _, wrong := checkAt(t, lt.redis.URL(), false); len(wrong) > 0 {
				t.Errorf("deleted: %q", wrong)
			}
		})
	}
}

// checkLeased compares what takes have answered with the bodies that were put, and with the stats.
func (lt *leaseSetTest) checkLeased(leased []storage.Op, bodies map[uint64]string) {
	lt.t.Helper()
	for i := range leased {
		a := &leased[i].Answer
		want := do(lt.s, storage.Op{Kind: storage.JobStats, ID: a.ID}).Job
		if string(a.Body) != bodies[a.ID] || want == nil || want.Metadata.Lease != a.Result.Lease {
			lt.t.Fatalf("job %d has %d bytes and the token %d: %+v", a.ID, len(a.Body), a.Result.Lease, want)
		}
		a.Job.Age, a.Job.TimeLeft = want.Age, want.TimeLeft // it is later now
		if !reflect.DeepEqual(a.Job, want) {
			lt.t.Errorf("job %d: %+v, %+v, its stats %+v, %+v", a.ID, a.Job, a.Job.Metadata, want, want.Metadata)
		}
	}
	if got := figures(lt.t, lt.s); got.Reserved != uint64(len(leased)) || got.Urgent != 0 {
		lt.t.Errorf("leased: %+v", got)
	}
	if _, wrong := checkAt(lt.t, lt.redis.URL(), false); len(wrong) > 0 {
		lt.t.Errorf("leased: %q", wrong)
	}
}

// deleteAll deletes leased jobs in one batch, each once with a wrong token and twice with its own.
func (lt *leaseSetTest) deleteAll(leased []storage.Op) {
	lt.t.Helper()
	var ops []storage.Op
	for i := range leased {
		id, token := leased[i].Answer.ID, leased[i].Answer.Result.Lease
		ops = append(ops, deleteLeased(id, token-1), deleteLeased(id, token), deleteLeased(id, token))
	}
	storage.DoWait(lt.s, ops)
	for i := range ops {
		if a := ops[i].Answer; a.Err != nil || a.NotFound != (i%3 != 1) {
			lt.t.Errorf("delete %d of job %d: %+v", i%3, ops[i].ID, a)
		}
	}
	stats := do(lt.s, storage.Op{Kind: storage.TubeStats, Tube: "t"}).TubeStats
	if stats != nil && (stats.Total != stats.Deletes || stats.Reserved != 0) {
		lt.t.Errorf("deleted: %+v", stats)
	}
}

// TestLeasesCost: many jobs that are leased together cost Redis few commands, their stats included. To delete them costs two
// for each.
func TestLeasesCost(t *testing.T) {
	lt := newLeaseSetTest(t)
	do(lt.s, storage.Op{Kind: storage.Ref, Tubes: []string{"t"}, Delta: 1})
	const n = 50
	commands := func(what func()) int { return mostCommands(t, lt.redis, what) }
	putMany(t, lt.s, n, 5)
	var leased []storage.Op
	if got := commands(func() { leased = leaseAll(t, lt.s, "t", n) }); got > 20 {
		t.Errorf("%d takes are %d commands", n, got)
	}
	ops := make([]storage.Op, n)
	for i := range ops {
		ops[i] = deleteLeased(leased[i].Answer.ID, leased[i].Answer.Result.Lease)
	}
	if got := commands(func() { storage.DoWait(lt.s, ops) }); got > 2*n+20 {
		t.Errorf("%d deletes are %d commands", n, got)
	}
}
