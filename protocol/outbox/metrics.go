package outbox

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Metrics counts what a relay does. It serves the page of metrics, in the text format of Prometheus.
type Metrics struct {
	put, failed, refused         atomic.Uint64
	databaseErrors, serverErrors atomic.Uint64
	databaseAway, serverAway     atomic.Bool

	db     *Database
	asking sync.Mutex // one page asks the database at a time
}

// maxCounted is how many rows are counted for a metric at most.
const maxCounted = 1_000_000

// backlog is what is in the table.
type backlog struct {
	waiting, failed int64
	oldest          float64 // seconds since the oldest waiting row was made
}

// backlog asks the database.
func (m *Metrics) backlog(ctx context.Context) (b backlog, err error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	ctx, stop := context.WithTimeout(ctx, connectLimit)
	defer stop()
	table := m.db.quoted()
	count := func(condition string) string {
		return fmt.Sprintf("(SELECT count(*) FROM (SELECT 1 FROM %s WHERE error %s LIMIT %d) counted)", table, condition, maxCounted)
	}
	query := fmt.Sprintf("SELECT %s, %s, COALESCE((SELECT %s FROM %s WHERE error IS NULL ORDER BY id LIMIT 1), 0)",
		count("IS NULL"), count("IS NOT NULL"), m.db.dialect.age, table)
	err = m.db.pool.QueryRowContext(ctx, query).Scan(&b.waiting, &b.failed, &b.oldest)
	b.oldest = max(b.oldest, 0)
	return b, err
}

// ServeHTTP serves the page.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	metric := func(name, kind, help string, samples ...any) {
		fmt.Fprintf(w, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n", name, help, kind)
		for i := 0; i < len(samples); i += 2 {
			fmt.Fprintf(w, "%s%s %v\n", name, samples[i], samples[i+1])
		}
	}
	metric("redstalk_outbox_put_total", "counter", "Rows that were put and deleted.", "", m.put.Load())
	metric("redstalk_outbox_failed_total", "counter", "Rows that cannot be put, and got an error.", "", m.failed.Load())
	metric("redstalk_outbox_refused_total", "counter", "Rounds in which the server refused puts into a tube for now.", "", m.refused.Load())
	metric("redstalk_outbox_errors_total", "counter", "Failed attempts to use the database or the server.",
		`{of="database"}`, m.databaseErrors.Load(), `{of="server"}`, m.serverErrors.Load())
	metric("redstalk_outbox_connected", "gauge", "Whether the last use of the database or the server succeeded.",
		`{to="database"}`, connected(&m.databaseAway), `{to="server"}`, connected(&m.serverAway))
	b, err := m.backlog(req.Context())
	if err != nil { // the metric connected says that the database is away
		return
	}
	metric("redstalk_outbox_waiting_rows", "gauge", "Rows that wait, up to a million.", "", b.waiting)
	metric("redstalk_outbox_failed_rows", "gauge", "Rows with an error, up to a million.", "", b.failed)
	metric("redstalk_outbox_oldest_seconds", "gauge", "Age of the first waiting row; 0 if there is none.", "", b.oldest)
}

func connected(away *atomic.Bool) int {
	if away.Load() {
		return 0
	}
	return 1
}

// Server returns a server for the page, at /metrics.
func (m *Metrics) Server() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m)
	return &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
}

// Put returns how many rows were put and deleted.
func (m *Metrics) Put() uint64 { return m.put.Load() }

// Failed returns how many rows got an error.
func (m *Metrics) Failed() uint64 { return m.failed.Load() }
