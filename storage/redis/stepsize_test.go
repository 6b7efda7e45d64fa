package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestStepSize: a step gets smaller if calls with one are slow, at most by half each time, and
// larger if they are fast.
func TestStepSize(t *testing.T) {
	p := &partition{}
	size := &p.stepSizes.flush
	took := func(of time.Duration, times int, want int) {
		t.Helper()
		for range times {
			c := &call{}
			c.stepSize(size)
			p.adjustStepSizes(c, of)
		}
		if got := size.limit(); got != want {
			t.Fatalf("%d jobs, want %d", got, want)
		}
	}
	const away = 30 * time.Millisecond // Redis is as far
	took(away, 0, initialStep)
	took(away, 1, initialStep+initialStep/8)
	took(away+targetStepTime, 100, maxMoves)
	took(away+time.Hour, 1, maxMoves/2)
	took(away+targetStepTime*5/4, 1, maxMoves*2/5)
	took(away+time.Hour, 100, minStep)
	took(away, 100, maxMoves)
	c := &call{encoding: encoding{ops: 500 + maxMoves, moved: maxMoves}} // beside much else
	c.stepSize(size)
	p.adjustStepSizes(c, away+targetStepTime+500*assumedOpTime)
	took(away, 0, maxMoves)
	p.adjustStepSizes(&call{}, time.Millisecond) // without a step
	took(away, 100, minStep)
}

// TestStepsAdapt: work on many jobs is done in smaller steps when calls are slow.
func TestStepsAdapt(t *testing.T) {
	server := redistest.Start(t)
	var ahead atomic.Int64
	s := openWith(t, Options{URL: server.URL(), Timeout: patient, skew: func() time.Duration { return time.Duration(ahead.Load()) }})
	m := &manyCost{t: t, s: s, from: "from", to: "to"}
	const jobs = maxMoves
	all := &s.parts[0].stepSizes
	for _, tc := range []struct {
		what  string
		size  *stepSize
		delay uint32
		begin func()
		work  func()
	}{
		{"move", &all.move, 0, nil, func() { moveJobsOf(s, "from", tube.Ready, "to", jobs) }},
		{"flush", &all.flush, 0, nil, func() { flushOf(s, "from", tube.Gone) }},
		{"list", &all.list, 0, nil, func() { m.list(tube.Ready) }},
		{"list of reserved", &all.listReserved, 0, func() { m.reserve(jobs) }, func() { m.list(tube.Reserved) }},
		{"flush of reserved", &all.flushReserved, 0, func() { m.reserve(jobs) }, func() { flushOf(s, "from", tube.Reserved) }},
		{"kick", &all.kick, 100, nil, func() { do(s, storage.Op{Kind: storage.Kick, Tube: "from", MaxJobs: 2 * jobs}) }},
		{"tick", &all.tick, 100, func() { ahead.Add(int64(101 * time.Second)) }, func() { s.TickAll() }},
	} {
		most := func(size int32) int {
			m.fill(jobs, tc.delay)
			if tc.begin != nil {
				tc.begin()
			}
			tc.size.jobs.Store(size)
			n := mostCommands(t, server, tc.work)
			flushOf(s, "from", tube.Gone)
			flushOf(s, "from", tube.Reserved)
			return n
		}
		if fast, slow := most(maxMoves), most(minStep); slow > fast/2 {
			t.Errorf("%s: calls of %d commands at the minimum size, of %d at the maximum", tc.what, slow, fast)
		}
	}
}
