package redis

import (
	"fmt"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestTalliesOfInstances: two instances add to the tallies of the same tubes, in several partitions.
func TestTalliesOfInstances(t *testing.T) {
	e := &engines{url: redistest.Start(t).URL(), partitions: 3}
	engine := e.fresh(t)
	stores := []storage.Store{engine.Plain.Open(t), engine.Plain.Open(t)}
	for number := range uint64(3) {
		for i, s := range stores {
			args := &storage.Args{Tallies: &storage.Tallies{From: fmt.Sprint("instance", i), Number: number + 1, Rows: []tube.TubeTally{
				{Tube: "", Tally: tube.Tally{3}}, {Tube: "a", Tally: tube.Tally{1}}, {Tube: "b", Tally: tube.Tally{1}},
			}}}
			ops := []storage.Op{{Kind: storage.AddTallies, Args: args}, {Kind: storage.AddTallies, Args: args}}
			if storage.DoWait(s, ops); ops[0].Answer.Err != nil || ops[1].Answer.Err != nil {
				t.Fatal(ops[0].Answer.Err, ops[1].Answer.Err)
			}
		}
	}
	for i, s := range stores {
		for name, want := range map[string]uint64{"": 18, "a": 6, "b": 6, "c": 0} {
			ops := []storage.Op{{Kind: storage.ReadTallies, Tube: name, Args: &storage.Args{Tallies: &storage.Tallies{Period: tube.Days, Count: 2}}}}
			storage.DoWait(s, ops)
			got := uint64(0)
			for _, one := range ops[0].Answer.Result.Tallies {
				got += one.Tally[tube.TallyPuts]
			}
			if got != want {
				t.Errorf("instance %d: %d puts of %q, want %d", i, got, name, want)
			}
		}
	}
	for _, s := range stores {
		s.Close()
	}
	e.check(t)
}
