package tube

import (
	"testing"
	"time"
)

// TestStatsLoseNoWakeUp: stats that are read between the time when a token comes back and the next Tick
// do not hide that from the Tick.
func TestStatsLoseNoWakeUp(t *testing.T) {
	for name, policy := range map[string]*Policy{"tube": {Limits: Limits{Rates: Rates{2}}}, "group": {GroupLimits: Limits{Rates: Rates{2}}}} {
		m, now := NewMachine(), Instant(time.Hour)
		m.SetPolicy("t", policy)
		for range 3 {
			m.PutTagged(now, NewJob{Tube: "t", TTR: 60}, &Tags{Group: "g"})
		}
		m.Take(now, 1, []string{"t"})
		m.Take(now.Plus(500*time.Millisecond), 1, []string{"t"})
		m.Tick(now.Plus(500*time.Millisecond), 1000)
		m.WakeUps(func(string) {})
		now = now.Plus(1001 * time.Millisecond)
		if s, _ := m.JobStats(now, 3); s.Held != NotHeld {
			t.Errorf("%s: held: %v", name, s.Held)
		}
		m.Tick(now, 1000)
		woken := 0
		if m.WakeUps(func(string) { woken++ }); woken != 1 {
			t.Errorf("%s: %d wake-ups for a token that has come back", name, woken)
		}
	}
}
