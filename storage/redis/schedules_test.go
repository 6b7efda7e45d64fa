package redis

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// scheduleOp returns the operation that writes version n of a schedule.
func scheduleOp(name string, n uint64, due tube.Instant) storage.Op {
	record := &tube.Schedule{Name: name, Version: n, Tube: "t", TTR: 60, Body: costBody, Due: due, Timing: tube.Timing{Cron: "*/5 * * * *"}}
	return storage.Op{Kind: storage.SetSchedule, Tube: "t", Args: &storage.Args{Name: name, Schedule: record}}
}

// scheduledPut is scheduleOp that also puts a job.
func scheduledPut(name string, n uint64, due tube.Instant, tags tube.Tags) storage.Op {
	op := scheduleOp(name, n, due)
	tags.Occurrence = &tube.Occurrence{Schedule: name, Nominal: tube.Instant(n) * tube.Instant(time.Second)}
	op.Kind, op.TTR, op.Body, op.Args.Tags = storage.PutScheduled, 60, costBody, &tags
	return op
}

func getSchedule(s *Store, name string) storage.Answer {
	return do(s, storage.Op{Kind: storage.GetRecord, Records: tube.Schedules, Args: &storage.Args{Name: name}})
}

// TestScheduledPutIsOnce: the answer to a put of a schedule is lost. The job is put once.
func TestScheduledPutIsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, proxy.URL(), patient)
	do(s, scheduleOp("often", 1, tube.Never))
	lost := false
	cutBehind(proxy, "schedules\r\n$3\r\nput", func() { lost = true })
	a := do(s, scheduledPut("often", 2, tube.Never, tube.Tags{}))
	if a.Err != nil || a.NotFound || a.ID != 1 || !lost {
		t.Errorf("lost %v: %+v", lost, a)
	}
	got := getSchedule(s, "often").Result.Schedules()[0]
	if sum := figures(t, s); sum.Ready != 1 || got.Version != 2 || got.Results.Put != 1 || got.Results.ID != 1 {
		t.Errorf("%d jobs, %+v", sum.Ready, got)
	}
	if a := do(s, scheduledPut("often", 2, tube.Never, tube.Tags{})); !a.NotFound {
		t.Errorf("the same version again: %+v", a)
	}
	if a := do(s, put("x")); a.ID != 2 {
		t.Errorf("after a put that was not made: %+v", a)
	}
}

// dueListener counts the reports that schedules are due.
type dueListener struct {
	nopListener
	reports atomic.Int64
}

func (l *dueListener) RecordsDue(tube.RecordKind) { l.reports.Add(1) }

// scheduleStore is a store whose clock is moved by hand.
type scheduleStore struct {
	*Store
	dueListener
}

