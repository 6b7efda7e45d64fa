package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// TestLeaseAtTheEnd: a job that comes for a client that waits for a lease, just when the
// server ends, is given back at once, and not when its TTR ends.
func TestLeaseAtTheEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.connect(), w.connect()
		c.send("reserve-lease 1000")
		c.silent()
		w.store.set(func(d *door) {
			d.onDo = func(b *storage.Batch) {
				if b.Ops[0].Kind == storage.Take { // the round that serves it
					go w.server.Shutdown(context.Background())
					time.Sleep(time.Millisecond)
				}
			}
		})
		other.put(1000, "x")
		time.Sleep(time.Minute)
		ops := []storage.Op{{Kind: storage.JobStats, ID: 1}}
		storage.DoWait(w.store, ops)
		if s := ops[0].Answer.Job; s.State != tube.Ready || s.Counters[tube.Reserves] != 1 {
			t.Errorf("afterwards it is %+v", s)
		}
		w.store.set(func(d *door) { d.onDo = nil })
		w.reopen(Config{})
	})
}

// TestLeasesOutlive: what a connection has leased stays leased when it ends, beside what it
// had reserved.
func TestLeasesOutlive(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.connect(), w.connect()
		c.put(1000, "x")
		c.put(1000, "y")
		lease := c.ask("reserve-lease 0")
		c.want("x")
		c.ask("reserve")
		c.want("y")
		c.close()
		synctest.Wait()
		if a, b := other.figure("stats-job 1", "state"), other.figure("stats-job 2", "state"); a != "reserved" || b != "ready" {
			t.Errorf("what was leased is %s, what was reserved %s", a, b)
		}
		other.send("delete-lease 1 " + lease[len("LEASED 1 "):len(lease)-len(" 1")])
		other.want("DELETED")
	})
}
