package metrics_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"redstalk/server/jobbatch"
	"redstalk/server/metrics"
	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// instance is a queue on a memory engine, and its Observer.
type instance struct {
	*queue.Queue
	o     *metrics.Observer
	store *embedded.Engine
	h     tube.Holder
}

func newInstance(t testing.TB, tubes int) *instance {
	store := embedded.NewMemory()
	named := tubes
	if named == 0 {
		named = -1
	}
	q := queue.New(store, queue.Config{NamedTubes: named})
	t.Cleanup(func() {
		q.Close(context.Background())
		store.Close()
	})
	o := metrics.New(metrics.Config{Tubes: tubes, Commands: []string{"unknown", "put"}, Version: "1.2"})
	o.Serving(q)
	return &instance{q, o, store, q.NewHolder()}
}

var background = context.Background()

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (i *instance) put(t testing.TB, name string, delay uint32) uint64 {
	t.Helper()
	return must[uint64](t)(i.Put(background, queue.NewJob{Tube: name, Pri: 2000, Delay: delay, TTR: 60}))
}

func (i *instance) reserve(t testing.TB, name string, wait time.Duration) uint64 {
	t.Helper()
	return must[queue.Job](t)(i.Reserve(background, i.h, []string{name}, wait)).ID
}

// get returns the status and the text of an answer.
func get(o *metrics.Observer, method, path string) (int, string) {
	w := httptest.NewRecorder()
	o.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	text, _ := io.ReadAll(w.Body)
	return w.Code, string(text)
}

// samples returns the lines of /metrics by their names and labels.
func samples(t testing.TB, o *metrics.Observer) map[string]string {
	t.Helper()
	status, text := get(o, "GET", metrics.MetricsPath)
	if status != http.StatusOK {
		t.Fatalf("%d\n%s", status, text)
	}
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if at := strings.LastIndexByte(line, ' '); !strings.HasPrefix(line, "#") {
			all[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return all
}

// scrape returns the metrics as parsed by Prometheus's own parser.
func scrape(t testing.TB, o *metrics.Observer) map[string]*dto.MetricFamily {
	t.Helper()
	_, text := get(o, "GET", metrics.MetricsPath)
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func expect(t testing.TB, got map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, not %q", name, got[name], value)
		}
	}
}

// TestTube follows jobs through a tube, second by second.
func TestTube(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 10)
		first, second := i.put(t, "mail", 0), i.put(t, "mail", 10)
		time.Sleep(3 * time.Second)
		if got := i.reserve(t, "mail", 0); got != first {
			t.Fatal(got)
		}
		time.Sleep(30 * time.Second)
		if err := i.Touch(background, i.h, first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(45 * time.Second) // second has been due for 68 s
		if err := i.Delete(background, i.h, first); err != nil {
			t.Fatal(err)
		}
		expect(t, samples(t, i.o), map[string]string{
			`redstalk_tube_jobs{tube="mail",state="ready"}`:         "1",
			`redstalk_tube_jobs{tube="mail",state="reserved"}`:      "0",
			`redstalk_tube_oldest_ready_seconds{tube="mail"}`:       "78",
			`redstalk_tube_puts_total{tube="mail"}`:                 "2",
			`redstalk_tube_deliveries_total{tube="mail"}`:           "1",
			`redstalk_tube_deletes_total{tube="mail"}`:              "1",
			`redstalk_tube_wait_seconds_sum{tube="mail"}`:           "3",
			`redstalk_tube_wait_seconds_bucket{tube="mail",le="1"}`: "0",
			`redstalk_tube_wait_seconds_bucket{tube="mail",le="5"}`: "1",
			`redstalk_tube_run_seconds_sum{tube="mail"}`:            "75",
			`redstalk_jobs{state="ready"}`:                          "1",
			`redstalk_tubes`:                                        "2",
		})
		i.reserve(t, "mail", 0)
		time.Sleep(61 * time.Second) // its TTR ends
		i.reserve(t, "mail", time.Second)
		if err := i.Bury(background, i.h, second, 1); err != nil {
			t.Fatal(err)
		}
		must[int](t)(i.Kick(background, "mail", 1, false))
		i.reserve(t, "mail", 0)
		if err := i.Release(background, i.h, second, tube.Terms{}); err != nil {
			t.Fatal(err)
		}
		expect(t, samples(t, i.o), map[string]string{
			`redstalk_tube_wait_seconds_sum{tube="mail"}`:   "71", // later deliveries do not count
			`redstalk_tube_wait_seconds_count{tube="mail"}`: "2",
			`redstalk_tube_run_seconds_count{tube="mail"}`:  "1",
			`redstalk_tube_deliveries_total{tube="mail"}`:   "4",
			`redstalk_tube_timeouts_total{tube="mail"}`:     "1",
			`redstalk_tube_buries_total{tube="mail"}`:       "1",
			`redstalk_tube_kicks_total{tube="mail"}`:        "1",
			`redstalk_tube_releases_total{tube="mail"}`:     "1",
			`redstalk_tube_urgent_jobs{tube="mail"}`:        "1",
		})
	})
}

