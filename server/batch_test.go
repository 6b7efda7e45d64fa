package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"redstalk/storage"
)

// fillWith puts n jobs with bodies of size bytes.
func (c *client) fillWith(n, size int) {
	c.h.Helper()
	body := strings.Repeat("b", size)
	for id := range n {
		c.send(fmt.Sprintf("put 0 0 600 %d\r\n%s", size, body))
		c.want(fmt.Sprint("INSERTED ", id+1))
	}
}

// TestReserveBatchIsBounded: the bodies in one answer have at most 16 MiB, and many jobs are taken in
// several batches.
func TestReserveBatchIsBounded(t *testing.T) {
	atLength(t)
	withServer(t, func(h *harness) {
		const size, fit = 65535, 16 << 20 / 65535
		c := h.connect()
		c.fillWith(fit+10, size)
		h.store.set(func(p *proxyStore) { p.largest = 0 })
		c.send("reserve-batch 1000")
		c.want(fmt.Sprint("RESERVED_BATCH ", fit))
		for id := range fit {
			c.want(fmt.Sprintf("RESERVED %d %d", id+1, size), strings.Repeat("b", size))
		}
		if _, _, largest := h.store.counts(); largest > maxTakes {
			t.Errorf("%d takes at once", largest)
		}
		c.send("reserve-batch 1000")
		c.want("RESERVED_BATCH 10")
	})
}

// TestReserveBatchOfLargeJobs: the maximum job size does not limit how many small jobs come in one
// answer, and as many large ones come as fit.
func TestReserveBatchOfLargeJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		maxJob, want int
		sizes        []int
	}{
		"many small": {maxJob: 1 << 30, want: 1000, sizes: slices.Repeat([]int{10}, 1100)},
		"few small":  {maxJob: 16 << 20, want: 3, sizes: []int{10, 10, 10}},
		"large":      {maxJob: 8 << 20, want: 2, sizes: []int{6 << 20, 6 << 20, 6 << 20}},
		"mixed":      {maxJob: 20 << 20, want: 204, sizes: slices.Concat(slices.Repeat([]int{10}, 100), []int{6 << 20}, slices.Repeat([]int{10}, 100), []int{6 << 20, 0, 3, 4 << 20, 9}, []int{6 << 20, 1})},
		"too large":  {maxJob: 20 << 20, want: 1, sizes: []int{18 << 20, 1}},
		"full":       {maxJob: 20 << 20, want: 2, sizes: []int{8 << 20, 8 << 20, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "many small" && name != "large" {
				atLength(t)
			}
			withServer(t, func(h *harness) {
				h.maxJob = tc.maxJob
				h.server.Shutdown(context.Background())
				h.reopen(Config{})
				ops := make([]storage.Op, len(tc.sizes))
				for i, size := range tc.sizes {
					ops[i] = storage.Op{Kind: storage.Put, Tube: "default", TTR: 600, Body: bytes.Repeat([]byte{'b'}, size)}
				}
				storage.DoWait(h.store, ops)
				c := h.connect()
				c.send("reserve-batch 1000")
				c.want(fmt.Sprint("RESERVED_BATCH ", tc.want))
				for id := range tc.want {
					c.want(fmt.Sprintf("RESERVED %d %d", id+1, tc.sizes[id]), strings.Repeat("b", tc.sizes[id]))
				}
				if reserved := c.stat("stats", "current-jobs-reserved"); reserved != fmt.Sprint(tc.want) {
					t.Errorf("%s jobs are reserved, and the client knows of %d", reserved, tc.want)
				}
			})
		})
	}
}

// TestReserveBatchAndFailures: the answer has the jobs that were taken before the store failed.
func TestReserveBatchAndFailures(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.fillWith(3*maxTakes, 1)
		takes := 0
		h.store.set(func(p *proxyStore) {
			p.fail = func(op *storage.Op) error {
				if op.Kind != storage.Take {
					return nil
				}
				if takes++; takes > maxTakes {
					return storage.ErrUnavailable
				}
				return nil
			}
		})
		c.send("reserve-batch 1000")
		c.want(fmt.Sprint("RESERVED_BATCH ", maxTakes))
		for id := range maxTakes {
			c.want(fmt.Sprintf("RESERVED %d 1", id+1), "b")
		}
		c.send("reserve-batch 2", "list-tube-used")
		c.want("INTERNAL_ERROR", "USING default")
		c.send("delete-batch 1 2")
		c.want("DELETED_BATCH 2 0")
		h.store.set(func(p *proxyStore) { p.fail = func(*storage.Op) error { return storage.ErrUnavailable } })
		c.send("delete-batch 3 4", "list-tube-used")
		c.want("INTERNAL_ERROR", "USING default")
		h.store.set(func(p *proxyStore) { p.fail = nil })
	})
}

// TestFailsBetweenParts: if an operation on many jobs fails after some parts, the reply has the number
// of jobs in the parts that were carried out.
func TestFailsBetweenParts(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.fillWith(6, 1)
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
				done := b.Done
				b.Done = func() {
					for i := range b.Ops {
						b.Ops[i].Answer.Err = storage.ErrUnavailable
					}
					done()
				}
			}
		})
		c.send("move-jobs default ready other 4", "flush-tube default", "flush-tube default", "kick 1", "list-tube-used")
		c.want("MOVED 4", "FLUSHED 2", "INTERNAL_ERROR", "INTERNAL_ERROR", "USING default")
		h.store.set(func(p *proxyStore) { p.onDo = nil })
	})
}

// TestReserveBatchClientGone: if the client disconnects while more jobs are being taken, all of them are
// given back.
func TestReserveBatchClientGone(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		c.fillWith(5*maxTakes, 1)
		batches := 0
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
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
		if ready, reserved := other.stat("stats", "current-jobs-ready"), other.stat("stats", "current-jobs-reserved"); ready != fmt.Sprint(5*maxTakes) || reserved != "0" {
			t.Errorf("afterwards %s jobs are ready and %s reserved", ready, reserved)
		}
	})
}

// TestBatchesPipelined: a burst of batch commands is answered in order.
func TestBatchesPipelined(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
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

// TestTakesOfOneCall: a reserve-batch of jobs that are there takes them, and reads their info, with one call of the
// store.
func TestTakesOfOneCall(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.fillWith(10, 1)
		calls := 0
		h.store.set(func(p *proxyStore) { p.onDo = func(*storage.Batch) { calls++ } })
		c.send("reserve-batch 8 10 lease info")
		c.want("RESERVED_BATCH 8")
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestDropTakes: if the store finds a job only with a later take, that one counts. If it finds none, one take is left, which
// can wait.
func TestDropTakes(t *testing.T) {
	none, job := storage.Answer{NotFound: true}, storage.Answer{ID: 7}
	for want, answers := range map[int][]storage.Answer{1: {none, none, none}, 3: {none, none, job}} {
		s, r := new(session), &request{unexamined: true}
		for _, a := range answers {
			s.batch.Ops = append(s.batch.Ops, storage.Op{Answer: a})
		}
		if s.dropTakes(r); len(s.batch.Ops) != want || s.batch.Ops[0].Answer.NotFound != (want == 1) || r.unexamined {
			t.Errorf("%d takes are left, the first with %+v", len(s.batch.Ops), s.batch.Ops[0].Answer)
		}
	}
}
