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

// TestUntakeReturnsTokens: a take that is undone uses up no start of a rate, of the tube or of a group, nor that of another job.
func TestUntakeReturnsTokens(t *testing.T) {
	for _, group := range []string{"", "g"} {
		m := NewMachine()
		p := &Policy{Rules: Rules{}}
		rates := Rates{2} // each second
		if group == "" {
			p.Limits.Rates = rates
		} else {
			p.GroupLimits.Rates = rates
		}
		m.SetPolicy("t", p)
		for range 3 {
			m.PutTagged(0, NewJob{Tube: "t", TTR: 10}, &Tags{Group: group})
		}
		now := Instant(0)
		take := func() *Job { j, _ := m.Take(now, 1, []string{"t"}); return j }
		id := take().ID
		now = now.Plus(400 * time.Millisecond)
		take()
		if j := take(); j != nil {
			t.Fatalf("group %q: a third start", group)
		}
		m.WakeUps(func(string) {})
		m.Untake(now, 1, id)
		woken := 0
		if m.WakeUps(func(string) { woken++ }); woken != 1 {
			t.Errorf("group %q: %d wake-ups", group, woken)
		}
		if j := take(); j == nil || j.ID != id {
			t.Errorf("group %q: the start of the take that was undone is not given back: %v", group, j)
		}
		if j := take(); j != nil {
			t.Errorf("group %q: the start of the other take was given back", group)
		}
		m.check(t)
	}
}
