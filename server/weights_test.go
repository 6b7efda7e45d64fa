package server

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
)

// TestWeights: with weights 9 and 1, 90 % of 10,000 reserves come from the first tube, whatever the
// priorities, with reserve and with reserve-batch.
func TestWeights(t *testing.T) {
	for _, command := range []string{"reserve-with-timeout 0", "reserve-batch 10", "reserve-lease 0"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			withServer(t, func(h *harness) {
				c := h.connect()
				c.send("use small", "put 0 0 600 1\r\ns", "use large", "put 9 0 600 1\r\nl", "watch large 9", "watch small 1", "ignore default")
				c.discardReplies()
				h.fill("small", 1, 3000)
				h.fill("large", 9, 12000)
				got := map[string]int{}
				for got["s"]+got["l"] < 10_000 {
					c.send(command)
					for line := range strings.SplitSeq(c.allLines(), "\n") {
						got[line]++
					}
				}
				if share := float64(got["l"]) / float64(got["l"]+got["s"]); math.Abs(share-0.9) > 0.03 {
					t.Errorf("%.3f of the jobs are from the tube with weight 9, want 0.9", share)
				}
			})
		})
	}
}

// fill puts jobs with the first letter of the tube as their body.
func (h *harness) fill(tube string, pri, n int) {
	c := h.connect()
	c.send("use " + tube)
	for range n {
		c.send(fmt.Sprintf("put %d 0 600 1\r\n%c", pri, tube[0]))
	}
	c.discardReplies()
	c.close()
}

// TestWatchWithWeight: a tube without a weight has the weight 1 beside others; watching it again
// without one changes nothing; without weights the priority decides again.
func TestWatchWithWeight(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("watch a 1000", "watch a", "watch b", "watch c 0", "watch c 1001")
		c.want("WATCHING 2", "WATCHING 2", "WATCHING 3", "BAD_FORMAT", "BAD_FORMAT")
		if s := h.onlySession(); s.watched.weights["a"] != 1000 || len(s.watched.weights) != 1 {
			t.Errorf("weights %v", s.watched.weights)
		}
		c.send("ignore default", "use b", "put 0 0 60 1\r\nb", "use a", "put 9 0 60 1\r\na", "ignore a", "watch a")
		c.discardReplies()
		for range 20 { // by priority again
			c.send("reserve-with-timeout 0", "release 1 0 0")
			c.want("RESERVED 1 1", "b", "RELEASED")
		}
	})
}

// onlySession returns the session of the only connection.
func (h *harness) onlySession() *session {
	synctest.Wait()
	return h.server.allSessions()[0]
}