// TestParked: an exhausted job counts, and so does its dead letter in the other tube.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 10)
		answers := must[[]storage.Answer](t)(i.Do(background, storage.Op{
			Kind: storage.SetPolicy, Tube: "a", Args: &storage.Args{Policy: &tube.Policy{Rules: tube.Rules{Max: 1, Dead: "b"}}},
		}))
		if answers[0].Err != nil {
			t.Fatal(answers[0].Err)
		}
		i.put(t, "a", 0)
		if err := i.Release(background, i.h, i.reserve(t, "a", 0), tube.Terms{}); err != nil {
			t.Fatal(err)
		}
		i.put(t, "a", 0) // otherwise the tube would have vanished
		expect(t, samples(t, i.o), map[string]string{
			`redstalk_tube_puts_total{tube="b"}`:              "1",
			`redstalk_tube_jobs{tube="b",state="ready"}`:      "1",
			`redstalk_tube_parked_total{tube="all others"}`:   "1", // of the tube that had vanished
			`redstalk_tube_releases_total{tube="all others"}`: "1",
			`redstalk_tube_puts_total{tube="a"}`:              "1",
		})
	})
}

// TestManyTubes: tubes beyond the limit are shown as one, and its counters never decrease.
func TestManyTubes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 3) // default, a and b
		for n, name := range []string{"a", "b", "c", "d"} {
			for range n + 1 {
				i.put(t, name, 0)
			}
		}
		const others = `{tube="all others"}`
		got := samples(t, i.o)
		expect(t, got, map[string]string{
			`redstalk_tube_puts_total{tube="b"}`:                  "2",
			`redstalk_tube_puts_total{tube="c"}`:                  "",
			`redstalk_tube_puts_total` + others:                   "7",
			`redstalk_tube_jobs{tube="all others",state="ready"}`: "7",
			`redstalk_tube_urgent_jobs` + others:                  "0",
			`redstalk_tubes`:                                      "5",
		})
		// When b vanishes, its counters go to the others. Its place goes to a new tube, not to one
		// of the others, whose earlier counts would be missing.
		for range 2 {
			if err := i.Delete(background, i.h, i.reserve(t, "b", 0)); err != nil {
				t.Fatal(err)
			}
		}
		i.put(t, "c", 0)
		i.put(t, "e", 0)
		time.Sleep(20 * time.Second) // so that tubes are listed again
		expect(t, samples(t, i.o), map[string]string{
			`redstalk_tube_puts_total{tube="b"}`:                  "",
			`redstalk_tube_puts_total{tube="e"}`:                  "1",
			`redstalk_tube_jobs{tube="e",state="ready"}`:          "1",
			`redstalk_tube_puts_total` + others:                   "10",
			`redstalk_tube_deletes_total` + others:                "2",
			`redstalk_tube_jobs{tube="all others",state="ready"}`: "8",
		})
	})
}

// TestNoTubes: with a limit of zero, all tubes are shown as one.
func TestNoTubes(t *testing.T) {
	i := newInstance(t, 0)
	i.put(t, "a", 0)
	expect(t, samples(t, i.o), map[string]string{
		`redstalk_tube_puts_total{tube="all others"}`:         "1",
		`redstalk_tube_jobs{tube="all others",state="ready"}`: "1",
		`redstalk_tube_jobs{tube="default",state="ready"}`:    "",
	})
}

