package differ

import (
	"bufio"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestKickedForAWaiter: a waiting connection may get a job before the connection
// that kicked it has its reply. The TTR that runs by then must not be forgotten.
func TestKickedForAWaiter(t *testing.T) {
	e := &episode{
		timed: true, begun: time.Now(), done: time.Now(), jobs: map[int]*job{7: {ttr: 1}}, byJudge: map[uint64]int{3: 7},
		conns: map[int]*conn{0: newConn(0, &sums{}), 1: newConn(0, &sums{})},
	}
	e.arm(event{kind: matures, job: 7}, 1)
	e.learn(0, &sentCommand{verb: "reserve", line: "reserve"}, reply{head: "RESERVED 3 2"})
	e.learn(1, &sentCommand{verb: "kick-job", line: "kick-job 3"}, reply{head: "KICKED"})
	if len(e.events) != 1 || e.events[0].kind != expires {
		t.Errorf("what is due: %+v", e.events)
	}
}

// holding is an episode in which connection 1 has job 7 until a TTR runs out,
// and connection 2 waits.
func holding(expiry event) *episode {
	e := &episode{
		timed: true, jobs: map[int]*job{7: {ttr: 3}}, byJudge: map[uint64]int{3: 7}, bySubject: map[uint64]int{3: 7},
		conns:  map[int]*conn{1: newConn(0, &sums{}), 2: newConn(0, &sums{})},
		events: []event{expiry}, covered: make(Coverage),
		judge:   &side{links: map[int]*link{1: {}, 2: {}}, news: make(chan struct{}, 1)},
		subject: &side{links: map[int]*link{1: {}, 2: {}}, news: make(chan struct{}, 1)},
	}
	e.conns[1].held[7] = true
	e.conns[2].pending = []*sentCommand{{verb: "reserve", line: "reserve", blocks: true}}
	return e
}

// TestGotByAnothersTTR: a TTR that begins when another one runs out begins no
// sooner than that was due, and no later than both servers have said so. When this
// package reads the replies does not count.
func TestGotByAnothersTTR(t *testing.T) {
	now := time.Now()
	lo, hi := now.Add(-lag-4*time.Millisecond), now.Add(-lag-time.Millisecond)
	e := holding(event{kind: expires, job: 7, conn: 1, lo: lo, hi: hi})
	first, last := lo.Add(2*time.Millisecond), hi.Add(70*time.Millisecond)
	e.judge.links[2].replies = []reply{{head: "RESERVED 3 1", body: "x", data: true, at: last}}
	e.subject.links[2].replies = []reply{{head: "RESERVED 3 1", body: "x", data: true, at: first}}
	e.log = []entry{{}}
	if over := e.past(now); len(over) != 1 || len(e.events) != 0 {
		t.Fatalf("over: %+v, to come: %+v", over, e.events)
	}
	if err := e.consume(map[int]int{2: 1}); err != nil {
		t.Fatal(err)
	}
	if len(e.events) != 2 {
		t.Fatalf("to come: %+v", e.events)
	}
	for i, after := range []time.Duration{3 * time.Second, 2 * time.Second} {
		if ev := e.events[i]; !ev.lo.Equal(lo.Add(after)) || !ev.hi.Equal(last.Add(after)) {
			t.Errorf("between %v and %v, want %v and %v", ev.lo, ev.hi, lo.Add(after), last.Add(after))
		}
	}
}

// TestReminded: the holder sends something as soon as its TTR must have run out,
// once, and is not taken for a waiting connection.
func TestReminded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		hi := begun.Add(time.Second)
		e := holding(event{kind: expires, job: 7, conn: 1, lo: hi.Add(-time.Millisecond), hi: hi})
		e.conns[2].pending = nil
		came := make(chan time.Duration, 10)
		for _, s := range []*side{e.judge, e.subject} {
			ours, theirs := net.Pipe()
			defer ours.Close()
			s.links[1].conn = ours
			go func() {
				for in := bufio.NewScanner(theirs); in.Scan(); {
					came <- time.Since(begun)
				}
			}()
		}
		if err := e.sleepReminding(hi.Add(lag)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(came) != 2 {
			t.Fatalf("%d lines, want one for each server", len(came))
		}
		if a, b := <-came, <-came; a != time.Second+prompt || b != a {
			t.Errorf("after %v and %v", a, b)
		}
		if e.waiting(-1) > 0 || e.conns[1].held[7] {
			t.Errorf("%d wait, and its holder has it: %v", e.waiting(-1), e.conns[1].held[7])
		}
		if e.slow > 0 || !time.Now().Equal(hi.Add(lag)) {
			t.Errorf("it was over %v after the TTR, and %v late", time.Since(hi), e.slow)
		}
	})
}

