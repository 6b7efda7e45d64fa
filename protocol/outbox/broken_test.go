package outbox

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"redstalk/protocol/client"
)

// brokenConn is a connection to the server at which something happens once, when a put is sent.
type brokenConn struct {
	net.Conn
	once   *atomic.Bool
	before func() // the put is sent
	after  func() // its reply has arrived

	sent bool
}

var errBroken = errors.New("broken by the test")

func (c *brokenConn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("put ")) && c.once.CompareAndSwap(false, true) {
		if c.before != nil {
			c.before()
			return 0, errBroken
		}
		c.sent = true
	}
	return c.Conn.Write(p)
}

func (c *brokenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.sent {
		c.sent = false
		if c.after == nil {
			return 0, errBroken
		}
		c.after()
	}
	return n, err
}

// disconnect ends all connections to a database except the one that is used for it.
func (e *engine) disconnect(t *testing.T) {
	pool := e.open(t)
	if e.name == "postgres" {
		if _, err := pool.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"); err != nil {
			t.Error(err)
		}
		return
	}
	found, err := pool.Query("SELECT id FROM information_schema.processlist WHERE id <> connection_id() AND db = database()")
	if err != nil {
		t.Error(err)
		return
	}
	var ids []int64
	for found.Next() {
		var id int64
		found.Scan(&id)
		ids = append(ids, id)
	}
	found.Close()
	for _, id := range ids {
		pool.Exec("KILL ?", id) // it can have ended meanwhile
	}
}

// TestBroken: a row becomes one job, whether the connection to the server ends before its put, or before the reply, or
// that to the database before the commit. A worker has deleted the job meanwhile.
func TestBroken(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		addr := redstalkd(t)
		worker := dial(t, addr)
		var done []string
		work := func() { done = append(done, bodies(t, worker, "mails")...) }
		for name, hook := range map[string]brokenConn{
			"before the put":    {before: func() {}},
			"before the reply":  {},
			"before the commit": {after: func() { work(); e.disconnect(t) }},
		} {
			if e.proc == nil && name == "before the commit" {
				continue
			}
			pool := e.withTable(t)
			e.insert(t, pool, "mails", name, "")
			var once atomic.Bool
			r := startRelay(t, e, addr, func(r *Relay) {
				plain := r.Dial
				r.Dial = func() (*client.Conn, error) {
					c, err := plain()
					if err == nil {
						conn := hook
						conn.Conn, conn.once = c.Conn, &once
						c.Conn = &conn
					}
					return c, err
				}
			})
			pool = e.open(t)
			waitFor(t, "the row", func() bool { return r.Metrics.Put() == 1 })
			r.stop()
			work()
			if !slices.Equal(done, []string{name}) || rows(t, pool, "true") != 0 || !once.Load() {
				t.Errorf("%s: jobs %q; messages: %q", name, done, r.all)
			}
			done = nil
		}
	})
}
