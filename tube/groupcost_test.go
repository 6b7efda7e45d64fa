package tube

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestGroupMemory: a group takes at most 200 bytes beside its job, and nothing after that.
func TestGroupMemory(t *testing.T) {
	const groups = 30_000
	for state, delay := range map[State]uint32{Ready: 0, Delayed: 1000} {
		m := NewMachine()
		put := func(grouped bool) (bytes float64) {
			before := heapBytes()
			for i := range groups {
				tags := Tags{}
				if grouped {
					tags.Group = fmt.Sprintf("customer-%06d", i)
				}
				m.PutTagged(0, NewJob{Tube: "t", TTR: 60, Delay: delay}, &tags)
			}
			return float64(heapBytes()-before) / groups
		}
		plain := put(false)
		grouped := put(true)
		t.Logf("%v: a job takes %.0f bytes, a group %.0f more", state, plain, grouped-plain)
		if grouped-plain > 200 {
			t.Errorf("%v: a group takes %.0f bytes", state, grouped-plain)
		}
		for id := uint64(groups + 1); id <= 2*groups; id++ {
			m.Remove(0, m.Find(id))
		}
		if m.tubes["t"].lanes != nil || len(m.spareLanes) > maxSpareLanes {
			t.Errorf("%v: %d lanes are kept", state, len(m.spareLanes))
		}
	}
}

// heapBytes returns how many bytes the heap has after a collection.
func heapBytes() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// BenchmarkGroupCycle puts, takes and deletes 16 jobs at a time beside 800 reserved ones: without
// groups, and in random ones of 10,000 with a limit that does not bind. An operation is one job.
func BenchmarkGroupCycle(b *testing.B) {
	for _, groups := range []int{0, 10_000} {
		b.Run(fmt.Sprint(groups, " groups"), func(b *testing.B) {
			const batch, inFlight = 16, 800
			m, body, tubes := NewMachine(), make([]byte, 128), []string{"t"}
			m.SetPolicy("t", &Policy{GroupLimits: Limits{Concurrency: 100_000}})
			if groups == 0 {
				m.SetPolicy("t", nil)
			}
			names := make([]string, groups)
			for i := range names {
				names[i] = fmt.Sprintf("customer-%06d", i)
			}
			rnd := rand.New(rand.NewPCG(1, 1))
			now, held, tags := Instant(0), []uint64{}, Tags{}
			for n := 0; n < b.N; n += batch {
				now += 1000
				for range batch {
					if p := (NewJob{Tube: "t", TTR: 60, Body: body}); groups == 0 {
						m.Put(now, p)
					} else {
						tags.Group = names[rnd.IntN(groups)]
						m.PutTagged(now, p, &tags)
					}
				}
				for range batch {
					j, _ := m.Take(now, Holder(n/batch%50+1), tubes)
					held = append(held, j.ID)
				}
				for len(held) > inFlight {
					for _, id := range held[:batch] {
						m.Move(now, Delete, m.HolderOf(id), id, Terms{})
					}
					held = append(held[:0], held[batch:]...)
				}
				m.WakeUps(func(string) {})
			}
		})
	}
}
