package lua

import (
	"context"
	"fmt"
	"testing"
	"time"

	"redstalk/storage/redis/redistest"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// TestArrowsInBulk checks the assumptions of the script where it does not read or write the
// records of jobs: lua/batch/take.lua, lua/fast/delete_held.lua, and package schema.
func TestArrowsInBulk(t *testing.T) {
	found := 0
	for _, a := range tube.Arrows() {
		switch {
		case a.Move == tube.Delete && a.From == tube.Reserved:
			if found++; !a.Held || a.To != tube.Gone || a.Counts != tube.NoCounter || a.Sets != tube.SetsNothing {
				t.Errorf("deleting a reserved job: %+v", a)
			}
		case a.Move == tube.Reserve:
			if found++; a.Held || a.From != tube.Ready || a.To != tube.Reserved || a.Sets != tube.SetsNothing {
				t.Errorf("reserving: %+v", a)
			}
		}
		into := a.To == tube.Reserved && a.From != tube.Reserved
		if into != (a.Counts == tube.Reserves) {
			t.Errorf("being reserved must count as such, and nothing else: %+v", a)
		}
	}
	if found != 2 {
		t.Errorf("found %d of 2 arrows", found)
	}
}

// TestAfterInLua: Lua computes the same as tube.Rules.After.
func TestAfterInLua(t *testing.T) {
	client, ctx := redistest.Start(t).Client(t), context.Background()
	text := after() + `
local rules = { retry = #ARGV > 4 and {} or nil, max = tonumber(ARGV[1]) }
for k = 5, #ARGV do rules.retry[k - 4] = tonumber(ARGV[k]) end
return { after(rules, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])) }`
	for max := range uint32(4) {
		for waits := range 4 {
			r := tube.Rules{Max: max}
			args := []any{max, 0, 0, 0}
			for k := range waits {
				r.Retry = append(r.Retry, time.Duration(k*k)*time.Second)
				args = append(args, k*k*1000)
			}
			for _, o := range []tube.Outcome{tube.Failure, tube.Lost, tube.Refused} {
				for failures := range uint32(6) {
					for deliveries := range uint32(6) {
						args[1], args[2], args[3] = int(o), failures, deliveries
						got, err := client.Eval(ctx, text, nil, args...).Int64Slice()
						if err != nil {
							t.Fatal(err)
						}
						why, wait := r.After(o, failures, deliveries)
						if got[0] != int64(why) || got[1] != wait.Milliseconds() {
							t.Errorf("%+v after %d, %d failures, %d deliveries: %v, want %d, %v", r, o, failures, deliveries, got, why, wait)
						}
					}
				}
			}
		}
	}
}

// TestPlacementInLua: Lua finds the same partition of a tube as Go.
func TestPlacementInLua(t *testing.T) {
	client, ctx := redistest.Start(t).Client(t), context.Background()
	for _, of := range []int{1, 3, 16, 1024} {
		for n := range 30 {
			name := fmt.Sprint("tube-", n*n, "$")
			got, err := client.Eval(ctx, fmt.Sprintf("local partitions = %d\n", of)+placement()+"return partition_of(ARGV[1])", nil, name).Int()
			if err != nil || got != schema.PartitionOf(name, of) {
				t.Errorf("%s of %d: %d, %v, want %d", name, of, got, err, schema.PartitionOf(name, of))
			}
		}
	}
}