// TestLint: the metrics follow the conventions of Prometheus, and all of them are defined.
func TestLint(t *testing.T) {
	i := newInstance(t, 10)
	i.put(t, "a", 0)
	if err := i.Delete(background, i.h, i.reserve(t, "a", 0)); err != nil {
		t.Fatal(err)
	}
	i.put(t, "a", 0)
	i.Counters.Results[1][queue.NotFound].Add(2)
	i.Counters.Received.Add(7)
	_, text := get(i.o, "GET", metrics.MetricsPath)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n := len(scrape(t, i.o)["redstalk_commands_total"].GetMetric()); n != 1 {
		t.Errorf("%d commands", n)
	}
	expect(t, samples(t, i.o), map[string]string{
		`redstalk_commands_total{command="put",result="not_found"}`: "2",
		`redstalk_received_bytes_total`:                             "7",
		`redstalk_build_info{version="1.2"}`:                        "1",
		`redstalk_store_up`:                                         "1",
	})
	for _, d := range metrics.Definitions() {
		if !strings.HasPrefix(d.Name, "redstalk_") || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%+v", d)
		}
	}
}

// holdGroup reserves a job of a group in a tube of its own, so that two others must wait.
func (i *instance) holdGroup(t *testing.T, group string) {
	t.Helper()
	if err := i.SetPolicy(background, "limited", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 1}, Limits: tube.Limits{Concurrency: 50}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		must[tube.PutAnswer](t)(i.PutTagged(background, queue.NewJob{Tube: "limited", TTR: 60}, &tube.Tags{Group: group}))
	}
	i.reserve(t, "limited", 0)
}

// TestLimits: tubes with groups or limits show what they hold; the ten busiest groups are named.
func TestLimits(t *testing.T) {
	i := newInstance(t, 10)
	i.put(t, "a", 0)
	i.holdGroup(t, "a \"b\"")
	for n := range 20 {
		must[tube.PutAnswer](t)(i.PutTagged(background, queue.NewJob{Tube: "limited", TTR: 60}, &tube.Tags{Group: fmt.Sprint("g", n)}))
		i.reserve(t, "limited", 0)
	}
	if err := i.PauseGroup(background, "limited", "g1", 60); err != nil {
		t.Fatal(err)
	}
	must[tube.PutAnswer](t)(i.PutTagged(background, queue.NewJob{Tube: "limited", TTR: 60}, &tube.Tags{Group: "g1"}))
	shown, named := samples(t, i.o), 0
	expect(t, shown, map[string]string{
		`redstalk_tube_held_jobs{tube="limited",reason="concurrency"}`:      "2",
		`redstalk_tube_held_jobs{tube="limited",reason="paused"}`:           "1",
		`redstalk_tube_held_jobs{tube="limited",reason="rate"}`:             "0",
		`redstalk_tube_groups{tube="limited"}`:                              "21",
		`redstalk_tube_full_groups{tube="limited"}`:                         "21",
		`redstalk_tube_holds_total{tube="limited"}`:                         "2",
		`redstalk_tube_group_reserved_jobs{tube="limited",group="a \"b\""}`: "1",
		`redstalk_tube_groups{tube="a"}`:                                    "",
		`redstalk_tube_held_jobs{tube="a",reason="concurrency"}`:            "",
	})
	for name := range shown {
		if strings.HasPrefix(name, "redstalk_tube_group_reserved_jobs") {
			named++
		}
	}
	if named != tube.MaxBusiest {
		t.Errorf("%d groups are named", named)
	}
}

