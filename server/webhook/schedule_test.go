package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// answers replaces the network in virtual time: a function answers.
type answers func(r *http.Request) (status int, header string, err error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status, header, err := f(r)
	if err != nil {
		return nil, err
	}
	a := &http.Response{StatusCode: status, Header: make(http.Header), Body: http.NoBody}
	if header != "" {
		a.Header.Set("Retry-After", header)
	}
	return a, nil
}

// withHarness runs a test in virtual time, with a network that answers by f.
func withHarness(t *testing.T, f answers, test func(w *harness)) {
	t.Helper()
	withHarnessConfig(t, Config{transport: f}, test)
}

func withHarnessConfig(t *testing.T, c Config, test func(w *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.Allow = allow(t, "*, 10.0.0.0/8")
		w := newHarness(t, c)
		test(w)
		w.end()
	})
}

const hook = "http://example.org/hook"

func hookOf(p tube.Push) tube.Policy {
	p.URL = hook
	return tube.Policy{Push: p}
}

// hold waits until the call is cut off.
func hold(r *http.Request) error {
	<-r.Context().Done()
	return r.Context().Err()
}

// endlessBody is the body of an answer that never ends.
type endlessBody struct{ ctx context.Context }

func (b endlessBody) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }
func (b endlessBody) Close() error             { return nil }

// endlessBodies is a network that answers 200 with an endlessBody.
type endlessBodies struct{}

func (endlessBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: make(http.Header), Body: endlessBody{r.Context()}}, nil
}

// TestBodyThatNeverComes: the status counts, and the body is only waited for briefly.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	withHarnessConfig(t, Config{transport: endlessBodies{}}, func(w *harness) {
		w.push("t", hookOf(tube.Push{}))
		id := w.put("t", "x")
		advance(1100 * time.Millisecond) // as docs/push.md says, and a little more
		if s := w.job(id); s.State != tube.Gone {
			t.Errorf("%+v", s)
		}
	})
}

// advance lets time pass, until all goroutines wait for something again.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestAnswers: what each answer does to a job.
func TestAnswers(t *testing.T) {
	t.Parallel()
	later := time.Date(2000, 1, 1, 0, 5, 0, 0, time.UTC).Format(http.TimeFormat) // a synctest bubble begins at midnight
	past := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).Format(http.TimeFormat)
	retry := tube.Rules{Retry: []time.Duration{30 * time.Second}}
	for _, c := range []struct {
		status int
		header string
		err    error
		rules  tube.Rules
		want   string // state, delay, parked
		result Result
	}{
		{status: 200, want: "invalid 0 ", result: Delivered},
		{status: 204, want: "invalid 0 ", result: Delivered},
		{status: 299, want: "invalid 0 ", result: Delivered},
		{status: 410, want: "buried 0 refused", result: Gone},
		{status: 410, rules: retry, want: "buried 0 refused", result: Gone},
		{status: 429, header: "7", want: "delayed 7 ", result: Postponed},
		{status: 503, header: " 7 ", rules: retry, want: "delayed 7 ", result: Postponed},
		{status: 503, header: later, rules: retry, want: "delayed 300 ", result: Postponed},
		{status: 429, header: "99999999999", want: "delayed 315360000 ", result: Postponed},
		{status: 503, header: past, rules: retry, want: "delayed 30 ", result: Failed},
		{status: 503, header: "0", rules: retry, want: "delayed 30 ", result: Failed},
		{status: 503, header: "soon", rules: retry, want: "delayed 30 ", result: Failed},
		{status: 429, rules: retry, want: "delayed 30 ", result: Failed},
		{status: 500, header: "7", rules: retry, want: "delayed 30 ", result: Failed},
		{status: 500, want: "delayed 1 ", result: Failed},
		{status: 404, rules: retry, want: "delayed 30 ", result: Failed},
		{status: 301, rules: retry, want: "delayed 30 ", result: Failed},
		{status: 199, rules: retry, want: "delayed 30 ", result: Failed},
		{status: 500, rules: tube.Rules{Max: 1}, want: "buried 1 deliveries", result: Failed},
		{err: errors.New("broken"), rules: retry, want: "delayed 30 ", result: Broken},
		{err: context.DeadlineExceeded, rules: retry, want: "delayed 30 ", result: TimedOut},
	} {
		withHarness(t, func(*http.Request) (int, string, error) { return c.status, c.header, c.err }, func(w *harness) {
			w.push("t", tube.Policy{Rules: c.rules, Push: tube.Push{URL: hook}})
			id := w.put("t", "x")
			synctest.Wait()
			s, parked := w.job(id), ""
			if s.Metadata != nil {
				parked = s.Metadata.Parked.String()
			}
			if got := fmt.Sprint(s.State, " ", s.Delay, " ", parked); got != c.want {
				t.Errorf("%d %q %v %+v: %s, want %s", c.status, c.header, c.err, c.rules, got, c.want)
			}
			if s.State != tube.Gone && s.Pri != 77 {
				t.Errorf("%d: priority %d", c.status, s.Pri)
			}
			if stats := w.Dispatcher.Stats().Tubes; len(stats) != 1 || stats[0].Calls[c.result] != 1 || stats[0].Tube != "t" {
				t.Errorf("%d: %+v, want one call %v", c.status, stats, c.result)
			}
			if failed := c.result != Delivered; failed != (len(w.log.all()) == 1) {
				t.Errorf("%d: the log says %q", c.status, w.log.all())
			}
		})
	}
}

