package redis

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

var manyJobs = flag.Int("many", 0, "jobs in TestManyCost")

// TestManyCost measures flushes, moves and lists of many jobs: their duration, the longest
// call, and the longest wait of another client meanwhile.
func TestManyCost(t *testing.T) {
	if *manyJobs == 0 {
		t.Skip("only on demand: -many=1000000")
	}
	for _, of := range []int{1, 16} {
		server := redistest.Start(t)
		m := &manyCost{t: t, client: server.Client(t), server: server, of: of, from: "from", to: "to"}
		m.s = openWith(t, Options{
			URL: server.URL(), Partitions: of, Timeout: patient, skew: func() time.Duration { return time.Duration(m.ahead.Load()) },
		})
		if of > 1 {
			m.from, m.to = tubesInTwoPartitions(of)
		}
		some := *manyJobs / 5
		m.fill(*manyJobs, 0)
		m.measure("list 1,000", func() int { return m.list(tube.Ready) })
		m.measure("move", func() int { return moveJobsOf(m.s, m.from, tube.Ready, m.to, uint32(some)).Count })
		m.measure("flush ready", func() int { return flushOf(m.s, m.from, tube.Gone) })
		m.measure("flush those moved", func() int { return flushOf(m.s, m.to, tube.Gone) })
		m.fill(some, 1000)
		m.measure("flush delayed", func() int { return flushOf(m.s, m.from, tube.Gone) })
		m.fill(some, 0)
		m.reserve(some)
		m.measure("list 1,000 reserved", func() int { return m.list(tube.Reserved) })
		m.measure("flush reserved", func() int { return flushOf(m.s, m.from, tube.Reserved) })
		m.expire(some)
	}
}

// manyCost is a store that is measured.
type manyCost struct {
	t        *testing.T
	client   *goredis.Client
	server   *redistest.Server
	s        *Store
	ahead    atomic.Int64 // by which the time was moved
	of       int
	from, to string
}

func (m *manyCost) list(in tube.State) int {
	return len(do(m.s, storage.Op{Kind: storage.ListJobs, Tube: m.from, State: in, MaxJobs: 1000}).Result.Jobs)
}

// fill puts that many jobs.
func (m *manyCost) fill(n int, delay uint32) {
	for n > 0 {
		var puts []storage.Op
		for range min(n, 400) {
			puts = append(puts, storage.Op{Kind: storage.Put, Tube: m.from, Pri: uint32(n % 3), Delay: delay, TTR: 600, Body: fmt.Append(nil, "body ", n)})
			n--
		}
		storage.DoWait(m.s, puts)
	}
}

// reserve reserves that many jobs.
func (m *manyCost) reserve(n int) {
	for ; n > 0; n -= 250 {
		takes := make([]storage.Op, 250)
		for i := range takes {
			takes[i] = takeOf(1, m.from)
		}
		storage.DoWait(m.s, takes)
	}
}

// latencies is how long a client has waited, and how much Redis has worked meanwhile. The
// latter is independent of other load on the machine, unless that delays the client.
type latencies struct{ took, work []time.Duration }

// probe puts jobs into another tube, one after the other, until stop is closed.
func (m *manyCost) probe(stop <-chan struct{}) (w latencies) {
	for {
		select {
		case <-stop:
			slices.Sort(w.took)
			slices.Sort(w.work)
			return w
		case <-time.After(time.Millisecond):
		}
		begun, used := time.Now(), m.used()
		do(m.s, storage.Op{Kind: storage.Put, Tube: m.from + "-other", TTR: 60})
		w.took, w.work = append(w.took, time.Since(begun)), append(w.work, m.used()-used)
	}
}

// percentiles returns what 99 of 100 do not exceed, and the maximum.
func percentiles(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing"
	}
	n := len(all) - 1
	return fmt.Sprint(all[n*99/100].Round(10*time.Microsecond), " ", all[n].Round(10*time.Microsecond))
}

// measure measures work on jobs and logs its cost.
func (m *manyCost) measure(what string, work func() int) {
	ctx := context.Background()
	m.client.ConfigSet(ctx, "slowlog-log-slower-than", "2000")
	m.client.Do(ctx, "slowlog", "reset")
	stop, ended := make(chan struct{}), make(chan latencies)
	go func() { ended <- m.probe(stop) }()
	begun, calls, used := time.Now(), scriptCalls(m.t, m.server), m.used()
	n := work()
	took := time.Since(begun)
	each := (m.used() - used) / time.Duration(max(scriptCalls(m.t, m.server)-calls, 1))
	close(stop)
	w := <-ended
	slowest := time.Duration(0)
	for _, entry := range m.client.SlowLogGet(ctx, 128).Val() {
		slowest = max(slowest, entry.Duration)
	}
	m.t.Logf("%2d partitions, %-20s %7d in %8v, %v of Redis a call, slowest call %v (0: below 2ms); others, 99 of 100 and all, waited %s, while Redis worked %s",
		m.of, what, n, took.Round(time.Millisecond), each.Round(time.Microsecond), slowest, percentiles(w.took), percentiles(w.work))
}

// used is the processor time that Redis has used.
func (m *manyCost) used() time.Duration {
	const ofProcess = 2 // CPUCLOCK_SCHED: of all threads, in nanoseconds
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^m.server.Pid()<<3|ofProcess), &at); err != nil {
		m.t.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// expire makes jobs due and exhausted.
func (m *manyCost) expire(n int) {
	m.fill(n, 1000)
	m.measure("delays over", func() int { return m.due(1001*time.Second, m.from, n) })
	m.reserve(n)
	m.measure("TTRs over", func() int { return m.due(601*time.Second, m.from, n) })
	do(m.s, storage.Op{Kind: storage.SetPolicy, Tube: m.from, Args: &storage.Args{Policy: &tube.Policy{Rules: tube.Rules{Dead: m.to, Max: 1}}}})
	m.reserve(n)
	m.measure("exhausted", func() int { return m.due(601*time.Second, m.to, n) })
}

// due advances the time, and waits until n jobs of a tube are ready.
func (m *manyCost) due(in time.Duration, name string, n int) int {
	m.ahead.Add(int64(in))
	for {
		next, err := m.s.Tick()
		if err != nil {
			m.t.Fatal(err)
		}
		if stats := do(m.s, storage.Op{Kind: storage.TubeStats, Tube: name}).TubeStats; stats != nil && stats.Ready >= uint64(n) {
			return n
		}
		time.Sleep(min(next, time.Millisecond))
	}
}