// TestText: the text is parsed correctly: labels with any content, numbers with all their
// digits, and histograms with cumulative buckets that end with their count.
func TestText(t *testing.T) {
	const version = "a \\ \"b\",\nc="
	store := &reportingStore{Engine: embedded.NewMemory(), report: storage.Report{
		Calls: &telemetry.Reading{Bounds: []int64{1, 1_500_000}, Counts: []uint64{3, 0, 4}, Sum: 1<<53 + 2},
		Disk:  &storage.Disk{Log: 1<<53 - 1, Free: 123_456_789}, SinceContact: 1500 * time.Microsecond,
	}}
	q := queue.New(store, queue.Config{})
	defer q.Close(background)
	o := metrics.New(metrics.Config{Version: version})
	o.Serving(q)
	all := scrape(t, o)
	if got := all["redstalk_build_info"].GetMetric()[0].GetLabel()[0].GetValue(); got != version {
		t.Errorf("a version is %q, not %q", got, version)
	}
	for name, want := range map[string]float64{
		"redstalk_store_log_bytes": 1<<53 - 1, "redstalk_store_disk_free_bytes": 123_456_789, "redstalk_store_silence_seconds": 0.0015,
	} {
		if got := all[name].GetMetric()[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	h := all["redstalk_store_call_seconds"].GetMetric()[0].GetHistogram()
	var got []float64
	for _, b := range h.GetBucket() {
		got = append(got, b.GetUpperBound(), float64(b.GetCumulativeCount()))
	}
	want := []float64{1e-9, 3, 0.0015, 3, math.Inf(1), 7}
	if !slices.Equal(got, want) || h.GetSampleCount() != 7 || h.GetSampleSum() != (1<<53+2)/1e9 {
		t.Errorf("buckets %v with %d in all, sum %v; not %v with 7", got, h.GetSampleCount(), h.GetSampleSum(), want)
	}
}

// reportingStore is a store with given counters.
type reportingStore struct {
	*embedded.Engine
	report storage.Report
}

func (r *reportingStore) Report() storage.Report { return r.report }

// TestAllShown: no counter of the listeners and the store is left out: each defined metric
// is shown, with its value. Other tests check pushes and HTTP.
func TestAllShown(t *testing.T) {
	i := newInstance(t, 10)
	i.put(t, "a", 0)
	if err := i.Delete(background, i.h, i.reserve(t, "a", 0)); err != nil {
		t.Fatal(err)
	}
	i.put(t, "a", 0)
	i.holdGroup(t, "g")
	times := &telemetry.Reading{Bounds: []int64{1}, Counts: []uint64{1, 0}}
	report := i.store.Report()
	report.Calls, report.Operations, report.Syncs, report.Retries, report.Replays = times, times, times, 8, 9
	report.Disk, report.SinceContact = &storage.Disk{Log: 10, Free: 11}, 12*time.Second
	q := queue.New(&reportingStore{i.store, report}, queue.Config{NamedTubes: 10})
	defer q.Close(background)
	c := &q.Counters
	c.Connections.Add(1)
	c.TotalConnections.Add(2)
	c.Producers.Add(3)
	c.Workers.Add(4)
	c.Received.Add(5)
	c.Sent.Add(6)
	c.Results[1][queue.Done].Add(7)
	i.o.Serving(q)
	batches := &jobbatch.New(q, nil).Counts
	batches.Batches[tube.BatchDone].Add(12)
	batches.After[tube.BatchDone].Add(13)
	batches.Cancelled.Add(14)
	i.o.Records(&schedule.New(q, nil).Counts, batches)
	i.o.Tracing(func() uint64 { return 15 })
	expect(t, samples(t, i.o), map[string]string{
		`redstalk_batches_total{state="done"}`: "12", `redstalk_batch_after_jobs_total{state="done"}`: "13", "redstalk_batches_cancelled_total": "14", "redstalk_spans_dropped_total": "15",
		"redstalk_connections": "1", "redstalk_connections_accepted_total": "2", "redstalk_producer_connections": "3", "redstalk_worker_connections": "4",
		"redstalk_received_bytes_total": "5", "redstalk_sent_bytes_total": "6", `redstalk_commands_total{command="put",result="ok"}`: "7",
		"redstalk_store_retries_total": "8", "redstalk_store_replays_total": "9", "redstalk_store_log_bytes": "10", "redstalk_store_disk_free_bytes": "11",
		"redstalk_store_silence_seconds": "12",
	})
	all := scrape(t, i.o)
	for _, d := range metrics.Definitions() {
		elsewhere := d.Name == "redstalk_instances" || d.Name == "redstalk_last_backup_timestamp_seconds" || strings.HasPrefix(d.Name, "redstalk_push_") || strings.HasPrefix(d.Name, "redstalk_http_")
		if f := all[d.Name]; !elsewhere && (f == nil || f.GetType() != d.Kind || f.GetHelp() != d.Help) {
			t.Errorf("%s is shown as %v", d.Name, f)
		}
	}
}
