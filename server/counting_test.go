package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/protocol"
	"redstalk/server/queue"
	"redstalk/storage"
)

// TestResults: commands are counted by their results, also many of one burst, and bytes are counted.
func TestResults(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		sent := 0
		send := func(text string) {
			c.sendRaw(text)
			sent += len(text)
			synctest.Wait()
		}
		send(strings.Repeat("put 5 0 60 1\r\na\r\n", 5))
		send("reserve\r\ndelete 1\r\ndelete 7\r\ndelete 8\r\nreserve-with-timeout 0\r\nrelease x\r\nno such\r\ndrain\r\nput 5 0 60 1\r\na\r\nignore default\r\n")
		send("reserve\r\nreserve\r\nreserve\r\n")
		send("reserve-with-timeout 1\r\n") // all other jobs are reserved
		time.Sleep(2 * time.Second)
		h.store.set(func(p *proxyStore) {
			p.fail = func(op *storage.Op) error {
				if op.Kind == storage.Peek {
					return storage.ErrUnavailable
				}
				return nil
			}
		})
		send("peek 1\r\nquit\r\n")
		<-c.ended
		want := map[protocol.Verb]map[queue.Result]uint64{
			protocol.Put:                {queue.Done: 5, queue.Refused: 1},
			protocol.Reserve:            {queue.Done: 4},
			protocol.ReserveWithTimeout: {queue.Done: 1, queue.TimedOut: 1},
			protocol.Delete:             {queue.Done: 1, queue.NotFound: 2},
			protocol.Release:            {queue.BadRequest: 1},
			protocol.Unknown:            {queue.BadRequest: 1},
			protocol.Drain:              {queue.Done: 1},
			protocol.Ignore:             {queue.NotFound: 1},
			protocol.Peek:               {queue.Failed: 1},
			protocol.Quit:               {queue.Done: 1},
		}
		counters := &h.queue.Counters
		for v := range protocol.NumVerbs {
			for r := range queue.NumResults {
				if got := counters.Results[v][r].Load(); got != want[v][r] {
					t.Errorf("%v %v: %d, want %d", v, r, got, want[v][r])
				}
			}
		}
		replies := 0
		for len(c.lines) > 0 {
			replies += len(<-c.lines) + len("\r\n")
		}
		if in, out := counters.Received.Load(), counters.Sent.Load(); in != uint64(sent) || out != uint64(replies) {
			t.Errorf("%d bytes came and %d went, not %d and %d", in, out, sent, replies)
		}
		h.queue.Undrain()
	})
}

// TestTimesInStats: stats-tube of a tube with a policy ends with histograms of how long jobs wait and run.
// Without a policy it is beanstalkd's page.
func TestTimesInStats(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.put(1000, "x")
		c.put(1000, "y")
		time.Sleep(30 * time.Second)
		c.ask("reserve")
		c.want("x")
		time.Sleep(7 * time.Second)
		c.ask("delete 1")
		page := func() string {
			c.ask("stats-tube default")
			synctest.Wait()
			var page strings.Builder
			for len(c.lines) > 0 {
				page.WriteString(<-c.lines + "\n")
			}
			_, added, _ := strings.Cut(page.String(), "pause-time-left: 0\n")
			return strings.TrimSpace(added)
		}
		if got := page(); got != "" {
			t.Errorf("without a policy it ends with\n%s", got)
		}
		c.ask("set-policy default max:5")
		want := `oldest-ready: 37
waits: {count: 1, sum-ms: 30000, 1ms: 0, 5ms: 0, 25ms: 0, 100ms: 0, 500ms: 0, 1s: 0, 5s: 0, 15s: 0, 1m: 1, 5m: 0, 15m: 0, 1h: 0, 6h: 0, 1d: 0, more: 0}
runs: {count: 1, sum-ms: 7000, 1ms: 0, 5ms: 0, 25ms: 0, 100ms: 0, 500ms: 0, 1s: 0, 5s: 0, 15s: 1, 1m: 0, 5m: 0, 15m: 0, 1h: 0, 6h: 0, 1d: 0, more: 0}`
		if got := page(); got != want {
			t.Errorf("it ends with\n%s\nand not\n%s", got, want)
		}
	})
}
