package tube

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

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