// TestRetries: the retry list says when a job is called again; at its end the job is parked.
// Without a list the waits double.
func TestRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules tube.Rules
		want  string
		end   tube.State
	}{
		{tube.Rules{Retry: []time.Duration{0, 2 * time.Minute, 1500 * time.Millisecond}}, "[0s 0s 2m0s 2m1.5s]", tube.Buried},
		{tube.Rules{Max: 5}, "[0s 1s 3s 7s 15s]", tube.Buried},
	} {
		var at []time.Duration
		var ids []string
		var begun time.Time
		f := func(r *http.Request) (int, string, error) {
			at = append(at, time.Since(begun).Truncate(100*time.Millisecond))
			ids = append(ids, r.Header.Get("Webhook-Id")+" "+r.Header.Get("Redstalk-Failures"))
			return 500, "", nil
		}
		withHarness(t, f, func(w *harness) {
			begun = time.Now()
			w.push("t", tube.Policy{Rules: c.rules, Push: tube.Push{URL: hook}})
			id := w.put("t", "x")
			advance(time.Hour)
			if got := fmt.Sprint(at); got != c.want || w.job(id).State != c.end {
				t.Errorf("%+v: called after %s, want %s; then %v", c.rules, got, c.want, w.job(id).State)
			}
			if ids[0] != "1-1 0" || ids[2] != "1-3 2" {
				t.Errorf("webhook-ids %q", ids)
			}
		})
	}
}

// TestTTR: a call is cut off by the TTR, or by its timeout if that is earlier. A job is
// never called twice within its TTR, unless its call has failed.
func TestTTR(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log []string
	begun := time.Time{}
	f := func(r *http.Request) (int, string, error) {
		from := time.Since(begun)
		err := hold(r)
		mu.Lock()
		defer mu.Unlock()
		log = append(log, fmt.Sprintf("%v-%v", from.Round(time.Second), time.Since(begun).Round(time.Second)))
		return 0, "", err
	}
	withHarness(t, f, func(w *harness) {
		begun = time.Now()
		w.push("t", tube.Policy{Rules: tube.Rules{Retry: []time.Duration{time.Minute, time.Hour}}, Push: tube.Push{URL: hook, Timeout: 20 * time.Second}})
		w.putFor("t", "x", 7)
		w.putFor("t", "y", 30)
		advance(10 * time.Minute)
		slices.Sort(log)
		if want := "0s-20s 0s-7s 1m20s-1m40s 1m7s-1m14s"; strings.Join(log, " ") != want {
			t.Errorf("called at %q, want %q", log, want)
		}
	})
}

// callMeter measures how many calls run concurrently.
type callMeter struct {
	mu       sync.Mutex
	now, max int
	all      int
}

func (m *callMeter) during(r *http.Request, d time.Duration) {
	m.mu.Lock()
	m.now++
	m.all++
	m.max = max(m.max, m.now)
	m.mu.Unlock()
	time.Sleep(d)
	m.mu.Lock()
	m.now--
	m.mu.Unlock()
}

// seen returns the largest number of concurrent calls, and the number of all calls.
func (m *callMeter) seen() (max, all int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.max, m.all
}