func newScheduleStore(t *testing.T, url string, partitions int, ahead *atomic.Int64) *scheduleStore {
	t.Helper()
	store, err := Open(t.Context(), Options{
		URL: url, Partitions: partitions, Timeout: patient, Log: slog.New(slog.DiscardHandler),
		skew: func() time.Duration { return time.Duration(ahead.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := &scheduleStore{Store: store}
	s.Listen(&s.dueListener)
	return s
}

// due returns the names of the schedules that are due, which are claimed then.
func (s *scheduleStore) due(t *testing.T, most uint32) (names []string) {
	t.Helper()
	a := do(s.Store, storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: most})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	for _, record := range a.Result.Schedules() {
		if names = append(names, record.Name); !bytes.Equal(record.Body, costBody) {
			t.Errorf("the body of %s is %q", record.Name, record.Body)
		}
	}
	return names
}

// reported returns whether a tick reports that schedules are due.
func (s *scheduleStore) reported(t *testing.T) bool {
	t.Helper()
	before := s.reports.Load()
	if _, err := s.TickAll(); err != nil {
		t.Fatal(err)
	}
	return s.reports.Load() > before
}

// TestClaims: what one instance has claimed is due for no other one until the claim ends. Both report
// what is due.
func TestClaims(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var ahead atomic.Int64
	a, b := newScheduleStore(t, server.URL(), 1, &ahead), newScheduleStore(t, server.URL(), 1, &ahead)
	at := func(in time.Duration) tube.Instant { return tube.Instant(time.Now().Add(in).UnixNano()) }
	for name, due := range map[string]tube.Instant{"c": at(-time.Minute), "b": at(-time.Hour), "a": at(-time.Second), "later": at(time.Hour), "never": tube.Never} {
		do(a.Store, scheduleOp(name, 1, due))
	}
	check := func(s *scheduleStore, reported bool, want ...string) {
		t.Helper()
		if got := s.reported(t); got != reported {
			t.Errorf("reported: %v", got)
		}
		if got := s.due(t, uint32(max(len(want), 1))); !slices.Equal(got, want) {
			t.Errorf("due are %q, want %q", got, want)
		}
	}
	check(b, true, "b")
	check(a, true, "c", "a")
	check(b, false)
	do(a.Store, scheduleOp("a", 2, at(-time.Second)))
	check(b, true, "a")
	do(a.Store, storage.Op{Kind: storage.DeleteSchedule, Args: &storage.Args{Name: "c"}})
	ahead.Add(int64(tube.ClaimTime) + 1e7)
	check(b, true, "b", "a")
	check(a, false)
	do(a.Store, scheduleOp("b", 2, tube.Never))
	ahead.Add(int64(time.Hour))
	check(a, true, "a", "later")
	do(a.Store, scheduleOp("a", 3, tube.Never))
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

// TestScheduledPutBesideRefused: in the call of a put that was not made because another version of the
// schedule is there, it is known which of the other puts a quota has refused.
func TestScheduledPutBesideRefused(t *testing.T) {
	t.Parallel()
	s := openAt(t, redistest.Start(t).URL(), patient)
	setPolicy(s, "t", &tube.Policy{QuotaJobs: 1, HasQuotaJobs: true})
	do(s, scheduleOp("often", 1, tube.Never))
	ops := []storage.Op{
		scheduledPut("often", 1, tube.Never, tube.Tags{}), put("x"), scheduledPut("often", 2, tube.Never, tube.Tags{}), put("y"),
		putIn("other", 0), scheduledPut("often", 3, tube.Never, tube.Tags{Key: "k"}),
	}
	storage.DoWait(s, ops)
	for i, want := range []storage.Answer{{NotFound: true}, {ID: 1}, {}, {Err: storage.ErrQuota}, {ID: 2}, {}} {
		a := ops[i].Answer
		if a.Err != want.Err || a.NotFound != want.NotFound || a.ID != want.ID || want.ID == 0 && want.Err == nil && !want.NotFound && a.Outcome != tube.PutRefused {
			t.Errorf("operation %d: %+v", i, a)
		}
	}
	if got := getSchedule(s, "often").Result.Schedules()[0]; got.Version != 3 || got.Results.Refused != 2 || got.Results.Put != 0 {
		t.Errorf("%+v", got)
	}
}

// TestSchedulesOfPartitions: names are known in all partitions, wherever the tubes of schedules are.
func TestSchedulesOfPartitions(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func() string{
		"one server": redistest.Start(t).URL, "cluster": redistest.StartCluster(t, 3, 0).URL,
	} {
		t.Run(name, func(t *testing.T) { testSchedulesOfPartitions(t, url()) })
	}
}

func testSchedulesOfPartitions(t *testing.T, url string) {
	const of, n = 4, 20
	var ahead atomic.Int64
	s := newScheduleStore(t, url, of, &ahead)
	ops := make([]storage.Op, n)
	name := func(k int) string { return fmt.Sprintf("schedule-%02d", k) }
	for k := range ops {
		ops[k] = scheduledPut(name(k), 1, tube.Instant(k+1)*tube.Instant(time.Second), tube.Tags{})
		ops[k].Tube = tubeIn(k%of, of)
		ops[k].Args.Schedule.Tube = ops[k].Tube
	}
	storage.DoWait(s, ops)
	var listed []string
	for cursor, more := "", true; more; more = cursor != "" {
		r := do(s.Store, storage.Op{Kind: storage.ListRecords, Records: tube.Schedules, MaxJobs: 3, Args: &storage.Args{Cursor: cursor}}).Result
		for _, record := range r.Schedules() {
			listed = append(listed, record.Name)
		}
		if cursor = r.Cursor; len(listed) < n && len(listed)%3 > 0 || time.Since(time.Unix(0, int64(r.Now))).Abs() > time.Minute {
			t.Fatalf("%d were listed: %+v", len(listed), r)
		}
	}
	due := s.due(t, n)
	for k := range ops {
		a := getSchedule(s.Store, name(k))
		if a.Err != nil || a.NotFound || a.Result.Schedules()[0].Results.ID != ops[k].Answer.ID || ops[k].Answer.ID%of != uint64(k%of) {
			t.Errorf("schedule %d: %+v", k, a)
		}
		if listed[k] != name(k) || due[k] != name(k) {
			t.Errorf("listed are %q, due are %q", listed, due)
		}
		remove := storage.Op{Kind: storage.DeleteSchedule, Args: &storage.Args{Name: name(k)}}
		if first, second := do(s.Store, remove), do(s.Store, remove); first.NotFound || !second.NotFound {
			t.Errorf("schedule %d was not deleted once", k)
		}
	}
	if a := getSchedule(s.Store, name(1)); !a.NotFound || len(listed) != n || len(due) != n {
		t.Errorf("%+v, %d listed, %d due", a, len(listed), len(due))
	}
	testSameName(t, s.Store, of)
}

// testSameName: two partitions can have records of one name, which are read together and removed one by one.
func testSameName(t *testing.T, s *Store, of int) {
	t.Helper()
	for k := range 2 {
		op := scheduledPut("same", 1, tube.Instant(time.Second), tube.Tags{})
		op.Tube, op.Args.Schedule.Tube = tubeIn(k, of), tubeIn(k, of)
		do(s, op)
	}
	if a := getSchedule(s, "same"); a.Err != nil || len(a.Result.Schedules()) != 2 {
		t.Errorf("of two records were read: %+v", a)
	}
	remove := storage.Op{Kind: storage.DeleteSchedule, Tube: tubeIn(1, of), Args: &storage.Args{Name: "same"}}
	if first, second := do(s, remove), do(s, remove); first.NotFound || !second.NotFound {
		t.Error("the second one was not deleted once")
	}
	if a := getSchedule(s, "same"); a.NotFound || len(a.Result.Schedules()) != 1 || a.Result.Schedules()[0].Tube != tubeIn(0, of) {
		t.Errorf("after that: %+v", a)
	}
}

// TestRepairOfSchedules damages what is known of schedules.
func TestRepairOfSchedules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, client, p := t.Context(), server.Client(t), "redstalk:{0}:"
	s := openAt(t, server.URL(), patient)
	for k, name := range []string{"a", "b", "c", "d", "e"} {
		do(s, scheduleOp(name, 1, tube.Instant(k+1)*tube.Instant(time.Second)))
	}
	do(s, scheduleOp("never", 1, tube.Never))
	do(s, storage.Op{Kind: storage.DueRecords, Records: tube.Schedules, MaxJobs: 1})
	s.Close()
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	client.ZRem(ctx, p+"schedule-names", "a")
	client.ZAdd(ctx, p+"schedule-dues", goredis.Z{Score: 1, Member: "a"}) // it is claimed, too
	client.HSet(ctx, p+"schedules", "b", "?")
	client.ZRem(ctx, p+"schedule-dues", "c")
	client.HDel(ctx, p+"schedule-bodies", "d")
	client.ZAdd(ctx, p+"schedule-dues", goredis.Z{Score: 7, Member: "e"}, goredis.Z{Score: 7, Member: "never"}, goredis.Z{Score: 7, Member: "nobody"})
	client.ZAdd(ctx, p+"schedule-claims", goredis.Z{Score: 7, Member: "nothing"})
	client.ZAdd(ctx, p+"schedule-names", goredis.Z{Score: 0, Member: "nowhere"})
	client.HSet(ctx, p+"schedule-bodies", "none", "x")
	want := []string{
		"schedule a is not in schedule-names",
		"schedule a: by its record it is due at 1000, and that is not so",
		"schedule b: its record is broken",
		"schedule c: by its record it is due at 3000, and that is not so",
		"schedule d: by its record its body has 128 bytes, and it has 0",
		"schedule e: by its record it is due at 5000, and that is not so",
		"schedule never: by its record it is due at -, and that is not so",
		"schedule-bodies has none: there is no such schedule",
		"schedule-claims has nothing: there is no such schedule",
		"schedule-dues has nobody: there is no such schedule",
		"schedule-names has nowhere: there is no such schedule",
	}
	for _, repair := range []bool{false, true} {
		if _, wrong := checkAt(t, server.URL(), repair); !slices.Equal(wrong, want) {
			t.Errorf("%q", wrong)
		}
	}
	if _, left := checkAt(t, server.URL(), false); len(left) > 0 {
		t.Errorf("still wrong after the repair: %q", left)
	}
}

// TestIdleWithSchedules: schedules of which none is due cost an instance no calls.
func TestIdleWithSchedules(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var ahead atomic.Int64
	s := newScheduleStore(t, server.URL(), 1, &ahead)
	minute := func() int64 {
		before := scriptCalls(t, server)
		for end := ahead.Load() + int64(time.Minute); ahead.Load() < end; {
			next, err := s.Tick()
			if err != nil {
				t.Fatal(err)
			}
			ahead.Add(int64(next))
		}
		return scriptCalls(t, server) - before
	}
	n := 100_000
	if testing.Short() {
		n = 2_000
	}
	minute()
	without := minute()
	setSchedules(s.Store, n, tube.Instant(time.Now().Add(time.Hour).UnixNano()))
	if with := minute(); without < 30 || with > without+1 { // a tick can be late
		t.Errorf("%d calls a minute, and %d with schedules", without, with)
	}
	if s.reports.Load() > 0 {
		t.Error("it was reported that schedules are due")
	}
}

// setSchedules writes n schedules that are due then.
func setSchedules(s *Store, n int, due tube.Instant) {
	for from := 0; from < n; from += 500 {
		var ops []storage.Op
		for k := from; k < min(from+500, n); k++ {
			ops = append(ops, scheduleOp(fmt.Sprintf("customer-%06d", k), 1, due))
		}
		storage.DoWait(s, ops)
	}
}

// BenchmarkScheduleMemory measures the memory that a schedule with a body of 128 bytes takes in Redis.
//
//	go test ./storage/redis -run '^$' -bench ScheduleMemory -benchtime 100000x
func BenchmarkScheduleMemory(b *testing.B) {
	server := redistest.Start(b)
	client := server.Client(b)
	s := openOn(b, server, "redstalk")
	do(s, scheduleOp("first", 1, tube.Never))
	before := used(b, client, "used_memory")
	setSchedules(s, b.N, tube.Instant(time.Now().Add(time.Hour).UnixNano()))
	b.ReportMetric((used(b, client, "used_memory")-before)/float64(b.N), "B/schedule")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkScheduledPuts measures what a put of a schedule costs Redis and the instance, of which size
// many go to the store together; tagged is a put with a tag, without a schedule.
//
//	go test ./storage/redis -run '^$' -bench ScheduledPuts -benchtime 60000x
func BenchmarkScheduledPuts(b *testing.B) {
	for _, size := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("schedule/", size), func(b *testing.B) {
			server := redistest.Start(b)
			w := &scheduleWorker{storeWorker: storeWorker{store: openOn(b, server, "cost"), tube: "t"}}
			setSchedules(w.store.(*Store), 1000, tube.Never)
			benchmarkCost(b, server, "put", size, w)
		})
		b.Run(fmt.Sprint("tagged/", size), func(b *testing.B) {
			server := redistest.Start(b)
			benchmarkCost(b, server, "put", size, &taggedWorker{storeWorker{store: openOn(b, server, "cost"), tube: "t"}})
		})
	}
}

// scheduleWorker is a storeWorker whose jobs are put by schedules, by turns.
type scheduleWorker struct {
	storeWorker
	next int
}

func (w *scheduleWorker) put(n int) {
	w.do(n, func() storage.Op {
		op := scheduledPut(fmt.Sprintf("customer-%06d", w.next%1000), 2+uint64(w.next/1000), tube.Never, tube.Tags{})
		w.next++
		return op
	})
}

// TestSchedulesFull: without memory Redis accepts no schedules and no jobs of them. Those that are there
// are due, and can be deleted.
func TestSchedulesFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	var ahead atomic.Int64
	s := newScheduleStore(t, server.URL(), 1, &ahead)
	do(s.Store, scheduleOp("a", 1, 0))
	client.ConfigSet(t.Context(), "maxmemory", "1")
	for _, op := range []storage.Op{scheduledPut("a", 2, 0, tube.Tags{}), scheduleOp("a", 2, 0), scheduleOp("b", 1, 0)} {
		if a := do(s.Store, op); !errors.Is(a.Err, storage.ErrNoSpace) {
			t.Errorf("%v: %+v", op.Kind, a)
		}
	}
	if got := s.due(t, 9); !slices.Equal(got, []string{"a"}) {
		t.Errorf("due are %q", got)
	}
	if a := do(s.Store, storage.Op{Kind: storage.DeleteSchedule, Args: &storage.Args{Name: "a"}}); a.Err != nil || a.NotFound {
		t.Errorf("%+v", a)
	}
	client.ConfigSet(t.Context(), "maxmemory", "0")
	if a := do(s.Store, scheduledPut("a", 1, 0, tube.Tags{})); a.ID != 1 {
		t.Errorf("%+v", a)
	}
}

// TestSchedulesAfterKill: records, and what they have come to, survive the end of Redis and of the instance.
func TestSchedulesAfterKill(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := openAt(t, server.URL(), patient)
	tags := tube.Tags{Key: "k"}
	do(s, scheduleOp("often", 1, 0))
	do(s, scheduledPut("often", 2, 0, tags))
	do(s, scheduledPut("often", 3, tube.Instant(time.Hour), tags))
	before := getSchedule(s, "often").Result.Schedules()[0]
	s.crash()
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, server.URL(), patient)
	a := getSchedule(s, "often")
	if a.NotFound || !reflect.DeepEqual(a.Result.Schedules()[0], before) || before.Results.Put != 1 || before.Results.Overlapped != 1 {
		t.Errorf("after the restart %+v, before %+v", a, before)
	}
	if a := do(s, scheduledPut("often", 3, 0, tags)); !a.NotFound {
		t.Errorf("an old version: %+v", a)
	}
	job := do(s, storage.Op{Kind: storage.JobStats, ID: 1}).Job
	if want := (tube.Occurrence{Schedule: "often", Nominal: tube.Instant(2 * time.Second)}); job == nil || *job.Metadata.Occurrence != want {
		t.Errorf("the job is %+v", job)
	}
}

