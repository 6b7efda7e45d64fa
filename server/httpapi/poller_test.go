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

// pollerTest feeds given poll results to a poller.
type pollerTest struct {
	t      *testing.T
	poller *poller
	now    time.Time
}

func newPollerTest(t *testing.T, p *poller) *pollerTest {
	pt := &pollerTest{t, p, time.UnixMilli(1e12)}
	p.now = func() time.Time { return pt.now }
	return pt
}

// poll records the result of a poll, the given time after the previous one.
func (pt *pollerTest) poll(after time.Duration, all ...*tube.TubeStats) {
	pt.now = pt.now.Add(after)
	pt.poller.record(all, nil, pt.now, pt.now)
}

// event returns the next event of a watcher: its kind and its value.
func (pt *pollerTest) event(w *watcher) (kind string, e watchEvent) {
	pt.t.Helper()
	select {
	case <-w.updates:
	default:
		pt.t.Fatal("there is no event")
	}
	head, data, _ := strings.Cut(string(pt.poller.nextEvent(w)), "\ndata: ")
	if err := json.Unmarshal([]byte(strings.TrimSuffix(data, "\n\n")), &e); err != nil && head == "event: tubes" {
		pt.t.Fatalf("%s: %v", data, err)
	}
	return strings.TrimPrefix(head, "event: "), e
}

func namesOf(tubes []liveTube) (names []string) {
	for _, t := range tubes {
		names = append(names, t.Name)
	}
	return names
}

// TestWatch: a watcher gets all tubes first, and then each change once, including the changes before a problem.
func TestWatch(t *testing.T) {
	t.Parallel()
	pt := newPollerTest(t, newPoller(nil))
	a, b := &tube.TubeStats{Name: "a"}, &tube.TubeStats{Name: "b", Ready: 1, OldestReady: time.Minute}
	w := new(watcher)
	pt.poller.subscribe(w)
	if len(w.updates) != 0 {
		t.Error("there is an event before the first poll")
	}
	expect := func(what, kind string, tubes, gone []string) {
		t.Helper()
		got, e := pt.event(w)
		if got != kind || !slices.Equal(namesOf(e.Tubes), tubes) || !slices.Equal(e.Gone, gone) || kind == "tubes" && e.At != pt.now.UnixMilli() {
			t.Errorf("%s: %s %+v, want %v, gone %v", what, got, e, tubes, gone)
		}
	}
	pt.poll(time.Second, b, a)
	expect("at first", "tubes", []string{"a", "b"}, nil)
	pt.now = pt.now.Add(time.Second)
	b.OldestReady += time.Second
	pt.poll(0, b, a)
	expect("nothing has changed", "tubes", nil, nil)

	pt.poll(time.Second, a)
	pt.poller.record(nil, fmt.Errorf("looking: %w", storage.ErrUnavailable), pt.now, pt.now)
	expect("the store is unavailable", "problem", nil, nil)
	pt.poll(time.Second, a, &tube.TubeStats{Name: "c"})
	expect("the store is back", "tubes", []string{"c"}, []string{"b"})
	pt.poll(time.Second, a, b)
	pt.poller.record(nil, errors.New("once more"), pt.now, pt.now)
	pt.poll(time.Second, a, b)
	expect("a problem that was not sent", "tubes", []string{"b"}, []string{"c"})

	second := new(watcher)
	pt.poller.subscribe(second)
	if _, e := pt.event(second); !slices.Equal(namesOf(e.Tubes), []string{"a", "b"}) {
		t.Errorf("the first event of a later watcher has %+v", e)
	}
	pt.poller.unsubscribe(w)
	pt.poller.unsubscribe(second)
	if pt.poller.watched() {
		t.Error("there are still watchers")
	}
}

// TestRates: rates of puts and deletes are smoothed, become zero, and start again for a tube that was deleted in
// between.
func TestRates(t *testing.T) {
	t.Parallel()
	pt := newPollerTest(t, newPoller(nil))
	for i, want := range []struct {
		total, deletes uint64
		puts, done     float64
	}{{100, 0, 0, 0}, {120, 8, 10, 4}, {140, 8, 15, 2}, {140, 8, 7.5, 1}, {5, 0, 0, 0}, {6, 0, 0.5, 0}, {6, 0, 0.3, 0}, {6, 0, 0.2, 0}, {6, 0, 0.1, 0}, {6, 0, 0, 0}} {
		pt.poll(time.Second, &tube.TubeStats{Name: "t", Total: want.total, Deletes: want.deletes})
		if got := pt.poller.live["t"]; got.Puts != want.puts || got.Done != want.done {
			t.Errorf("poll %d: %v puts and %v deletes a second, want %+v", i, got.Puts, got.Done, want)
		}
	}
}

// TestP95: the 95th percentile is the upper bound of its bucket.
func TestP95(t *testing.T) {
	t.Parallel()
	bounds := tube.TimesBounds()
	var times tube.Times
	if got := p95(&times); got != -1 {
		t.Errorf("of no waits it is %d", got)
	}
	for range 95 {
		times.Observe(bounds[0])
	}
	for range 5 {
		times.Observe(bounds[len(bounds)-1] + time.Second) // beyond the last bucket
	}
	if got := p95(&times); got != bounds[0].Milliseconds() {
		t.Errorf("with 95 of 100 in the first bucket it is %d", got)
	}
	times.Observe(bounds[2])
	if got := p95(&times); got != bounds[2].Milliseconds() {
		t.Errorf("with 95 of 101 there, and one in the third, it is %d", got)
	}
	times.Observe(time.Hour * 24)
	if got, want := p95(&times), bounds[len(bounds)-1].Milliseconds(); got != want {
		t.Errorf("with less than 95 of 100 in all buckets it is %d, want %d", got, want)
	}
}

// TestChartPoints: a chart has a point every ten seconds for the last hour. The chart of a tube that is gone is
// kept for half an hour.
func TestChartPoints(t *testing.T) {
	t.Parallel()
	a := start(t, Config{})
	pt := newPollerTest(t, a.api.service.poller)
	for i := range uint64(400) {
		all := []*tube.TubeStats{{Name: "t", Ready: i, Buried: 1 << 33, Total: 20 * i, Deletes: 10 * i}}
		if i < 10 {
			all = append(all, &tube.TubeStats{Name: "gone"})
		}
		pt.poll(pointEvery-time.Second, all...)
		pt.poll(time.Second, all...)
		if charts := len(pt.poller.history.charts); i == 9+maxPoints/2 && charts != 2 || i == 10+maxPoints/2 && charts != 1 {
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
