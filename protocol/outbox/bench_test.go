package outbox

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/protocol/client"
	"redstalk/tools/conformance/child"
)

// durable starts a server with the embedded engine, and returns its address.
func durable(b *testing.B) string {
	b.Helper()
	_, addr := child.Serve(b, exec.Command(filepath.Join(programs, "redstalkd"), "--store", "embedded:"+b.TempDir()))
	return addr
}

// BenchmarkRows moves rows of 200 bytes that wait in a durable database to a durable server, with one relay in a process of its own.
func BenchmarkRows(b *testing.B) {
	for name, start := range map[string]func(testing.TB) *engine{
		"postgres": func(t testing.TB) *engine { return startPostgres(t, t.Cleanup).newDatabase(t) }, "mariadb": ownMariaDB, "sqlite": newSQLite,
	} {
		b.Run(name, func(b *testing.B) { benchmarkRows(b, start(b)) })
	}
}

func benchmarkRows(b *testing.B, e *engine) {
	pool, addr := e.withTable(b), durable(b)
	tx, err := pool.Begin()
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		e.insert(b, tx, "mails", strings.Repeat("x", 200), "")
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	c := dial(b, addr)
	b.ResetTimer()
	relay := startProgram(b, e, addr, child.NewOutput())
	waitFor(b, "the rows", func() bool {
		page, err := c.Page("stats-tube mails")
		if err != nil {
			return false
		}
		n, _ := page.Value("current-jobs-ready")
		return n == fmt.Sprint(b.N)
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	relay.Stop(patience)
	state := relay.Cmd.ProcessState
	b.ReportMetric(float64((state.UserTime()+state.SystemTime()).Nanoseconds())/float64(b.N), "relay-ns/op")
}

// BenchmarkLatency commits 100 rows a second, and measures how long after the commit a waiting worker has each job.
func BenchmarkLatency(b *testing.B) {
	e := startPostgres(b, b.Cleanup).newDatabase(b)
	pool, addr := e.withTable(b), durable(b)
	stderr := child.NewOutput()
	startProgram(b, e, addr, stderr, "--poll", "1h")
	c := dial(b, addr)
	if err := c.UseOnly("mails"); err != nil {
		b.Fatal(err)
	}
	committed, came := make([]time.Time, b.N), make([]time.Time, b.N)
	var writing sync.WaitGroup
	writing.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := range b.N {
			<-tick.C
			e.insert(b, pool, "mails", fmt.Sprint(i), "")
			committed[i] = time.Now()
		}
	})
	for range b.N {
		var id uint64
		if err := c.Ask([]byte("reserve\r\n"), 1, func(r *client.Reply) error {
			i, err := strconv.Atoi(string(r.Body))
			id, came[i] = r.ID, time.Now()
			return err
		}); err != nil {
			b.Fatal(err)
		}
		if err := c.Ask(client.AppendDelete(nil, id), 1, client.Expect(client.Deleted)); err != nil {
			b.Fatal(err)
		}
	}
	writing.Wait()
	var took []time.Duration
	for i := range b.N {
		took = append(took, max(came[i].Sub(committed[i]), 0)) // the reply to the commit can be the later one
	}
	slices.Sort(took)
	for name, d := range map[string]time.Duration{"p50-ms": took[len(took)/2], "p99-ms": took[len(took)*99/100], "max-ms": took[len(took)-1]} {
		b.ReportMetric(float64(d.Microseconds())/1000, name)
	}
}
