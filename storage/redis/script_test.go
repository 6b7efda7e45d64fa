package redis

import (
	"context"
	"math"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestManyAtOnce: sorted sets that begin with many jobs are not stored as lists, and the trick
// that prevents it leaves nothing behind.
func TestManyAtOnce(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	s := openAt(t, server.URL(), patient)
	const n = 100
	check := func(key string, want int64) {
		t.Helper()
		key = "redstalk:{0}:" + key
		if got := client.ZCard(ctx, key).Val(); got != want {
			t.Errorf("%s has %d members, want %d", key, got, want)
		}
		if got := client.ObjectEncoding(ctx, key).Val(); want > 0 && got != "skiplist" {
			t.Errorf("%s is kept as a %s", key, got)
		}
	}
	var puts, takes []storage.Op
	for i := range n {
		op := put("x")
		op.Pri = uint32(i * 20) // 52 of them urgent
		puts, takes = append(puts, op), append(takes, take(tube.Holder(1)))
	}
	storage.DoWait(s, puts)
	check("ready:t", n)
	if got := figures(t, s); got.Urgent != 52 || got.Ready != n {
		t.Errorf("%+v", got)
	}
	storage.DoWait(s, takes)
	check("ready:t", 0)
	check("reserved:"+s.parts[0].instance.name(), n)
	for i := range takes {
		if a := takes[i].Answer; a.Err != nil || a.ID != puts[i].Answer.ID {
			t.Fatalf("take %d: %+v, want job %d", i, a, puts[i].Answer.ID)
		}
	}
	if got := figures(t, s); got.Urgent != 0 || got.Ready != 0 || got.Reserved != n {
		t.Errorf("%+v", got)
	}
}

// TestTakesPastLostRecord: a ready job whose record somebody has deleted is dropped, and the
// urgent ones are counted correctly.
func TestTakesPastLostRecord(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	puts := []storage.Op{put("a"), put("b"), put("c"), put("d")}
	puts[0].Pri, puts[1].Pri, puts[2].Pri, puts[3].Pri = 1, 2, 3, 5000
	storage.DoWait(s, puts)
	server.Client(t).Del(context.Background(), "redstalk:{0}:"+digits(puts[1].Answer.ID))
	takes := []storage.Op{take(1), take(1), take(1)}
	storage.DoWait(s, takes)
	for i, want := range []uint64{puts[0].Answer.ID, puts[2].Answer.ID, puts[3].Answer.ID} {
		if got := takes[i].Answer.ID; got != want {
			t.Errorf("take %d: job %d, want %d", i, got, want)
		}
	}
	// That one job fewer is there only fsck knows.
	if got := figures(t, s); got.Urgent != 0 || got.Reserved != 3 {
		t.Errorf("%+v", got)
	}
}

// TestUnknownState: a job whose record has an unknown letter can be peeked at, but not moved,
// and the operations beside it are carried out.
func TestUnknownState(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	ops := []storage.Op{put("a"), put("b")}
	storage.DoWait(s, ops)
	broken, other := ops[0].Answer.ID, ops[1].Answer.ID
	server.Client(t).SetRange(context.Background(), "redstalk:{0}:"+digits(broken), 0, "X")
	ops = []storage.Op{
		move(tube.Delete, 1, broken), move(tube.KickJob, 1, broken), move(tube.ReserveJob, 1, broken),
		{Kind: storage.JobStats, ID: broken}, {Kind: storage.Peek, ID: broken}, move(tube.Delete, 1, other),
	}
	storage.DoWait(s, ops)
	for i, found := range []bool{false, false, false, true, true, true} {
		if a := ops[i].Answer; a.Err != nil || a.NotFound == found {
			t.Errorf("operation %d: %+v", i, a)
		}
	}
}

// TestPutBesidePrefixes: a policy with a quota for a prefix costs puts into other tubes three short
// commands a call, and not the functions of tubes with policies.
func TestPutBesidePrefixes(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	commands := func() int {
		fewest := math.MaxInt
		for range 5 { // beside a put there can be a heartbeat
			stop := longestCalls(t, redis)
			do(s, put("x"))
			calls, _ := stop()
			fewest = min(fewest, calls)
		}
		return fewest
	}
	do(s, put("x"))
	without := commands()
	policy := &tube.Policy{QuotaJobs: 99, HasQuotaJobs: true}
	do(s, storage.Op{Kind: storage.SetPolicy, Tube: "other*", Args: &storage.Args{Policy: policy}})
	if with := commands(); without < 3 || with != without+3 {
		t.Errorf("a put is %d commands, and beside a policy for another prefix %d", without, with)
	}
	do(s, storage.Op{Kind: storage.SetPolicy, Tube: "*", Args: &storage.Args{Policy: policy}})
	if with := commands(); with < without+6 {
		t.Errorf("a put with a policy for all tubes is %d commands", with)
	}
}
