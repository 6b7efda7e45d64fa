package embedded

import (
	"errors"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// countInTables returns how many tombstones and policies the tables have.
func countInTables(t *testing.T, e *Engine) (keys, policies int) {
	t.Helper()
	anyTube := func(string) bool { return true }
	err := errors.Join(
		e.journal.tables.Tombstones(func(tables.TubeKey, tables.Tombstone) { keys++ }),
		e.journal.tables.Policies(func(b []byte) string { return string(b) }, anyTube, func(string, *tube.Policy) { policies++ }),
	)
	if err != nil {
		t.Fatal(err)
	}
	return keys, policies
}

// TestTombstonesAndPolicies: they get to the tables and are there for the next process. They
// are removed from the tables when their time is over.
func TestTombstonesAndPolicies(t *testing.T) {
	d := newDisk()
	d.segment = crashSegment
	o := d.options(t)
	e := mustOpen(t, o)
	keyed := func() *storage.Answer {
		tags := &tube.Tags{Key: "key", Rules: tube.Rules{KeyTTL: time.Hour, HasKeyTTL: true}}
		return &do(t, e, storage.Op{Kind: storage.Put, Tube: "t", Body: []byte("b"), Args: &storage.Args{Tags: tags}})[0].Answer
	}
	reopen := func(fill bool) {
		if fill {
			fillSegment(t, e)
			eventually(t, "the tables to catch up", func() bool { oldest, current := segments(e); return oldest == current })
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = mustOpen(t, o)
	}
	policy := &tube.Policy{Rules: fullRules, HasQuotaJobs: true, QuotaJobs: 5}
	do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "p", Args: &storage.Args{Policy: policy}})
	id := keyed().ID
	do(t, e, storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "key"}})
	for _, fill := range []bool{false, true, false} { // from the log, and then from the tables
		reopen(fill)
		if a := keyed(); a.ID != id || a.Outcome != tube.PutExisting || a.State != tube.Gone {
			t.Fatalf("a put with a key that has a tombstone answered %+v, %+v", a, a.Result)
		}
		if p := do(t, e, storage.Op{Kind: storage.GetPolicy, Tube: "p"})[0].Answer.Result.Policy; p.QuotaJobs != 5 || p.Max != 7 {
			t.Fatalf("the policy is %+v", p)
		}
	}
	if keys, policies := countInTables(t, e); keys != 1 || policies != 1 {
		t.Errorf("the tables have %d tombstones and %d policies", keys, policies)
	}
	do(t, e, storage.Op{Kind: storage.SetPolicy, Tube: "p", Args: &storage.Args{}})
	d.clock.advance(2 * time.Hour)
	reopen(false) // the time of the tombstone ends while the process is down
	reopen(true)
	if keys, policies := countInTables(t, e); keys != 0 || policies != 0 {
		t.Errorf("when they are over, the tables have %d tombstones and %d policies", keys, policies)
	}
	if a := keyed(); a.ID == id {
		t.Error("the key is still taken")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeaseOverRestart: a lease goes on in the next process, with its deadline; one that is
// over by then expires.
func TestLeaseOverRestart(t *testing.T) {
	d := newDisk()
	o := d.options(t)
	e := mustOpen(t, o)
	for range 2 {
		do(t, e, storage.Op{Kind: storage.Put, Tube: "t", TTR: 100})
	}
	take := storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{"t"}}
	ops := do(t, e, take, take)
	first, second := ops[0].Answer.Result.Lease, ops[1].Answer.Result.Lease
	touch := func(id, lease uint64) storage.Op {
		return storage.Op{Kind: storage.Move, Move: tube.Touch, Holder: tube.LeaseHolder, ID: id, Args: &storage.Args{Lease: lease}}
	}
	d.clock.advance(50 * time.Second)
	do(t, e, touch(2, second))
	left := &disk{fs: clone(d.fs, 0), clock: d.clock} // what a power cut leaves
	e.Close()
	d.clock.advance(60 * time.Second)
	e = mustOpen(t, left.options(t))
	defer e.Close()
	e.Tick()
	one := do(t, e, storage.Op{Kind: storage.JobStats, ID: 1})[0].Answer.Job
	if one.State != tube.Ready || one.Counters[tube.Timeouts] != 1 || one.Metadata.Lease != first {
		t.Errorf("the one whose time is over: %+v", one)
	}
	two := do(t, e, storage.Op{Kind: storage.JobStats, ID: 2})[0].Answer.Job
	if two.State != tube.Reserved || !two.Leased || two.TimeLeft != 40*time.Second {
		t.Errorf("the one that was touched: %+v", two)
	}
	do(t, e, storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: tube.LeaseHolder, ID: 2, Args: &storage.Args{Lease: second}})
}

// TestAllInOneWindow: everything that the tables keep gets there from one window, and is there for
// the next process.
func TestAllInOneWindow(t *testing.T) {
	d := newDisk()
	d.segment = crashSegment
	o := d.options(t)
	e := mustOpen(t, o)
	tags := &tube.Tags{Key: "key", Rules: tube.Rules{KeyTTL: time.Hour, HasKeyTTL: true}}
	group, schedule := &tube.GroupConfig{Weight: 3}, scheduledPut("schedule", 1, 100)
	do(t, e,
		storage.Op{Kind: storage.SetGroup, Tube: "t", Args: &storage.Args{Group: "g", GroupConfig: group}},
		storage.Op{Kind: storage.Put, Tube: "t"},
		schedule,
		storage.Op{Kind: storage.Put, Tube: "t", Args: &storage.Args{Tags: tags}},
		storage.Op{Kind: storage.DeleteKey, Tube: "t", Args: &storage.Args{Key: "key"}},
		storage.Op{Kind: storage.SetPolicy, Tube: "t", Args: &storage.Args{Policy: &tube.Policy{Rules: fullRules}}},
		storage.Op{Kind: storage.Pause, Tube: "t", Delay: 1000},
		storage.Op{Kind: storage.BeginImport, Args: &storage.Args{Import: &storage.Import{Source: "source", Largest: 1}}},
	)
	fillSegment(t, e)
	eventually(t, "the tables to catch up", func() bool { oldest, current := segments(e); return oldest == current })
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = mustOpen(t, o)
	defer e.Close()
	answers := do(t, e,
		storage.Op{Kind: storage.GetGroup, Tube: "t", Args: &storage.Args{Group: "g"}},
		storage.Op{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: "schedule"}},
		storage.Op{Kind: storage.GetPolicy, Tube: "t"},
		storage.Op{Kind: storage.TubeStats, Tube: "t"},
		storage.Op{Kind: storage.Put, Tube: "t", Args: &storage.Args{Tags: tags}},
	)
	if g := answers[0].Answer.Result.GroupConfig; g.Weight != 3 {
		t.Errorf("the commit is %+v", g)
	}
	if s := answers[1].Answer.Result.Schedules()[0]; s.Text() != schedule.Args.Schedule.Text() || s.Results.Put != 1 || len(s.Body) != 100 {
		t.Errorf("the schedule is %+v", s)
	}
	if s := answers[3].Answer.TubeStats; s.Pause != 1000 {
		t.Errorf("the tube is %+v", s)
	}
	if a := answers[4].Answer; a.Outcome != tube.PutExisting {
		t.Errorf("the key is free: %+v", a)
	}
}
