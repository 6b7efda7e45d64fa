package embedded

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"redstalk/storage"
	"redstalk/tube"
)

// setClock is a clock that moves only by advance, and whose wall clock can be set.
type setClock struct {
	*fakeClock
	ahead atomic.Int64 // of the wall clock, in whole seconds
}

// now returns what time.Now does after the wall clock was set: the monotonic reading goes on. In a
// time.Time with a monotonic reading, the upper bits of the first word are the seconds of the wall clock.
func (c *setClock) now() time.Time {
	t := c.fakeClock.now()
	*(*uint64)(unsafe.Pointer(&t)) += uint64(c.ahead.Load()) << 30
	return t
}

func (c *setClock) wall() tube.Instant { return tube.Instant(c.now().UnixNano()) }

// setBacks is a listener that notes how far the clock was set back.
type setBacks struct {
	nopListener
	by   time.Duration
	told []uint64
}

func (l *setBacks) JobEnded(id uint64) { l.told = append(l.told, id) }

func (l *setBacks) ClockSetBack(by time.Duration) { l.by += by }

// clocked is an engine whose wall clock is set.
type clocked struct {
	*testing.T
	*setClock
	*Engine
	heard setBacks
}

func newClocked(t *testing.T, open func(clock func() time.Time) *Engine) *clocked {
	c := &clocked{T: t, setClock: &setClock{fakeClock: newFakeClock()}}
	c.reopen(open)
	return c
}

func (c *clocked) reopen(open func(clock func() time.Time) *Engine) {
	c.Engine = open(c.setClock.now)
	c.Listen(&c.heard)
}

// put puts a job with tags into a tube of that name.
func (c *clocked) put(name string, tags tube.Tags) uint64 {
	c.Helper()
	return do(c, c, storage.Op{Kind: storage.Put, Tube: name, TTR: 3600, Args: &storage.Args{Tags: &tags}})[0].Answer.ID
}

// left checks in how many seconds a job is due.
func (c *clocked) left(id uint64, want time.Duration) {
	c.Helper()
	j := do(c, c, storage.Op{Kind: storage.JobStats, ID: id})[0].Answer.Job
	if got := j.TimeLeft.Round(time.Millisecond); got != want {
		c.Errorf("job %d has %v left, want %v", id, got, want)
	}
	if off := c.wall() - j.Created - tube.Instant(j.Age); off.Until(0).Abs() > time.Millisecond {
		c.Errorf("job %d: created and age are %v off the wall clock", id, time.Duration(off))
	}
}

// due checks whether a schedule is due.
func (c *clocked) due(want bool) {
	c.Helper()
	r := do(c, c, storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: 1})[0].Answer.Result
	if off := r.Now - c.wall(); off > 0 || off < -tube.Instant(time.Millisecond) || len(r.Schedules()) == 1 != want {
		c.Errorf("%d schedules are due, by a clock that is %v off", len(r.Schedules()), time.Duration(off))
	}
}

// schedule sets the record of a schedule that is due in that time.
func (c *clocked) schedule(version uint64, in time.Duration) {
	c.Helper()
	do(c, c, storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Schedule: &tube.Schedule{Name: "s", Version: version, Tube: "t", Due: c.wall().Plus(in)}}})
}

// TestWallClockSet: schedules and jobs with a time of the wall clock follow it when it is set, or the machine has slept; TTRs,
// leases and delays do not.
func TestWallClockSet(t *testing.T) {
	c := newClocked(t, newEngine)
	c.schedule(1, 90*time.Minute)
	at := c.wall().Plus(2 * time.Hour)
	early, late := c.put("t", tube.Tags{HasAt: true, At: at, Expire: tube.LifetimeOf(time.Minute)}), c.put("t", tube.Tags{HasDelay: true, Delay: 90 * time.Minute})
	leased := c.put("leased", tube.Tags{})
	do(t, c, storage.Op{Kind: storage.Take, Tubes: []string{"leased"}, Holder: tube.LeaseHolder})

	for _, step := range []time.Duration{time.Hour, -27 * time.Hour, 26 * time.Hour, 50 * time.Hour, -24 * time.Hour} {
		c.setClock.ahead.Add(int64(step / time.Second))
		if _, err := c.Tick(); err != nil {
			t.Fatal(err)
		}
		if want := max(-step, 0); c.heard.by != want {
			t.Errorf("after a step of %v it was set back by %v", step, c.heard.by)
		}
		c.heard.by = 0
		if step == 50*time.Hour { // early was due, and is gone
			early = 0
			c.due(true)
		}
		if early != 0 {
			c.left(early, at.Until(c.wall()).Round(time.Millisecond))
		}
		c.left(late, 90*time.Minute)
		c.left(leased, time.Hour)
	}
}

