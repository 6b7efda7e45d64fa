package storetest

import (
	"math/rand/v2"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// moment is when something happened by the clock of the store: between two times.
type moment struct{ before, after time.Time }

// startAll takes and deletes as many jobs of a tube as it offers, at most n, and appends to starts.
func (b *harness) startAll(name string, n int, starts *[]moment) (started int) {
	b.Helper()
	for started < n {
		before := b.engine.Now()
		id := b.take(1, name)
		if id == 0 {
			break
		}
		*starts = append(*starts, moment{before, b.engine.Now()})
		b.must(tube.Delete, 1, id)
		started++
	}
	return started
}

// wantWithin checks that no period contains more than n starts.
func (b *harness) wantWithin(starts []moment, n int, period time.Duration) {
	b.Helper()
	for i := n; i < len(starts); i++ {
		if d := starts[i].after.Sub(starts[i-n].before); d < period {
			b.Fatalf("starts %d to %d of at most %d in %v happened within %v", i-n, i, n, period, d)
		}
	}
}

// runsByItself reports whether the clock of the store moves without Advance: then only long periods
// can be tested.
func (e *Engine) runsByItself() bool { return e.unit() > 1 }

// startsIn starts jobs as early as possible for a time. It moves the clock to when the store says
// that something is due, which must be in at most a period.
func (b *harness) startsIn(d, period time.Duration) (starts []moment) {
	b.Helper()
	for end := b.engine.Now().Add(d); b.engine.Now().Before(end); {
		b.startAll("t", 1_000_000, &starts)
		next := b.advance(0)
		if next > period {
			b.Fatalf("the next token comes in %v, but the store says nothing is due for %v", period, next)
		}
		b.advance(next)
	}
	return starts
}

// testRateExact: with a rate of 100/s there are exactly 100 starts a second, in virtual time.
func testRateExact(b *harness) {
	b.reopens = false // rates are lost
	b.usePlain()
	limits, period := tube.Limits{Rates: tube.Rates{100, 0, 0}}, time.Second
	if b.engine.runsByItself() {
		limits, period = perMinute(100), time.Minute
	}
	for name, p := range map[string]*tube.Policy{"tube": {Limits: limits}, "group": {GroupLimits: limits}} {
		b.setPolicy("t", p)
		periods := atLength(10)
		b.putGroups("t", times(100*periods+100, "g")...)
		starts := b.startsIn(time.Duration(periods)*period-period/2, period)
		if len(starts) != 100*periods {
			b.Errorf("%s: %d starts in %d periods of 100", name, len(starts), periods)
		}
		b.wantWithin(starts, 100, period)
		b.flush("t", tube.Gone)
		b.advance(period)
	}
}

// testRateNever: there are never more starts in any period than the rate says, however they come,
// and after a period without a start there is the full number.
func testRateNever(b *harness) {
	b.reopens = false
	r := rand.New(rand.NewPCG(1, 2))
	const ofGroup, ofTube = 7, 20
	b.setPolicy("t", &tube.Policy{Limits: perMinute(ofTube), GroupLimits: perMinute(ofGroup)})
	groups := []string{"a", "b", "c", "d"}
	byGroup := make(map[string][]moment)
	var all []moment
	for range atLength(150) {
		group := groups[r.IntN(len(groups))]
		b.putGroups("t", times(9, group)...)
		var now []moment
		b.startAll("t", 1+r.IntN(9), &now)
		b.flush("t", tube.Gone) // so that all of them were of this group
		byGroup[group], all = append(byGroup[group], now...), append(all, now...)
		b.advance(time.Duration(r.IntN(25_000)) * time.Millisecond)
	}
	b.wantWithin(all, ofTube, time.Minute)
	for _, starts := range byGroup {
		b.wantWithin(starts, ofGroup, time.Minute)
	}
	if len(all) < atLength(300) {
		b.Errorf("only %d starts", len(all))
	}
	b.advance(2 * time.Minute)
	b.putGroups("t", times(9, "a")...)
	if n := b.startAll("t", 9, &all); n != ofGroup {
		b.Errorf("%d starts after a pause, want %d", n, ofGroup)
	}
}

// testRatesTogether: several rates hold together, and so do those of a group and of its tube.
func testRatesTogether(b *harness) {
	b.reopens = false
	rates := tube.Rates{5, 20, 30}
	if b.engine.runsByItself() {
		rates[0] = 0
	}
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Rates: rates}})
	b.putGroups("t", times(100, "g")...)
	var starts []moment
	for minute, want := range []int{20, 10, 0, 0} {
		before := len(starts)
		for range 20 {
			b.startAll("t", 100, &starts)
			b.advance(1100 * time.Millisecond)
		}
		if n := len(starts) - before; n != want {
			b.Errorf("minute %d has %d starts, want %d", minute, n, want)
		}
		b.advance(45 * time.Second)
	}
	b.advance(time.Hour)
	if n := b.startAll("t", 100, &starts); n != 20 && (n != 5 || rates[0] == 0) {
		b.Errorf("an hour later there are %d starts", n)
	}
	b.wantWithin(starts, 20, time.Minute)
	b.wantWithin(starts, 30, time.Hour)
	b.setPolicy("t", &tube.Policy{Limits: tube.Limits{Rates: tube.Rates{0, 0, 500}}, GroupLimits: perMinute(2)})
	b.advance(2 * time.Hour)
	if n := b.startAll("t", 100, &starts); n != 2 {
		b.Errorf("%d starts of a group, want 2", n)
	}
}