// TestConcurrency: the limits of a tube, of a target, and of all calls are used and not
// exceeded, and no more jobs are leased.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		tubes  int
		policy tube.Push
		want   int
	}{
		{Config{}, 1, tube.Push{Concurrency: 3}, 3},
		{Config{}, 2, tube.Push{Concurrency: 3}, 6},
		{Config{}, 1, tube.Push{}, DefaultConcurrency},
		{Config{TargetConcurrency: 5}, 4, tube.Push{Concurrency: 3}, 5},
		{Config{Calls: 12}, 4, tube.Push{Concurrency: 3}, leastShare},
	} {
		var m callMeter
		c.config.transport = answers(func(r *http.Request) (int, string, error) {
			m.during(r, time.Second)
			return 200, "", nil
		})
		withHarnessConfig(t, c.config, func(w *harness) {
			for i := range c.tubes {
				name := fmt.Sprint("t", i)
				for range 100 {
					w.put(name, "x")
				}
				w.push(name, hookOf(c.policy))
			}
			advance(500 * time.Millisecond)
			if s, err := w.Queue.Stats(context.Background()); err != nil || int(s.Reserved) != c.want || w.Dispatcher.Stats().Running != c.want {
				t.Errorf("%+v: %d are reserved, %v", c, s.Reserved, err)
			}
			begun := time.Now()
			for time.Since(begun) < 10*time.Minute && w.Dispatcher.Stats().Leased > 0 {
				advance(100 * time.Millisecond)
			}
			took, want := time.Since(begun), time.Duration(c.tubes*100/c.want)*time.Second
			if most, all := m.seen(); most != c.want || all != c.tubes*100 || took > want+want/4+5*time.Second {
				t.Errorf("%+v: %d of %d at a time, in %v; want %v", c, most, all, took, want)
			}
		})
	}
}

// TestSlowTargets: slow targets do not use up all calls for long.
func TestSlowTargets(t *testing.T) {
	t.Parallel()
	f := func(r *http.Request) (int, string, error) {
		if r.URL.Host != "good" {
			time.Sleep(4 * time.Second)
		}
		return 200, "", nil
	}
	withHarnessConfig(t, Config{Calls: 100, transport: answers(f)}, func(w *harness) {
		for i := range 10 {
			name := fmt.Sprint("slow", i)
			w.push(name, tube.Policy{Push: tube.Push{URL: "http://" + name, Concurrency: 50}})
			for range 200 {
				w.putFor(name, "x", 600)
			}
		}
		w.push("good", tube.Policy{Push: tube.Push{URL: "http://good"}})
		advance(20 * time.Second)
		for range 100 {
			w.put("good", "x")
		}
		advance(time.Second)
		s, err := w.TubeStats(context.Background(), "good")
		if err != nil || s.Deletes != 100 {
			t.Errorf("%+v, %v", s, err)
		}
		const seconds = 16 // each call takes 4, and sometimes one call fewer is under way
		running := 0
		for range seconds {
			running += int(w.Dispatcher.Stats().Running)
			advance(time.Second)
		}
		if running < 70*seconds {
			t.Errorf("%d calls are under way on average", running/seconds)
		}
	})
}

// startMeter is callMeter, and records when the calls begin.
type startMeter struct {
	mu sync.Mutex
	at []time.Time
}

func (m *startMeter) call(*http.Request) (int, string, error) {
	m.mu.Lock()
	m.at = append(m.at, time.Now())
	m.mu.Unlock()
	return 200, "", nil
}

