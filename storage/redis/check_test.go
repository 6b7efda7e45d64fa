package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

// checkAt checks a namespace and returns what is wrong, without the ids.
func checkAt(t *testing.T, url string, repair bool) (jobs int, wrong []string) {
	t.Helper()
	jobs, err := Check(context.Background(), Options{URL: url}, repair, Report{Found: func(_ int, what string) { wrong = append(wrong, what) }})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(wrong)
	return jobs, wrong
}

// fillStates puts jobs into all states: 1 and 2 are ready, 3 delayed, 4 buried,
// 5 reserved by holder 1.
func fillStates(s *Store) {
	for range 2 {
		do(s, put("x"))
	}
	do(s, storage.Op{Kind: storage.Put, Tube: "t", Delay: 1000, TTR: 600})
	for _, move := range []tube.Move{tube.Bury, tube.Touch} {
		id := do(s, storage.Op{Kind: storage.Put, Tube: "u", TTR: 600}).ID
		do(s, storage.Op{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id})
		do(s, storage.Op{Kind: storage.Move, Move: move, Holder: 1, ID: id})
	}
}

func TestCheckFindsNothing(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	fillStates(s)
	do(s, move(tube.Delete, 1, do(s, put("gone")).ID))
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != 5 || len(wrong) > 0 {
		t.Errorf("%d jobs, %q", jobs, wrong)
	}
	_, err := Check(context.Background(), Options{URL: redis.URL()}, true, Report{})
	if !errors.Is(err, ErrInstances) {
		t.Errorf("repairing while an instance runs: %v", err)
	}
	_, err = Check(context.Background(), Options{URL: redis.URL(), Namespace: "other"}, false, Report{})
	if err == nil || !strings.Contains(err.Error(), `"other" is not one of layout`) {
		t.Errorf("a namespace that is not there: %v", err)
	}
}

// TestCheckOnCluster: the partitions are found on their nodes.
func TestCheckOnCluster(t *testing.T) {
	t.Parallel()
	redis := redistest.StartCluster(t, 3, 0)
	s := openAt(t, redis.URL(), patient)
	for p := range len(s.parts) {
		do(s, putIn(tubeIn(p, len(s.parts)), 0))
	}
	if jobs, wrong := checkAt(t, redis.URL(), false); jobs != len(s.parts) || len(wrong) > 0 {
		t.Errorf("%d jobs, %q", jobs, wrong)
	}
	node := redis.Owner(t, s.parts[5].prefix, redis.Primaries[0]).Client(t)
	node.Del(context.Background(), s.parts[5].prefix+"ready:"+tubeIn(5, len(s.parts)))
	if _, wrong := checkAt(t, redis.URL(), false); !strings.Contains(strings.Join(wrong, ""), "and it is nowhere") {
		t.Errorf("%q", wrong)
	}
}

// TestRepair damages everything, and has it found and set right.
func TestRepair(t *testing.T) {
	redis := redistest.Start(t)
	ctx, client, p := context.Background(), redis.Client(t), "redstalk:{0}:"
	s := openAt(t, redis.URL(), patient)
	fillStates(s)
	s.Close()
	client.ZRem(ctx, p+"ready:t", p+digits(1))                                         // is nowhere
	client.Del(ctx, p+digits(2))                                                       // is a member of ready:t
	client.ZAdd(ctx, p+"buried:t", goredis.Z{Score: 9, Member: p + digits(3)})         // is in two places
	client.ZAdd(ctx, p+"ready:u", goredis.Z{Score: 9, Member: "0000000000000099"})     // is no job
	client.ZRem(ctx, p+"tubes", "u")                                                   // is not listed
	client.ZRem(ctx, p+"timers", "d:t")                                                // will not be due
	client.HSet(ctx, p+"counts", "urgent", 77, "delayed", 77, "buried", 77)            // are wrong
	client.HIncrBy(ctx, p+"tube:t", "deletes", 1)                                      // is wrong
	client.ZAdd(ctx, p+"reserved:nobody", goredis.Z{Score: 1, Member: "000000000077"}) // is no job, of no instance
	_, wrong := checkAt(t, redis.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		"job " + digits(1) + ": by its record it should be in ready:t, and it is nowhere",
		"ready:t has " + digits(2) + ": there is no such job",
		"job " + digits(3) + ": by its record it should be in delayed:t, and it is in delayed:t, buried:t",
		"ready:u has 0000000000000099: there is no such job",
		"job " + digits(4) + ": its tube u is not listed",
		"tube t: no timer for its first delayed job",
		"urgent of counts is 77", "delayed of counts is 77", "buried of counts is 77",
		"of tube:t is", "reserved:nobody has 000000000077: there is no such job",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if _, again := checkAt(t, redis.URL(), false); !slices.Equal(again, wrong) {
		t.Errorf("looking has changed something: %q", again)
	}
	checkAt(t, redis.URL(), true)
	if _, left := checkAt(t, redis.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
	s = openAt(t, redis.URL(), patient)
	want := tube.Totals{Urgent: 2, Ready: 2, Delayed: 1, Buried: 1, Jobs: 5, Tubes: 3}
	if got := figures(t, s); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if a := do(s, take(1)); a.ID != 1 {
		t.Errorf("took %+v, want job 1", a)
	}
}

// digits is how the key of a job ends.
func digits(id uint64) string { return string(appendID(nil, id)) }
