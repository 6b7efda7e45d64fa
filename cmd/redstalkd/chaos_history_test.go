package main

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// history records what was done to instances, and when.
type history struct {
	stalls atomic.Int64 // how often nothing at all continued
	ticked atomic.Int64 // when this program was last seen to continue, in ns since begun
	begun  time.Time

	mu  sync.Mutex
	all []*disturbance
}

// disturbance is one entry of the history.
type disturbance struct {
	addr string // of the instance, as clients know it; "" for all
	what string
	over time.Time // zero while it continues
}

const (
	// aftermath is how long after a disturbance others may still declare an
	// instance dead, until they have its next heartbeat.
	aftermath = 3 * time.Second

	// stillFor is the longest time without running for this process: beyond that, the
	// instances did not run either, and the first to continue finds that the
	// others sent no heartbeats.
	stillFor = 1500 * time.Millisecond
)

// watchHistory returns an empty history. Stalls of the machine are added to it until
// the test ends.
func watchHistory(t *testing.T) *history {
	h := &history{begun: time.Now()}
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		tick := time.NewTicker(stillFor / 15)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if h.stalled() {
					h.stalls.Add(1)
					h.begin("", "the machine stood still")()
				}
				h.ticked.Store(int64(time.Since(h.begun)))
			case <-ended:
				return
			}
		}
	}()
	return h
}

func (h *history) stalled() bool {
	return time.Since(h.begun)-time.Duration(h.ticked.Load()) > stillFor
}

// begin records that something is being done to an instance, until end is called.
func (h *history) begin(addr, what string) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := &disturbance{addr: addr, what: what}
	h.all = append(h.all, d)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		d.over = time.Now()
	}
}

// excuse returns why an instance may have lost the reservations of its clients
// since then.
func (h *history) excuse(addr string, since time.Time) string {
	if h.stalled() {
		return "the machine stood still"
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.all {
		if (d.addr == addr || d.addr == "") && (d.over.IsZero() || since.Before(d.over.Add(aftermath))) {
			return d.what
		}
	}
	return ""
}

// disturbed reports whether something was done since then to an instance whose
// address is in the text, or to any instance if that is empty.
func (h *history) disturbed(where string, since time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.all {
		if (where == "" || d.addr != "" && strings.Contains(where, d.addr)) && (d.over.IsZero() || since.Before(d.over)) {
			return true
		}
	}
	return false
}