// most returns how many calls began in a period, at most.
func (m *startMeter) most(period time.Duration) (most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := 0
	for i, at := range m.at {
		for at.Sub(m.at[first]) >= period {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// TestRate: a rate limits the calls in any period, and the leased jobs. While it holds the jobs of a
// tube, the dispatcher waits for the wake-up and does not ask for jobs, except in case a wake-up was
// lost, as for tubes without jobs.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p         tube.Push
		in        time.Duration
		want, per int
	}{
		{tube.Push{Rate: 50, RateEvery: time.Second}, 10*time.Second - time.Millisecond, 500, 50},
		{tube.Push{Rate: 6, RateEvery: time.Minute}, 10*time.Minute - time.Millisecond, 60, 6},
		{tube.Push{Rate: 2, RateEvery: time.Hour}, 10*time.Hour - time.Millisecond, 20, 2},
	} {
		m, takes := new(startMeter), atomic.Int64{}
		withHarness(t, m.call, func(w *harness) {
			w.store.(*failing).set(func(b *storage.Batch) bool {
				for i := range b.Ops {
					if b.Ops[i].Kind == storage.Take {
						takes.Add(1)
					}
				}
				return false
			})
			w.putMany("t", 1000)
			w.push("t", hookOf(c.p))
			advance(c.in)
			if all := len(m.at); all < c.want*9/10 || all > c.want || m.most(c.p.RateEvery) > c.per {
				t.Errorf("%+v: %d calls in %v, want about %d; %d in a period", c.p, all, c.in, c.want, m.most(c.p.RateEvery))
			}
			if most := int64(4*c.want) + int64(c.in/pollEvery); takes.Load() > most {
				t.Errorf("%+v: %d takes, want at most %d", c.p, takes.Load(), most)
			}
			if s := w.Dispatcher.Stats(); s.Leased > 1 {
				t.Errorf("%+v: %d jobs are leased", c.p, s.Leased)
			}
		})
	}
}

// putMany puts n jobs into a tube.
func (w *harness) putMany(name string, n int) {
	for range n {
		w.put(name, "x")
	}
}

// TestBreaker: a target that keeps failing gets no more calls, its jobs stay where they are,
// and one call tries it now and then.
func TestBreaker(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var at []time.Duration
	var begun time.Time
	var works atomic.Bool
	f := func(r *http.Request) (int, string, error) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Host != "example.org" {
			return 200, "", nil
		}
		at = append(at, time.Since(begun).Round(time.Second))
		if works.Load() {
			return 200, "", nil
		}
		return 500, "", nil
	}
	called := func() []time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(at)
	}
	withHarness(t, f, func(w *harness) {
		begun = time.Now()
		rules := tube.Rules{Retry: []time.Duration{time.Hour}}
		for _, name := range []string{"a", "b"} {
			w.push(name, tube.Policy{Rules: rules, Push: tube.Push{URL: hook, Concurrency: 2}})
			w.putMany(name, 20)
		}
		advance(20 * time.Second)
		calls, s := len(called()), w.Dispatcher.Stats()
		if calls < breakAfter || calls > breakAfter+4 || s.Targets[0].State != "open" || s.Targets[0].Target != "http://example.org:80" || s.Waiting != 2 {
			t.Errorf("after %d calls: %+v", calls, s)
		}
		if q, _ := w.Queue.Stats(context.Background()); int(q.Ready) != 40-calls || int(q.Delayed) != calls || q.Reserved != 0 {
			t.Errorf("the jobs: %+v", q.Totals)
		}
		w.push("c", tube.Policy{Push: tube.Push{URL: "http://other.org/"}})
		if id := w.put("c", "x"); true {
			synctest.Wait()
			if w.job(id).State != tube.Gone {
				t.Error("another target waits, too")
			}
		}
		advance(20 * time.Second)
		if times := called(); len(times) != calls+1 || times[calls] != breakFor {
			t.Errorf("tried at %v", times[calls:])
		}
		works.Store(true)
		advance(breakFor)
		if s, n := w.Dispatcher.Stats(), len(called()); n != 40 || s.Targets[0].State != "closed" || s.Waiting != 0 {
			t.Errorf("%d were called in the end; %+v", n, s)
		}
		if log := strings.Join(w.log.all(), ""); strings.Count(log, "gets no calls") != 2 || strings.Count(log, "answers again") != 1 {
			t.Errorf("the log says %s", log)
		}
	})
}

// TestClose: Close waits for calls, and cuts them off when its context ends. No job is lost,
// and no successful call is repeated.
func TestClose(t *testing.T) {
	t.Parallel()
	f := func(r *http.Request) (int, string, error) {
		if r.URL.Path == "/never" {
			return 0, "", hold(r)
		}
		time.Sleep(2 * time.Second)
		return 200, "", nil
	}
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, Config{transport: answers(f), Allow: allow(t, "*")})
		w.push("good", hookOf(tube.Push{}))
		w.push("never", tube.Policy{Push: tube.Push{URL: "http://a/never", Timeout: time.Minute, Concurrency: 2}})
		good := w.put("good", "x")
		never := []uint64{w.put("never", "x"), w.put("never", "x"), w.put("never", "x")}
		advance(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		err := w.Dispatcher.Close(ctx)
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it took %v: %v", took, err)
		}
		if w.job(good).State != tube.Gone {
			t.Errorf("a job that was called well: %+v", w.job(good))
		}
		for _, id := range never {
			if s := w.job(id); s.State != tube.Ready || s.Counters.Failures() != 0 {
				t.Errorf("a job whose call was cut off: %+v", s)
			}
		}
		w.Queue.Close(context.Background())
		w.store.Close()
	})
}
