package tube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// crowd is a Machine that has jobs in two tubes and in all states, many of them out of order.
type crowd struct {
	*Machine
	random *rand.Rand
	now    Instant
	groups int // of these jobs; 0: none
}

func newCrowd(seed uint64, jobs int) *crowd {
	c := &crowd{Machine: NewMachine(), random: rand.New(rand.NewPCG(seed, 0)), now: at(0)}
	if seed%2 == 1 {
		c.groups = 200
	}
	for range jobs {
		c.change()
	}
	return c
}

// change does a random operation of a client.
func (c *crowd) change() {
	c.now++
	name := []string{"t", "t", "u"}[c.random.IntN(3)]
	switch n := c.random.IntN(16); {
	case n < 9:
		job := NewJob{Tube: name, Pri: uint32(c.random.IntN(1000)), Delay: uint32(max(0, c.random.IntN(200)-100)), TTR: 1000}
		if group := c.random.IntN(c.groups + 1); group > 0 {
			c.PutTagged(c.now, job, &Tags{Group: fmt.Sprint(group % 7 * group)}) // the group 0 has many jobs
		} else {
			c.Put(c.now, job)
		}
	case n < 12:
		h := Holder(1 + c.random.IntN(3))
		if j, _ := c.Take(c.now, h, []string{name}); j != nil && c.random.IntN(2) == 0 {
			c.Move(c.now, Bury, h, j.ID, Terms{})
		}
	case n < 13 && c.random.IntN(4) == 0:
		c.KickSome(c.now, name, Buried, 1, false)
	default:
		id := 1 + c.random.Uint64N(c.lastID+1)
		if j := c.Find(id); j != nil {
			move := []Move{Release, Bury, Delete}[c.random.IntN(3)]
			c.Move(c.now, move, j.holder, id, Terms{Pri: uint32(c.random.IntN(1000)), Delay: uint32(c.random.IntN(3))})
		}
	}
}

// in returns the positions of the jobs of a tube in a state, in order.
func (c *crowd) in(name string, s State) (positions []position) {
	for id := range c.lastID + 1 {
		if j := c.Find(id); j != nil && j.state == s && c.tubeOf(j).name == name {
			positions = append(positions, positionOf(j))
		}
	}
	slices.SortFunc(positions, comparePositions)
	return positions
}

func comparePositions(a, b position) int {
	if a.before(b) {
		return -1
	}
	return 1
}

// list lists all jobs of a tube in a state, in parts of limit. between is called after each
// part. It returns the ids.
func (c *crowd) list(t *testing.T, s State, count, limit int, between func()) (ids []uint64) {
	for cursor, more := "", true; more; more = cursor != "" {
		l := NewListing("t", s, cursor, count)
		for {
			jobs, next, work, ended := c.ListSome(c.now, l, limit)
			if work > limit+count+perChunk/slotsPerMove {
				t.Fatalf("a part took %d of %d", work, limit)
			}
			between()
			if !ended {
				continue
			}
			for _, j := range jobs {
				ids = append(ids, j.ID)
			}
			if cursor = next; len(ids) > int(c.lastID) {
				t.Fatal("pages without an end")
			}
			break
		}
	}
	return ids
}

// TestListInParts checks that a listing is complete, whatever the size of its parts and pages.
func TestListInParts(t *testing.T) {
	for seed := range uint64(3) {
		c := newCrowd(seed, 3000)
		for _, s := range []State{Ready, Delayed, Buried, Reserved} {
			var want []uint64
			for _, p := range c.in("t", s) {
				want = append(want, p.id)
			}
			if len(want) < 100 || s == Ready && c.groups == 0 && len(c.tubes["t"].ready.tree) < 100 {
				t.Fatalf("too few jobs are %v, or too few are out of order", s)
			}
			for _, limit := range []int{1, 3, 512} {
				for _, count := range []int{1, 17, 1000} {
					if got := c.list(t, s, count, limit, func() {}); !slices.Equal(got, want) {
						t.Fatalf("seed %d: %v jobs in parts of %d, pages of %d: %d of %d", seed, s, limit, count, len(got), len(want))
					}
				}
			}
		}
	}
}

// TestListMeanwhile checks that jobs that keep their position while much else changes are listed
// once.
func TestListMeanwhile(t *testing.T) {
	for seed := range uint64(20) {
		c := newCrowd(seed, 3000)
		for _, s := range []State{Ready, Delayed, Buried, Reserved} {
			before := c.in("t", s)
			got := c.list(t, s, 300, 16, func() {
				for range 3 {
					c.change()
				}
			})
			after := c.in("t", s)
			for _, p := range before {
				times := 0
				for _, id := range got {
					if id == p.id {
						times++
					}
				}
				if slices.Contains(after, p) && times != 1 {
					t.Fatalf("seed %d: %v job %d existed all the time and was listed %d times", seed, s, p.id, times)
				}
			}
		}
	}
}

