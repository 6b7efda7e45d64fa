package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// looks plays a history, whose looks are given.
type pollerTest struct {
	t   *testing.T
	h   *poller
	now time.Time
}

func newPollerTest(t *testing.T, p *poller) *pollerTest {
	l := &pollerTest{t, p, time.UnixMilli(1e12)}
	p.now = func() time.Time { return l.now }
	return l
}

// look is what a look sees that long after the one before.
func (l *pollerTest) poll(after time.Duration, all ...*tube.TubeStats) {
	l.now = l.now.Add(after)
	l.h.record(all, nil, l.now, l.now)
}

// event returns what a watcher is sent, as its kind and its value.
func (l *pollerTest) event(w *watcher) (kind string, e watchEvent) {
	l.t.Helper()
	select {
	case <-w.updates:
	default:
		l.t.Fatal("there is nothing new")
	}
	head, data, _ := strings.Cut(string(l.h.nextEvent(w)), "\ndata: ")
	if err := json.Unmarshal([]byte(strings.TrimSuffix(data, "\n\n")), &e); err != nil && head == "event: tubes" {
		l.t.Fatalf("%s: %v", data, err)
	}
	return strings.TrimPrefix(head, "event: "), e
}

func namesOf(tubes []liveTube) (names []string) {
	for _, t := range tubes {
		names = append(names, t.Name)
	}
	return names
}

// TestWatch: who watches is sent all tubes first, and then each change once, also those of
// before a problem.
func TestWatch(t *testing.T) {
	t.Parallel()
	l := newPollerTest(t, newPoller(nil))
	a, b := &tube.TubeStats{Name: "a"}, &tube.TubeStats{Name: "b", Ready: 1, OldestReady: time.Minute}
	w := new(watcher)
	l.h.subscribe(w)
	if len(w.updates) != 0 {
		t.Error("before the first look there is something to send")
	}
	expect := func(what, kind string, tubes, gone []string) {
		t.Helper()
		got, e := l.event(w)
		if got != kind || !slices.Equal(namesOf(e.Tubes), tubes) || !slices.Equal(e.Gone, gone) || kind == "tubes" && e.At != l.now.UnixMilli() {
			t.Errorf("%s: %s %+v, want %v, gone %v", what, got, e, tubes, gone)
		}
	}
	l.poll(time.Second, b, a)
	expect("at first", "tubes", []string{"a", "b"}, nil)
	l.now = l.now.Add(time.Second)
	b.OldestReady += time.Second
	l.poll(0, b, a)
	expect("nothing has changed", "tubes", nil, nil)

	l.poll(time.Second, a)
	l.h.record(nil, fmt.Errorf("looking: %w", storage.ErrUnavailable), l.now, l.now)
	expect("the store is away", "problem", nil, nil)
	l.poll(time.Second, a, &tube.TubeStats{Name: "c"})
	expect("the store is back", "tubes", []string{"c"}, []string{"b"})
	l.poll(time.Second, a, b)
	l.h.record(nil, errors.New("once more"), l.now, l.now)
	l.poll(time.Second, a, b)
	expect("a problem that nobody was told of", "tubes", []string{"b"}, []string{"c"})

	second := new(watcher)
	l.h.subscribe(second)
	if _, e := l.event(second); !slices.Equal(namesOf(e.Tubes), []string{"a", "b"}) {
		t.Errorf("who comes later is told of %+v", e)
	}
	l.h.unsubscribe(w)
	l.h.unsubscribe(second)
	if l.h.watched() {
		t.Error("nobody watches")
	}
}

// TestRates: of the rates of puts and deletes half is that of the last second. They come to an end,
// and of a tube that was gone in between there are none.
func TestRates(t *testing.T) {
	t.Parallel()
	l := newPollerTest(t, newPoller(nil))
	for i, want := range []struct {
		total, deletes uint64
		puts, done     float64
	}{{100, 0, 0, 0}, {120, 8, 10, 4}, {140, 8, 15, 2}, {140, 8, 7.5, 1}, {5, 0, 0, 0}, {6, 0, 0.5, 0}, {6, 0, 0.3, 0}, {6, 0, 0.2, 0}, {6, 0, 0.1, 0}, {6, 0, 0, 0}} {
		l.poll(time.Second, &tube.TubeStats{Name: "t", Total: want.total, Deletes: want.deletes})
		if got := l.h.live["t"]; got.Puts != want.puts || got.Done != want.done {
			t.Errorf("look %d: %v puts and %v deletes a second, want %+v", i, got.Puts, got.Done, want)
		}
	}
}

// TestP95: the bound of the bucket in which the wait is that 95 of 100 did not exceed.
func TestP95(t *testing.T) {
	t.Parallel()
	bounds := tube.TimesBounds()
	var times tube.Times
	if got := p95(&times); got != -1 {
		t.Errorf("of no waits it is %d", got)
	}
	for range 95 {
		times.Note(bounds[0])
	}
	for range 5 {
		times.Note(bounds[len(bounds)-1] + time.Second) // beyond all bounds
	}
	if got := p95(&times); got != bounds[0].Milliseconds() {
		t.Errorf("with 95 of 100 in the first bucket it is %d", got)
	}
	times.Note(bounds[2])
	if got := p95(&times); got != bounds[2].Milliseconds() {
		t.Errorf("with 95 of 101 there, and one in the third, it is %d", got)
	}
	times.Note(time.Hour * 24)
	if got, want := p95(&times), bounds[len(bounds)-1].Milliseconds(); got != want {
		t.Errorf("with less than 95 of 100 in all buckets it is %d, want %d", got, want)
	}
}

// TestChartPoints: a chart has a point every ten seconds, the last of an hour; of a tube that is
// gone it is kept half an hour.
func TestChartPoints(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	l := newPollerTest(t, a.api.poller)
	for i := range uint64(400) {
		all := []*tube.TubeStats{{Name: "t", Ready: i, Buried: 1 << 33, Total: 20 * i, Deletes: 10 * i}}
		if i < 10 {
			all = append(all, &tube.TubeStats{Name: "gone"})
		}
		l.poll(pointEvery-time.Second, all...)
		l.poll(time.Second, all...)
		if charts := len(l.h.charts); i == 9+maxPoints/2 && charts != 2 || i == 10+maxPoints/2 && charts != 1 {
			t.Errorf("after %d points there are %d charts", i, charts)
		}
	}
	all := decode[chartsInfo](t, a.want(200, "GET", "/v1/charts?points=3", ""))
	if got := all.Tubes["t"]; !slices.Equal(got.Ready, []uint32{397, 398, 399}) || got.End == 0 || all.EveryMS != 10_000 || len(all.Tubes) != 1 {
		t.Errorf("the last points are %+v", all)
	}
	one := decode[chartsInfo](t, a.want(200, "GET", "/v1/tubes/t/chart", "")).Tubes["t"]
	if len(one.Ready) != 360 || one.Ready[0] != 40 || one.Ready[359] != 399 || one.Buried[0] != 1<<32-1 || one.Puts[5] != 2 || one.Deletes[5] != 1 {
		t.Errorf("the chart of one tube is %+v", one)
	}
}
