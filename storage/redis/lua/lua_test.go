package lua

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
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
local function number(k) return tonumber(ARGV[k]) end
local rules = { retry = #ARGV > 7 and {} or nil, max = number(1), doubled = number(6) > 0 and number(6) or nil }
if number(7) > 0 then rules.jitter = number(7) - 1 end
for k = 8, #ARGV do rules.retry[k - 7] = number(k) end
local why, wait = after(rules, number(5), number(2), number(3), number(4))
return { why, string.format('%.0f', wait) }`
	const second, longest = time.Second, 10 * 365 * 24 * time.Hour
	for _, r := range []tube.Rules{
		{}, {Max: 1}, {Max: 3}, {Retry: []time.Duration{0}}, {Retry: []time.Duration{0, second, 4 * second}, Max: 2},
		{Retry: []time.Duration{second, longest, 3 * second}, Jitter: tube.JitterOf(100)}, {Retry: []time.Duration{second, 0}, Jitter: tube.JitterOf(33), Max: 4},
		{Retry: []time.Duration{second, time.Hour}, Doubled: 3}, {Retry: []time.Duration{time.Millisecond, longest}, Doubled: 250, Jitter: tube.JitterOf(0)},
		{Retry: []time.Duration{7 * time.Millisecond, longest}, Doubled: 250, Jitter: tube.JitterOf(100)},
	} {
		args := []any{r.Max, 0, 0, 0, 0, r.Doubled, uint8(r.Jitter)}
		for _, wait := range r.Retry {
			args = append(args, wait.Milliseconds())
		}
		for _, o := range []tube.Outcome{tube.Failure, tube.Lost, tube.Refused} {
			for _, failures := range []uint32{0, 1, 2, 3, 4, 60, 250, 251, 1<<32 - 1} {
				for deliveries := range uint32(5) {
					id := uint64(failures)*977 + 1<<uint64(deliveries*13)
					args[1], args[2], args[3], args[4] = int(o), failures, deliveries, id
					got, err := client.Eval(ctx, text, nil, args...).Slice()
					if err != nil {
						t.Fatal(err)
					}
					why, wait := tube.After(&r, id, o, failures, deliveries)
					if want := []any{int64(why), fmt.Sprint(wait.Milliseconds())}; !slices.Equal(got, want) {
						t.Errorf("%+v, job %d after %d, %d failures, %d deliveries: %v, want %v", r, id, o, failures, deliveries, got, want)
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

// TestPolicyFields checks that the scripts use no field of a policy that its text does not have: a misspelled one would
// be nil, which means that it is not set.
func TestPolicyFields(t *testing.T) {
	known := make(map[string]bool)
	for name := range schema.PolicyWords() {
		known["policy."+strings.ReplaceAll(name, "-", "_")] = true
	}
	for _, used := range regexp.MustCompile(`\bpolicy\.[a-z_]+`).FindAllString(BatchText(), -1) {
		if !known[used] {
			t.Errorf("a script uses %s, and there is no such field", used)
		}
	}
}

// TestNamesInTables checks that the scripts use no function of one of their tables that no file defines. Such a name is
// nil until it is called, and OPS would first define all operations to find it.
func TestNamesInTables(t *testing.T) {
	used, defined := make(map[string]string), make(map[string]bool)
	err := fs.WalkDir(Files, ".", func(path string, _ fs.DirEntry, err error) error {
		text, _ := Files.ReadFile(path) // a directory has none
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "--")
			for _, name := range inTable.FindAllString(code, -1) {
				used[name] = path
			}
			head := inTable.FindAllString(beforeAssignment.FindString(code), -1)
			for _, name := range head {
				defined[name] = true
			}
		}
		return err
	})
	if err != nil || len(defined) < 100 {
		t.Fatalf("found %d definitions, %v", len(defined), err)
	}
	for name, path := range used {
		if !defined[strings.Replace(name, "SLOW.", "OPS.", 1)] {
			t.Errorf("%s uses %s, which no file defines", path, name)
		}
	}
}

// inTable matches a name in one of the scripts' tables of functions; beforeAssignment, where such names are defined.
var (
	inTable          = regexp.MustCompile(`\b(OPS|SLOW|COMMANDS|STEPS|G|B)\.[a-z_]+`)
	beforeAssignment = regexp.MustCompile(`^\s*(function [^(]*\(|[^=]*=[^=])`)
)
