package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
)

// watchMany makes a client watch n tubes whose names begin with prefix.
func (c *client) watchMany(prefix string, n int) {
	c.h.Helper()
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "watch %s%d\r\n", prefix, i)
	}
	c.sendRaw(text.String())
	for range n {
		<-c.lines
	}
}

// TestIdleWaitingIsCheap: the number of tubes that are searched while nothing happens does not grow with
// the square of the tubes, nor with the waiters.
func TestIdleWaitingIsCheap(t *testing.T) {
	for name, test := range map[string]struct {
		clients, tubes int
		same           bool
		limit          int // of the tubes searched in a second
	}{
		"one on many tubes":         {1, 301, true, 302},
		"many on the same tubes":    {20, 301, true, 302},
		"many on different tubes":   {20, 301, false, queue.MaxRetried + 302},
		"one on more than one pass": {1, 2 * queue.MaxRetried, true, queue.MaxRetried + queue.MaxRetried/5},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, func(h *harness) {
				for i := range test.clients {
					c, prefix := h.connectFor(2*test.tubes), "t"
					if !test.same {
						prefix = fmt.Sprint("t", i, "-")
					}
					c.watchMany(prefix, test.tubes)
					c.send("reserve")
				}
				synctest.Wait()
				const seconds = 20
				h.store.set(func(p *proxyStore) { p.searched = 0 })
				time.Sleep(seconds * time.Second)
				if _, searched, _ := h.store.counts(); searched/seconds > test.limit {
					t.Errorf("%d tubes are searched in a second, want at most %d", searched/seconds, test.limit)
				}
			})
		})
	}
}

// TestLostWakeUpsAreRepaired: a waiter whose wake-up was lost gets its job by a retry. If there are many
// waiters, they are retried in turn.
func TestLostWakeUpsAreRepaired(t *testing.T) {
	const clients, tubes = 10, queue.MaxRetried / 4
	withServer(t, func(h *harness) {
		var all []*client
		for i := range clients {
			c := h.connectFor(2 * tubes)
			c.watchMany(fmt.Sprint("t", i, "-"), tubes)
			c.send("ignore default", "reserve")
			<-c.lines
			all = append(all, c)
		}
		synctest.Wait()
		h.store.set(func(p *proxyStore) { p.dropWakeUps = true })
		begun, producer := time.Now(), h.connect()
		for i := range clients {
			producer.send(fmt.Sprintf("use t%d-%d", i, i))
			<-producer.lines
			producer.put(60, "x")
		}
		for i, c := range all {
			c.want(fmt.Sprintf("RESERVED %d 1", i+1), "x")
		}
		if took := time.Since(begun); took > (clients/4+1)*queue.RetryEvery {
			t.Errorf("it took %v", took)
		}
	})
}

// TestNoWakeUpIsLost: workers on many tubes get all jobs without the passing of time, in which a retry
// could have repaired a lost wake-up.
func TestNoWakeUpIsLost(t *testing.T) {
	const tubes, workers, producers, each = 12, 30, 6, 200
	withServer(t, func(h *harness) {
		begun := time.Now()
		for i := range workers {
			c, random := h.connect(), rand.New(rand.NewPCG(1, uint64(i)))
			for t := range tubes {
				if i == t || random.IntN(3) == 0 {
					c.send(fmt.Sprint("watch t", t))
					<-c.lines
				}
			}
			go c.work()
		}
		for i := range producers {
			c, random := h.connect(), rand.New(rand.NewPCG(2, uint64(i)))
			for range each {
				c.sendRaw(fmt.Sprintf("use t%d\r\nput 0 0 60 1\r\nx\r\n", random.IntN(tubes)))
			}
		}
		synctest.Wait()
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v", took)
		}
		ops := []storage.Op{{Kind: storage.Stats}}
		storage.DoWait(h.store, ops)
		if s := ops[0].Answer.Stats; s.Jobs != producers*each || s.Ready+s.Reserved != 0 {
			t.Errorf("of %d jobs %d are ready and %d reserved", s.Jobs, s.Ready, s.Reserved)
		}
	})
}

// work reserves and deletes jobs until the connection ends.
func (c *client) work() {
	for {
		if _, err := c.conn.Write([]byte("reserve\r\n")); err != nil {
			return
		}
		var id, size int
		select {
		case line := <-c.lines:
			if _, err := fmt.Sscanf(line, "RESERVED %d %d", &id, &size); err != nil {
				return
			}
		case <-c.ended:
			return
		}
		<-c.lines
		if _, err := fmt.Fprintf(c.conn, "delete %d\r\n", id); err != nil {
			return
		}
		<-c.lines
	}
}
