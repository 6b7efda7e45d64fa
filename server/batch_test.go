package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"redstalk/storage"
)

// fillWith puts n jobs with bodies of so many bytes.
func (c *client) fillWith(n, size int) {
	c.w.Helper()
	body := strings.Repeat("b", size)
	for id := range n {
		c.send(fmt.Sprintf("put 0 0 600 %d\r\n%s", size, body))
		c.want(fmt.Sprint("INSERTED ", id+1))
	}
}

// TestReserveBatchIsBounded: the bodies in one answer are 16 MiB at most, and many jobs
// are taken in several steps.
func TestReserveBatchIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		const size, fit = 65535, 16 << 20 / 65535
		c := w.connect()
		c.fillWith(fit+10, size)
		w.store.set(func(d *door) { d.largest = 0 })
		c.send("reserve-batch 1000")
		c.want(fmt.Sprint("RESERVED_BATCH ", fit))
		for id := range fit {
			c.want(fmt.Sprintf("RESERVED %d %d", id+1, size), strings.Repeat("b", size))
		}
		if _, _, largest := w.store.counts(); largest > maxTakes {
			t.Errorf("%d takes at once", largest)
		}
		c.send("reserve-batch 1000")
		c.want("RESERVED_BATCH 10")
	})
}

// TestReserveBatchAndFailures: what was taken before the store failed is handed out.
func TestReserveBatchAndFailures(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		c.fillWith(3*maxTakes, 1)
		takes := 0
		w.store.set(func(d *door) {
			d.fail = func(op *storage.Op) error {
				if op.Kind != storage.Take {
					return nil
				}
				if takes++; takes > 1+maxTakes {
					return storage.ErrUnavailable
				}
				return nil
			}
		})
		c.send("reserve-batch 1000")
		c.want(fmt.Sprint("RESERVED_BATCH ", 1+maxTakes))
		for id := range 1 + maxTakes {
			c.want(fmt.Sprintf("RESERVED %d 1", id+1), "b")
		}
		c.send("reserve-batch 2", "list-tube-used")
		c.want("INTERNAL_ERROR", "USING default")
		c.send("delete-batch 1 2")
		c.want("DELETED_BATCH 2 0")
		w.store.set(func(d *door) { d.fail = func(*storage.Op) error { return storage.ErrUnavailable } })
		c.send("delete-batch 3 4", "list-tube-used")
		c.want("INTERNAL_ERROR", "USING default")
		w.store.set(func(d *door) { d.fail = nil })
	})
}

// TestReserveBatchCutOff: if its client goes while more jobs are being taken, all are
// given back.
func TestReserveBatchCutOff(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.connect(), w.connect()
		c.fillWith(5*maxTakes, 1)
		batches := 0
		w.store.set(func(d *door) {
			d.onDo = func(b *storage.Batch) {
				if b.Ops[0].Kind == storage.Take {
					if batches++; batches == 3 {
						c.conn.Close()
					}
				}
			}
		})
		c.send("reserve-batch 1000")
		synctest.Wait()
		other.send("kick 0", "peek-ready")
		other.want("KICKED 0", "FOUND 1 1", "b")
		if ready, reserved := other.figure("stats", "current-jobs-ready"), other.figure("stats", "current-jobs-reserved"); ready != fmt.Sprint(5*maxTakes) || reserved != "0" {
			t.Errorf("afterwards %s jobs are ready and %s reserved", ready, reserved)
		}
	})
}

// TestBatchesPipelined: a burst of batch commands is answered in its order.
func TestBatchesPipelined(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.connect()
		c.fillWith(500, 1)
		var want []string
		var burst strings.Builder
		for n := range 100 {
			fmt.Fprintf(&burst, "reserve-batch 5\r\ndelete-batch %d %d %d\r\n", 5*n+1, 5*n+2, 9999)
			want = append(want, "RESERVED_BATCH 5")
			for id := 5*n + 1; id <= 5*n+5; id++ {
				want = append(want, fmt.Sprintf("RESERVED %d 1", id), "b")
			}
			want = append(want, "DELETED_BATCH 2 1")
		}
		go io.WriteString(c.conn, burst.String())
		c.want(want...)
	})
}
