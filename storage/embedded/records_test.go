package embedded

import (
	"fmt"
	"testing"

	"redstalk/storage"
	"redstalk/tube"
)

// TestManyDueRecords: an operation that claims records in parts returns those of all parts, each once.
func TestManyDueRecords(t *testing.T) {
	e := NewMemory()
	defer e.Close()
	for i := range 2 * partWork {
		name := fmt.Sprint("s", i)
		do(t, e, storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Name: name, Schedule: &tube.Schedule{Name: name, Version: 1, Tube: "t", TTR: 60, Due: 1}}})
	}
	claim := func() (names map[string]bool) {
		names = make(map[string]bool)
		for _, r := range do(t, e, storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: tube.MaxListed})[0].Answer.Result.Records {
			names[r.RecordName()] = true
		}
		return names
	}
	first, second := claim(), claim()
	for name := range second {
		if first[name] {
			t.Errorf("%s is claimed twice", name)
		}
	}
	if len(first) != tube.MaxListed || len(first)+len(second) != 2*partWork {
		t.Errorf("claimed %d and %d of %d", len(first), len(second), 2*partWork)
	}
}

// TestSettleOtherPart: a store of one part has no record in another one.
func TestSettleOtherPart(t *testing.T) {
	e := NewMemory()
	defer e.Close()
	do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Args: &storage.Args{Tags: &tube.Tags{Batch: "b"}}})
	ops := []storage.Op{{Kind: storage.SettleBatch, MaxJobs: 1, Args: &storage.Args{Name: "b", Settle: &tube.Settlement{Part: 1}}}}
	if storage.DoWait(e, ops); !ops[0].Answer.NotFound {
		t.Errorf("%+v", ops[0].Answer)
	}
}