// TestFaultNearAnEvent: what differs when a step has lasted until an event is
// no proof: one server has had the event, and the other not yet.
func TestFaultNearAnEvent(t *testing.T) {
	for _, c := range []struct {
		due  time.Duration
		near bool
	}{{time.Second, false}, {guard / 4, true}, {-guard, true}} {
		lo := time.Now().Add(c.due)
		e := holding(event{kind: expires, job: 7, conn: 1, lo: lo, hi: lo})
		e.log, e.conns[2].pending = []entry{{}}, nil
		e.subject.links[2].replies = []reply{{head: "RESERVED 3 1", body: "x", data: true}}
		var fault *Fault
		if err := e.finish(); !errors.As(err, &fault) || e.void != c.near {
			t.Errorf("%v before an event: %v, near one: %v", c.due, err, e.void)
		}
	}
}

// TestTwoReadyAtOnce: when a pause and a TTR end together, it is chance which of the two jobs a
// waiting connection gets. A reserve that ends together with one of them is no chance.
func TestTwoReadyAtOnce(t *testing.T) {
	then := time.Now().Add(-lag)
	at := func(kind occasion) event { return event{kind: kind, lo: then, hi: then} }
	for _, c := range []struct {
		name   string
		over   []event
		chance bool
	}{
		{"a pause and a TTR", []event{at(resumes), at(expires)}, true},
		{"two delays", []event{at(matures), at(matures)}, true},
		{"a pause and a reserve", []event{at(resumes), at(timesOut)}, false},
		{"a reserve and a TTR", []event{at(timesOut), at(expires)}, false},
	} {
		if got := new(episode).ambiguous(c.over, time.Now()); got != c.chance {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestCrowded: no event is set off within an event that may take long, nor near
// its ends.
func TestCrowded(t *testing.T) {
	now := time.Now()
	const width = 300 * time.Millisecond
	e := &episode{events: []event{{lo: now, hi: now.Add(width)}}}
	for after := -995 * time.Millisecond; after < 3*time.Second; after += 10 * time.Millisecond {
		at := (after + 4*time.Second) % time.Second // within the event's second
		want := at < width+spacing || at > time.Second-spacing
		if got := e.tooClose(now.Add(after)); got != want {
			t.Errorf("%v after it has begun: %v", after, got)
		}
	}
}

// TestAgain: a failure is believed if it is seen again while the machine is not
// too slow.
func TestAgain(t *testing.T) {
	type play struct{ fails, slow, near bool }
	for _, c := range []struct {
		name           string
		plays          []play // and then forever like the last
		failed, inTime bool
		most           int // plays
	}{
		{"fails again", []play{{fails: true}}, true, true, 1},
		{"does not", []play{{}}, false, true, 3},
		{"once in three times", []play{{}, {}, {fails: true}}, true, true, 3},
		{"only when slow", []play{{fails: true, slow: true}, {}}, false, true, 4},
		{"also when not slow", []play{{fails: true, slow: true}, {slow: true}, {fails: true}}, true, true, 3},
		{"cut short", []play{{near: true}, {near: true}, {near: true}, {fails: true}}, true, true, 4},
		{"once near an event", []play{{fails: true, near: true}, {}}, false, true, 4},
		{"always near an event", []play{{fails: true, near: true}}, true, true, 2},
		{"always slow", []play{{fails: true, slow: true}}, false, false, 9},
	} {
		fault, plays := &Fault{Verb: "touch"}, 0
		failed, inTime := again(failure{fault: fault}, func() (*episode, *Fault) {
			p := c.plays[min(plays, len(c.plays)-1)]
			plays++
			e := &episode{void: p.near, slow: guard}
			if p.slow {
				e.slow = lag
			}
			if p.fails {
				return e, fault
			}
			return e, nil
		})
		if failed != c.failed || inTime != c.inTime || plays != c.most {
			t.Errorf("%s: %v, %v after %d plays", c.name, failed, inTime, plays)
		}
	}
}
