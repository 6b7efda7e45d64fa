package tube

import (
	"fmt"
	"testing"
	"time"
)

// TestPatternPolicyInParts: a change of the policy of a pattern does not check all tubes at once. Its limit holds
// in all of them nevertheless, and where it is gone clients are woken by Ticks.
func TestPatternPolicyInParts(t *testing.T) {
	const tubes = 10 * tubesAtOnce
	m, now := NewMachine(), Instant(time.Hour)
	each := func(do func(name string)) {
		for i := range tubes {
			do(fmt.Sprint("tube-", i))
		}
	}
	put := func(name, group string, pri uint32) {
		m.PutTagged(now, NewJob{Tube: name, Pri: pri, TTR: 60}, &Tags{Group: group})
	}
	taken := func() (n int) {
		each(func(name string) {
			if j, _ := m.Take(now, 1, []string{name}); j != nil {
				n++
			}
		})
		return n
	}
	each(func(name string) {
		for pri := range uint32(3) {
			put(name, fmt.Sprint("g", pri), pri)
		}
	})
	taken()
	taken()
	m.SetPolicy("*", &Policy{Limits: Limits{Concurrency: 2}})
	if n := m.unchecked.tubes; n != tubes+1-tubesAtOnce { // and the tube default
		t.Errorf("%d tubes are unchecked", n)
	}
	each(func(name string) { put(name, "g2", 1) }) // this updates lanes of which a job could start before
	if n := taken(); n > 0 {
		t.Errorf("beyond the limit %d jobs are taken", n)
	}
	m.SetPolicy("tube-1*", &Policy{Limits: Limits{Concurrency: 3}})
	m.SetPolicy("*", nil)
	ticks := 0
	for m.WakeUps(func(string) {}); m.Next() <= now; ticks++ {
		m.Tick(now, 100)
	}
	woken := 0
	if m.WakeUps(func(string) { woken++ }); woken < tubes-3*tubesAtOnce || ticks < tubes/100 {
		t.Errorf("clients of %d tubes are woken, in %d ticks", woken, ticks)
	}
	if n := taken(); n != tubes {
		t.Errorf("without limits jobs are taken from %d tubes", n)
	}
}
