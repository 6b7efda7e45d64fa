package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// TestLeaseAtTheEnd: a job that comes for a waiting reserve-lease while the server shuts down is given back
// at once, and not when its TTR ends.
func TestLeaseAtTheEnd(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		c.send("reserve-lease 1000")
		c.wantNothing()
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
				if b.Ops[0].Kind == storage.Take { // the dispatch that serves it
					go h.server.Shutdown(context.Background())
					time.Sleep(time.Millisecond)
				}
			}
		})
		other.put(1000, "x")
		time.Sleep(time.Minute)
		ops := []storage.Op{{Kind: storage.JobStats, ID: 1}}
		storage.DoWait(h.store, ops)
		if s := ops[0].Answer.Job; s.State != tube.Ready || s.Counters[tube.Reserves] != 1 {
			t.Errorf("afterwards the job is %+v", s)
		}
		h.store.set(func(p *proxyStore) { p.onDo = nil })
		h.reopen(Config{})
	})
}

// TestLeasesOutlive: when a connection ends, the jobs that it has reserved by lease stay reserved, and its
// other jobs are given back.
func TestLeasesOutlive(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		c.put(1000, "x")
		c.put(1000, "y")
		lease := c.ask("reserve-lease 0")
		c.want("x")
		c.ask("reserve")
		c.want("y")
		c.close()
		synctest.Wait()
		if a, b := other.stat("stats-job 1", "state"), other.stat("stats-job 2", "state"); a != "reserved" || b != "ready" {
			t.Errorf("the job reserved by lease is %s, the other one %s", a, b)
		}
		other.send("delete-lease 1 " + lease[len("LEASED 1 "):len(lease)-len(" 1")])
		other.want("DELETED")
	})
}
