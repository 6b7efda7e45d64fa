package embedded

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

var manyJobs = flag.Int("many", 0, "jobs in TestManyCost")

// TestManyCost measures flushes, moves and lists of many jobs: how long they take, and how long
// another client, which puts one job after the other, waits meanwhile.
func TestManyCost(t *testing.T) {
	if *manyJobs == 0 {
		t.Skip("only on demand: -many=1000000")
	}
	for name, dir := range map[string]string{"memory": "", "journal": t.TempDir()} {
		e := NewMemory()
		if dir != "" {
			var err error
			if e, err = Open(Options{Dir: dir, SyncEvery: 0}); err != nil {
				t.Fatal(err)
			}
		}
		m := &manyCost{t: t, name: name, e: e}
		m.measure("nothing", func() { time.Sleep(3 * time.Second) })
		m.fill("from", 0)
		m.measure("list of 1,000", func() { m.list("from", tube.Ready) })
		m.measure("move", func() {
			m.one(storage.Op{Kind: storage.MoveJobs, Tube: "from", State: tube.Ready, MaxJobs: uint32(*manyJobs), Args: &storage.Args{To: "to"}})
		})
		m.measure("flush of ready", func() { m.one(storage.Op{Kind: storage.Flush, Tube: "to"}) })
		m.fill("from", 1000)
		m.measure("flush of delayed", func() { m.one(storage.Op{Kind: storage.Flush, Tube: "from"}) })
		m.fill("from", 0)
		m.reserve("from")
		m.fill("other", 0)
		m.measure("list of other's reserved", func() { m.list("other", tube.Reserved) })
		m.measure("list of reserved", func() { m.list("from", tube.Reserved) })
		m.measure("flush of reserved", func() { m.one(storage.Op{Kind: storage.Flush, Tube: "from", State: tube.Reserved}) })
		e.Close()
	}
}

// manyCost is an engine under measurement.
type manyCost struct {
	t    *testing.T
	name string
	e    *Engine
}

func (m *manyCost) one(op storage.Op) storage.Answer {
	ops := []storage.Op{op}
	storage.DoWait(m.e, ops)
	if err := ops[0].Answer.Err; err != nil {
		m.t.Fatal(err)
	}
	return ops[0].Answer
}

func (m *manyCost) list(name string, in tube.State) {
	m.one(storage.Op{Kind: storage.ListJobs, Tube: name, State: in, MaxJobs: 1000})
}

// fill puts all jobs.
func (m *manyCost) fill(name string, delay uint32) {
	for range *manyJobs / 1000 {
		ops := make([]storage.Op, 1000)
		for i := range ops {
			ops[i] = storage.Op{Kind: storage.Put, Tube: name, Pri: uint32(i), Delay: delay, TTR: 6000, Body: make([]byte, 64)}
		}
		storage.DoWait(m.e, ops)
	}
}

// reserve reserves all jobs of a tube.
func (m *manyCost) reserve(name string) {
	for h := range *manyJobs / 1000 {
		ops := make([]storage.Op, 1000)
		for i := range ops {
			ops[i] = storage.Op{Kind: storage.Take, Holder: tube.Holder(1 + h%7), Tubes: []string{name}}
		}
		storage.DoWait(m.e, ops)
	}
}

// measure runs work, and prints what it has cost.
func (m *manyCost) measure(what string, work func()) {
	ctx, stop := context.WithCancel(context.Background())
	var waits []time.Duration
	ended, first := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			begun := time.Now()
			m.one(storage.Op{Kind: storage.Put, Tube: "others'", TTR: 60})
			if waits = append(waits, time.Since(begun)); len(waits) == 1 {
				close(first)
			}
			time.Sleep(200 * time.Microsecond)
		}
	}()
	<-first
	begun := time.Now()
	work()
	took := time.Since(begun)
	stop()
	<-ended
	slices.Sort(waits)
	n := len(waits)
	m.t.Logf("%-8s %-26s in %8v; others wait %8v, one of a hundred %8v, longest %8v", m.name, what, took.Round(time.Millisecond),
		waits[n/2].Round(10*time.Microsecond), waits[n*99/100].Round(10*time.Microsecond), waits[n-1].Round(10*time.Microsecond))
}