// TestFlushInParts checks that a flush removes all jobs that existed when it began, unless clients
// are faster, and none that was put later.
func TestFlushInParts(t *testing.T) {
	for seed := range uint64(20) {
		for _, s := range []State{Gone, Ready, Delayed, Buried, Reserved} {
			c := newCrowd(seed, 3000)
			last, before, elsewhere := c.lastID, c.tubes["t"].in(s), len(c.in("u", Ready))
			f, deletes := c.NewFlush("t", s), c.tubes["t"].deletes
			for ended := false; !ended; {
				was := f.Removed()
				if _, ended = c.FlushSome(c.now, f, 5); f.Removed()-was > 5 {
					t.Fatalf("a part has removed %d", f.Removed()-was)
				}
				for range 7 { // more than there are free slots behind the flush
					c.Put(c.now, NewJob{Tube: "t", Pri: uint32(c.random.IntN(1000)), TTR: 9})
				}
			}
			if f.Removed() != before || c.tubes["t"].deletes-deletes != uint64(before) {
				t.Fatalf("seed %d: %d of %d %v jobs were removed, %d counted", seed, f.Removed(), before, s, c.tubes["t"].deletes-deletes)
			}
			for _, state := range []State{Ready, Delayed, Buried, Reserved} {
				wanted := state == s || s == Gone && state != Reserved
				for _, p := range c.in("t", state) {
					if wanted && p.id <= last {
						t.Fatalf("seed %d: %v job %d was not removed", seed, state, p.id)
					}
				}
			}
			if len(c.in("t", Ready)) == 0 || len(c.in("u", Ready)) != elsewhere {
				t.Fatal("jobs were removed that must stay")
			}
		}
	}
}

// TestFlushWhileMaturing checks that a flush of all states also removes jobs that change their
// state meanwhile.
func TestFlushWhileMaturing(t *testing.T) {
	m := NewMachine()
	for i := range uint32(2000) {
		m.Put(at(0), NewJob{Tube: "t", Delay: i%2 + i%3, TTR: 9, Pri: i % 7})
	}
	f := m.NewFlush("t", Gone)
	for ended, now := false, at(0); !ended; now = now.After(1) {
		_, ended = m.FlushSome(now, f, 100)
		m.Tick(now, 1<<20)
	}
	if f.Removed() != 2000 || m.tubes["t"] != nil {
		t.Errorf("%d of 2000 jobs were removed", f.Removed())
	}
}

// TestFind searches rings with gaps for the first job behind any position.
func TestFind(t *testing.T) {
	c := newCrowd(1, 0)
	for range 300 {
		c.Put(c.now, NewJob{Tube: "t", TTR: 9})
	}
	for left := 300; left > 0; left-- {
		want := c.in("t", Ready)
		for _, after := range []uint64{0, 1, c.random.Uint64N(300), c.random.Uint64N(300), 299, 300, 301} {
			n := slices.IndexFunc(want, func(p position) bool { return p.id > after })
			jobs := c.tubes["t"].ready.ring.next(&c.slab, position{0, after}, 1)
			if n < 0 != (len(jobs) == 0) || n >= 0 && jobs[0].ID != want[n].id {
				t.Fatalf("behind %d of %v: %v", after, want, jobs)
			}
		}
		c.Move(c.now, Delete, 0, want[c.random.IntN(left)].id, Terms{})
		c.Ref("t", Using, 1)
	}
}

// TestMoveTo checks that jobs that were moved keep their order among themselves.
func TestMoveTo(t *testing.T) {
	c := newCrowd(2, 3000)
	for _, s := range []State{Ready, Delayed, Buried} {
		var want, got []int64
		before := c.in("t", s)
		jobs := c.FirstJobs("t", s, 100)
		for _, j := range jobs {
			want = append(want, j.rank)
		}
		for i, j := range jobs {
			if positionOf(j) != before[i] {
				t.Fatalf("the first %v jobs are not the first", s)
			}
			c.MoveTo(c.now, j, "other")
		}
		for _, p := range c.in("other", s) {
			got = append(got, p.rank)
		}
		if s == Buried {
			want = got // they get new burial numbers
		}
		if len(got) != 100 || !slices.Equal(got, want) || len(c.in("t", s)) != len(before)-100 {
			t.Errorf("of %d %v jobs: %v, want %v", len(before), s, got, want)
		}
	}
	if c.FirstJobs("t", Reserved, 9) != nil || c.FirstJobs("nothing", Ready, 9) != nil || c.CountIn("nothing", Ready) != 0 {
		t.Error("there are jobs where none can be")
	}
}

// TestWrongCursors checks that the page behind an invalid cursor is empty.
func TestWrongCursors(t *testing.T) {
	m := NewMachine()
	m.Put(at(0), NewJob{Tube: "t"})
	for _, cursor := range []string{"x", "1", "1.", ".1", "1.2.3", "1.2x", "-", "99999999999999999999.1", "1.-1", " ", "1,2"} {
		jobs, next, _, ended := m.ListSome(at(0), NewListing("t", Ready, cursor, 9), 9)
		if len(jobs) != 0 || next != "" || !ended {
			t.Errorf("%q: %v, %q", cursor, jobs, next)
		}
	}
}
