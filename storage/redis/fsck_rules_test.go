package redis

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestCheckOfExpiry: what expires is compared with the jobs, both ways: also with those of a range.
// A tick can have removed what is buried or reserved.
func TestCheckOfExpiry(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	expiring := func(delay time.Duration) storage.Op {
		tags := &tube.Tags{Expire: tube.LifetimeOf(time.Hour), Delay: delay, HasDelay: true}
		return storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Args: &storage.Args{Tags: tags}}
	}
	var ops []storage.Op
	for range 2 + schema.RangeFrom {
		ops = append(ops, expiring(0))
	}
	storage.DoWait(s, ops[:2])
	storage.DoWait(s, ops[2:])
	inRange, other := ops[3].Answer.ID, ops[1].Answer.ID
	delayed, plain, reserved, buried := do(s, expiring(time.Hour)).ID, do(s, put("x")).ID, do(s, expiring(0)).ID, do(s, expiring(0)).ID
	for _, id := range []uint64{reserved, buried} {
		do(s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
	}
	do(s, move(tube.Bury, 1, buried))
	client.ZRem(ctx, p+"expiring", p+digits(reserved), p+digits(buried))
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != len(ops)+4 || len(wrong) > 0 {
		t.Fatalf("%d jobs, %q", jobs, wrong)
	}
	s.Close() // what was reserved is ready now
	client.ZRem(ctx, p+"expiring", p+digits(inRange), p+digits(delayed))
	client.ZAdd(ctx, p+"expiring", goredis.Z{Score: 7, Member: p + digits(other)}, goredis.Z{Score: 8, Member: p + digits(plain)},
		goredis.Z{Score: 9, Member: p + digits(99)}, goredis.Z{Score: 10, Member: "other"})
	_, wrong := checkAt(t, redis.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		"job " + digits(inRange) + ": it expires at ", "job " + digits(delayed) + ": it expires at ", "job " + digits(reserved) + ": it expires at ",
		"and in expiring that is 7", "and in expiring that is nowhere",
		"expiring has " + digits(plain) + ": there is no such job that expires",
		"expiring has " + digits(99) + ": there is", "expiring has other: there is",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if len(wrong) != 7 {
		t.Errorf("%d faults: %q", len(wrong), wrong)
	}
	if _, repaired := checkAt(t, redis.URL(), true); !slices.Equal(repaired, wrong) {
		t.Errorf("repaired %q", repaired)
	}
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	if n := client.ZCard(ctx, p+"expiring").Val(); n != int64(len(ops))+2 {
		t.Errorf("%d jobs expire", n)
	}
}

// TestCheckOfPrefixes: all partitions have the policies of prefixes, and what of them concerns
// puts.
func TestCheckOfPrefixes(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client := context.Background(), redis.Client(t)
	s := openWith(t, Options{URL: redis.URL(), Partitions: 3, Timeout: patient})
	policy := &tube.Policy{Rules: tube.Rules{Max: 5}, QuotaJobs: 7, HasQuotaJobs: true}
	for _, pattern := range []string{"a*", "b*", "c*"} {
		do(s, storage.Op{Kind: storage.SetPolicy, Tube: pattern, Args: &storage.Args{Policy: policy}})
	}
	home := partitionOfTubes([]string{"a*"}, 3)
	prefix := func(n int) string { return s.parts[(home+n)%3].prefix }
	s.Close()
	if _, wrong := checkAt(t, redis.URL(), false); len(wrong) > 0 {
		t.Fatalf("%q", wrong)
	}
	client.HSet(ctx, prefix(1)+"prefixes", "a*", "max:6")
	client.HDel(ctx, prefix(2)+"prefixes", "a*")
	client.HDel(ctx, prefix(2)+"prefix-limits", "a*")
	client.HSet(ctx, prefix(0)+"prefix-limits", "a*", "8 -", "d*", "- -")
	want := []string{
		`prefix-limits has "" for a*, and should have "7 -"`, `prefix-limits has "- -" for d*, and should have ""`,
		`prefix-limits has "8 -" for a*, and should have "7 -"`,
		`prefixes has "" for a*, and should have "max:5 quota-jobs:7"`, `prefixes has "max:6" for a*, and should have "max:5 quota-jobs:7"`,
	}
	for _, repair := range []bool{false, true} {
		if _, wrong := checkAt(t, redis.URL(), repair); !slices.Equal(wrong, want) {
			t.Errorf("%q", wrong)
		}
	}
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
}