// TestWallClockSetSchedules: a schedule is due by the wall clock, and a claim of it ends in time when that is set back.
func TestWallClockSetSchedules(t *testing.T) {
	c := newClocked(t, newEngine)
	c.schedule(1, time.Hour)
	c.setClock.ahead.Store(3599)
	c.due(false)
	c.setClock.ahead.Store(3600)
	c.due(true)
	c.setClock.ahead.Store(-9000)
	c.due(false)
	c.setClock.ahead.Store(-9000)
	c.schedule(2, 2*time.Second)
	c.advance(2 * time.Second)
	c.due(true)
	c.setClock.ahead.Store(-20000)
	c.schedule(3, -time.Second)
	c.due(true)
	c.advance(tube.ClaimTime)
	c.due(true)
}

// TestWallClockRestart: what is stored are wall times, as they are when that is written; what was delayed at a
// start follows the wall clock.
func TestWallClockRestart(t *testing.T) {
	d := newDisk()
	open := func(clock func() time.Time) *Engine {
		o := d.options(t)
		o.clock = clock
		return mustOpen(t, o)
	}
	c := newClocked(t, open)
	at := c.wall().Plus(30 * 24 * time.Hour)
	first := c.put("t", tube.Tags{HasAt: true, At: at})
	c.setClock.ahead.Store(int64(24 * time.Hour / time.Second))
	second := c.put("t", tube.Tags{HasDelay: true, Delay: time.Hour})
	c.Close()
	c.reopen(open)
	c.left(first, 29*24*time.Hour)
	c.left(second, time.Hour)
	c.Close()

	c.setClock.ahead.Store(-int64(365 * 24 * time.Hour / time.Second)) // as on a machine without a battery
	c.reopen(open)
	c.setClock.ahead.Store(int64(24 * time.Hour / time.Second))
	c.left(first, 29*24*time.Hour)
	c.left(second, time.Hour)
	c.Close()
}

// TestRestartWithEarlierClock: if the wall clock was set back while the engine was stopped, no pause or taken key lasts longer than it was to.
func TestRestartWithEarlierClock(t *testing.T) {
	d := newDisk()
	open := func(clock func() time.Time) *Engine {
		o := d.options(t)
		o.clock = clock
		return mustOpen(t, o)
	}
	c := newClocked(t, open)
	key := tube.Tags{Key: "k", Rules: tube.Rules{KeyTTL: time.Minute, HasKeyTTL: true}}
	c.put("paused", tube.Tags{})
	c.put("grouped", tube.Tags{Group: "g"})
	do(t, c, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: c.put("keyed", key)},
		storage.Op{Kind: storage.Pause, Tube: "paused", Delay: 60},
		storage.Op{Kind: storage.PauseGroup, Tube: "grouped", Delay: 60, Args: &storage.Args{Group: "g"}})
	c.Close()

	c.setClock.ahead.Store(-int64(7 * 24 * time.Hour / time.Second))
	c.reopen(open)
	free := func() (n int) {
		ops := []storage.Op{
			{Kind: storage.Take, Tubes: []string{"paused"}, Holder: 1}, {Kind: storage.Take, Tubes: []string{"grouped"}, Holder: 1},
			{Kind: storage.Put, Tube: "keyed", TTR: 3600, Args: &storage.Args{Tags: &key}},
		}
		storage.DoWait(c, ops)
		for i := range ops {
			if !ops[i].Answer.NotFound && ops[i].Answer.Outcome == tube.PutNew {
				n++
			}
		}
		return n
	}
	if c.advance(58 * time.Second); free() != 0 {
		t.Error("something has ended early")
	}
	c.advance(4 * time.Second)
	if _, err := c.Tick(); err != nil || free() != 3 {
		t.Errorf("something has not ended (%v)", err)
	}
	c.Close()
}