// testRateWait: a take that finds only jobs without a token is woken when the next one comes back:
// by the timer, not by polling.
func testRateWait(b *harness) {
	b.reopens = false
	b.setPolicy("t", &tube.Policy{GroupLimits: perMinute(2)})
	ids := b.putGroups("t", "g", "g", "g", "g", "g")
	b.listener.due = storage.Forever
	var starts []moment
	b.startAll("t", 1, &starts)
	b.advance(20 * time.Second)
	b.startAll("t", 1, &starts)
	b.wantTake(2, "t")
	b.wantHeld("no token", tube.HeldByRate, ids[2:]...)
	b.listener.woken("t")
	for _, wait := range []time.Duration{40 * time.Second, 20 * time.Second} {
		next := b.advance(0)
		if next > wait+10*time.Millisecond || next < wait-5*time.Second && !b.engine.runsByItself() {
			b.Errorf("the next Tick is due in %v, want %v", next, wait)
		}
		if b.listener.woken("t") {
			b.Error("woken without a token")
		}
		b.advance(wait + 2*time.Millisecond)
		if n := b.wakeUps("t"); n != 1 {
			b.Errorf("%d wake-ups for one token", n)
		}
		if n := b.startAll("t", 9, &starts); n != 1 {
			b.Errorf("%d starts by one token", n)
		}
	}
	b.wantWithin(starts, 2, time.Minute)
}

// testRateDue: the take of the last token asks for a Tick when the next one comes back.
func testRateDue(b *harness) {
	b.reopens = false
	b.setPolicy("t", &tube.Policy{Limits: perMinute(1)})
	b.putWith("t", 1, 0, 1000, "")
	b.putWith("t", 1, 0, 1000, "")
	b.advance(0)
	b.listener.mu.Lock()
	b.listener.due = storage.Forever
	b.listener.mu.Unlock()
	if b.take(1, "t") == 0 {
		b.Fatal("took nothing")
	}
	b.wantTake(2, "t")
	b.listener.mu.Lock()
	defer b.listener.mu.Unlock()
	if b.listener.due > 61*time.Second {
		b.Errorf("asked for a Tick in %v, want a minute", b.listener.due)
	}
}

// testPushRate: the rate of a webhook is one more rate of its tube.
func testPushRate(b *harness) {
	b.reopens = false
	push := tube.Push{URL: "http://127.0.0.1/", Rate: 3, RateEvery: time.Minute}
	b.setPolicy("t", &tube.Policy{Push: push, Limits: perMinute(5)})
	b.putGroups("t", "g", "", "g", "h", "")
	var starts []moment
	if n := b.startAll("t", 9, &starts); n != 3 {
		b.Errorf("%d starts with push-rate:3/m", n)
	}
	push.Rate = 9
	b.setPolicy("t", &tube.Policy{Push: push, Limits: perMinute(4)})
	b.advance(0)
	if n := b.startAll("t", 9, &starts); n != 1 {
		b.Errorf("%d more starts with rate:4/m", n)
	}
}

// testRateChanges: a higher rate gives tokens at once, a lower one takes nothing back, and the starts
// so far count.
func testRateChanges(b *harness) {
	b.reopens = false
	var starts []moment
	set := map[string]func(n uint32){
		"policy":    func(n uint32) { b.setPolicy("t", &tube.Policy{GroupLimits: perMinute(n)}) },
		"tube":      func(n uint32) { b.setPolicy("t", &tube.Policy{Limits: perMinute(n)}) },
		"set-group": func(n uint32) { b.setGroup("t", "g", &tube.GroupConfig{Limits: perMinute(n), Weight: 1}) },
	}
	for name, rate := range set {
		for _, empty := range []bool{false, true} { // the group has no job when the rate changes
			b.putGroups("t", times(9, "g")...)
			for _, c := range []struct{ rate, want int }{{2, 2}, {5, 3}, {1, 0}, {6, 1}} {
				if empty {
					b.flush("t", tube.Gone)
				}
				rate(uint32(c.rate))
				if empty {
					b.putGroups("t", times(9, "g")...)
				}
				b.advance(0)
				if n := b.startAll("t", 9, &starts); n != c.want {
					b.Errorf("%s, empty %v: %d starts with rate %d, want %d", name, empty, n, c.rate, c.want)
				}
			}
			b.flush("t", tube.Gone)
			b.advance(2 * time.Minute)
		}
		b.setPolicy("t", nil)
		b.setGroup("t", "g", nil)
	}
}

// testRatesKept: an engine that keeps the starts keeps the rate when it is opened again.
func testRatesKept(b *harness) {
	if !b.engine.KeepsTubes {
		b.Skip("loses the starts")
	}
	b.setPolicy("t", &tube.Policy{GroupLimits: perMinute(2), Limits: perMinute(3)})
	b.putGroups("t", "g", "g", "g", "h", "h")
	var starts []moment
	b.startAll("t", 3, &starts)
	b.close()
	b.open()
	if n := b.startAll("t", 9, &starts); n != 0 {
		b.Errorf("%d starts after it was opened again", n)
	}
	b.advance(61 * time.Second)
	if n := b.startAll("t", 9, &starts); n != 2 {
		b.Errorf("%d starts a minute later, want the last two", n)
	}
}
