package redis

import (
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestCheckOfEnded: fsck finds what is wrong about records of ended jobs, both ways, and repairs it.
func TestCheckOfEnded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, client, p := t.Context(), server.Client(t), "redstalk:{0}:"
	s := newEndedTest(t, Options{URL: server.URL()})
	s.keep("t", tube.Policy{Rules: keepAnHour, KeepBytes: 1 << 30, HasKeepBytes: true})
	s.keep("u*", tube.Policy{KeepBytes: 5, HasKeepBytes: true})
	ids := s.finishMany("t", 20, 0)
	s.finishMany("t", 3, 70)
	member := s.put("x", tube.Tags{Batch: "b"})
	s.ok(move(tube.Delete, 1, member))
	waiting := s.put("x", tube.Tags{})
	do(s.Store, storage.Op{Kind: storage.WaitEnded, ID: waiting, Wait: true})
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Fatalf("%q", wrong)
	}
	s.Close()
	names := client.ZRange(ctx, p+"ended-of:t", 0, -1).Val()
	first := client.ZRange(ctx, p+"ended-ids", 0, 0).Val()[0]
	client.Del(ctx, p+"ended-of:x", p+"ended-in:b", p+"keeping")
	client.ZRem(ctx, p+"ended-until", names[0])
	client.ZRem(ctx, p+"ended-ids", first)
	client.ZRem(ctx, p+"ended-tubes", "t")
	client.ZAdd(ctx, p+"ended-tubes", goredis.Z{Score: 1, Member: "none"})
	client.ZAdd(ctx, p+"ended-of:t", goredis.Z{Score: 7, Member: "7"})
	client.ZAdd(ctx, p+"ended-ids", goredis.Z{Member: "0000000000000099;1;7"})
	client.Set(ctx, p+"ended:12", "nonsense", 0)
	client.HIncrBy(ctx, p+"ended-bytes", "t", 5)
	client.HIncrBy(ctx, p+"counts", "ended-records", 5)
	client.HSet(ctx, p+"ended-waits", "0000000000000099", "12345678 ")
	client.HDel(ctx, p+"keep-policies", "t")
	client.HSet(ctx, p+"keep-policies", "v", "1 2")
	_, wrong := checkAt(t, server.URL(), false)
	slices.Sort(wrong)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		"ended-of:x lacks", "ended-in:b lacks", "keeping is wrong", "ended-until lacks " + names[0], "ended-ids lacks " + first, "ended-tubes has t at nowhere",
		"ended-tubes has none", "ended-of:t has 7", "ended-ids has 0000000000000099", "ended:12 is broken", "t of ended-bytes is", "ended-records of counts is 29, and should be 24",
		"ended-waits has 0000000000000099", "keep-policies is wrong about t", "keep-policies is wrong about v",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	if _, wrong := checkAt(t, server.URL(), true); len(wrong) == 0 {
		t.Error("nothing was repaired")
	}
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("after the repair: %q", wrong)
	}
	again := newEndedTest(t, Options{URL: server.URL()})
	if e := again.record(ids[0]); e.How != tube.Done || again.record(member).Batch != "b" {
		t.Errorf("%+v", e)
	}
	again.checkBytes("t", "x")
}