// TestWallClockSetEnded: records go by the wall clock, are listed in the order in which the jobs have ended, and are found, however it is set; so do
// counts of hours, and a wait goes on.
func TestWallClockSetEnded(t *testing.T) {
	d := newDisk()
	journal := func(clock func() time.Time) *Engine {
		o := d.options(t)
		o.clock = clock
		return mustOpen(t, o)
	}
	for name, open := range map[string]func(clock func() time.Time) *Engine{"memory": newEngine, "journal": journal} {
		t.Run(name, func(t *testing.T) {
			c := &clockedEnds{clocked: newClocked(t, open), until: make(map[uint64]tube.Instant), hours: make(map[uint64]uint64)}
			defer c.Close()
			awaited := c.put("w", tube.Tags{Rules: tube.Rules{Keep: tube.LifetimeOf(time.Hour)}})
			do(t, c, storage.Op{Kind: storage.WaitEnded, ID: awaited, Wait: true})
			for _, step := range []time.Duration{0, time.Hour, -time.Hour, -time.Hour, 0, time.Hour, 30 * time.Hour, -30 * time.Hour} {
				c.setClock.ahead.Add(int64(step / time.Second))
				if _, err := c.Tick(); err != nil {
					t.Fatal(err)
				}
				for _, keep := range []time.Duration{10 * time.Minute, 3 * time.Hour} {
					c.end(keep)
				}
				c.check(step)
				c.advance(time.Minute)
			}
			do(t, c, storage.Op{Kind: storage.Move, Move: tube.Delete, ID: awaited})
			if a := do(t, c, storage.Op{Kind: storage.WaitEnded, ID: awaited})[0].Answer; a.NotFound || len(a.Result.Ended) != 1 || !slices.Equal(c.heard.told, []uint64{awaited}) {
				t.Errorf("the awaited job is %+v, told of %v", a, c.heard.told)
			}
		})
	}
}

// clockedEnds is an engine with records, whose wall clock is set, and what it has to have.
type clockedEnds struct {
	*clocked
	ids   []uint64 // those that have records, the oldest first
	until map[uint64]tube.Instant
	hours map[uint64]uint64 // puts by the number of the hour
	added uint64
}

// end ends jobs whose records are kept for so long, and counts them.
func (c *clockedEnds) end(keep time.Duration) {
	c.Helper()
	setKeep(c.T, c, "a", keep, 1<<30)
	ids := endJobs(c.T, c, "a", 20, 10)
	for _, id := range ids {
		c.until[id] = c.wall().Plus(keep)
	}
	c.ids = append(c.ids, ids...)
	c.added++
	c.hours[tube.Hours.At(c.wall())] += 20
	do(c, c, storage.Op{Kind: storage.AddTallies, Args: &storage.Args{Tallies: &storage.Tallies{From: "test", Number: c.added, Rows: []tube.TubeTally{{Tally: tube.Tally{20}}}}}})
}

// check compares the records and the counts.
func (c *clockedEnds) check(step time.Duration) {
	c.Helper()
	ended := c.ids
	c.ids = nil
	for _, id := range ended {
		kept := c.until[id] > c.wall()
		if kept {
			c.ids = append(c.ids, id)
		}
		ops := []storage.Op{{Kind: storage.WaitEnded, ID: id}}
		if storage.DoWait(c, ops); ops[0].Answer.NotFound == kept {
			c.Errorf("after a step of %v the record of job %d: %+v", step, id, ops[0].Answer)
		}
	}
	got := endedIn(c.T, c, "a")
	if slices.Reverse(got); !slices.Equal(got, c.ids) {
		c.Errorf("after a step of %v jobs %v are listed, want %v", step, got, c.ids)
	}
	r := do(c, c, storage.Op{Kind: storage.ReadTallies, Args: &storage.Args{Tallies: &storage.Tallies{Period: tube.Hours, Count: 168}}})[0].Answer.Result
	for _, hour := range r.Tallies {
		if number := tube.Hours.At(hour.Begin); hour.Tally[tube.TallyPuts] != c.hours[number] || number > tube.Hours.At(c.wall()) {
			c.Errorf("after a step of %v hour %d has %d puts, want %d", step, number, hour.Tally[tube.TallyPuts], c.hours[number])
		}
	}
}