// setBackListener notes by how much the clock was set back.
type setBackListener struct {
	nopListener
	by atomic.Int64
}

func (l *setBackListener) ClockSetBack(by time.Duration) { l.by.Add(int64(by)) }

// TestClockSetBack: a heartbeat notices that the clock of Redis was set back, by how much, and once. Time that passes
// between calls, or a clock that is set ahead, is no such step.
func TestClockSetBack(t *testing.T) {
	var step, skew atomic.Int64
	s := openWith(t, Options{
		URL: redistest.Start(t).URL(), Timeout: patient, redisStep: func() time.Duration { return time.Duration(step.Load()) },
		skew: func() time.Duration { return time.Duration(skew.Load()) },
	})
	var heard setBackListener
	p := s.parts[0]
	p.do(func(*call) { p.listener = &heard })
	for _, c := range []struct{ by, passes, want time.Duration }{
		{0, time.Hour, 0}, {time.Hour, 0, 0}, {-48 * time.Hour, time.Minute, 48 * time.Hour}, {0, time.Minute, 0}, {49 * time.Hour, 0, 0},
	} {
		skew.Add(int64(c.passes))
		step.Add(int64(c.by))
		do(s, put("x"))
		do(s, put("x"))
		if got := time.Duration(heard.by.Swap(0)).Round(time.Minute); got != c.want {
			t.Errorf("after a step of %v it is set back by %v", c.by, got)
		}
	}
}
