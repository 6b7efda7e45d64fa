package server

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/protocol"
	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/tools/engines"
)

// TestCheckpointCommands: each command about checkpoints and progress, with each of its replies.
func TestCheckpointCommands(t *testing.T) {
	engines.Each(t, engines.All[:2], func(t *testing.T, store storage.Store) {
		h := &harness{T: t, store: &proxyStore{Store: store}}
		h.open(Config{})
		testCheckpointCommands(h)
		h.server.Shutdown(t.Context())
		h.queue.Close(t.Context())
		store.Close()
	})
}

var largestCheckpoint = strings.Repeat("c", protocol.MaxCheckpoint)

// checkpointCommands are commands of one connection, and their replies; $ is the id of a job.
var checkpointCommands = []struct {
	command string
	replies []string
}{
	{"checkpoint $ 1\r\na", []string{"NOT_FOUND"}}, // it is not reserved
	{"touch $ progress:a", []string{"NOT_FOUND"}},
	{"get-checkpoint $", []string{"NOT_FOUND"}},
	{"reserve-job $", []string{"RESERVED $ 1", "x"}},
	{"get-checkpoint $", []string{"NOT_FOUND"}},
	{"checkpoint $ 65536\r\n" + largestCheckpoint, []string{"SAVED"}},
	{"get-checkpoint $", []string{"OK 65536", largestCheckpoint}},
	{"checkpoint $ 65537\r\nc" + largestCheckpoint, []string{"JOB_TOO_BIG"}},
	{"checkpoint $ 2\r\nabcd", []string{"EXPECTED_CRLF", "UNKNOWN_COMMAND"}},
	{"checkpoint 99 2\r\nab", []string{"NOT_FOUND"}},
	{"checkpoint $ 2\r\nab", []string{"SAVED"}},
	{"get-checkpoint $", []string{"OK 2", "ab"}},
	{"checkpoint $ 0\r\n", []string{"SAVED"}},
	{"get-checkpoint $", []string{"NOT_FOUND"}},
	{"touch $ progress:\"1/3\"", []string{"TOUCHED"}},
	{"touch $ x", []string{"BAD_FORMAT"}},
	{"touch $ progress:", []string{"BAD_FORMAT"}},
	{"touch $ progress:a progress:b", []string{"BAD_FORMAT"}},
	{"touch $", []string{"TOUCHED"}},
	{"checkpoint $ 4\r\nlast", []string{"SAVED"}},
	{"bury $ 0", []string{"BURIED"}},
	{"kick 1 keep-checkpoint", []string{"KICKED 1"}},
	{"get-checkpoint $", []string{"OK 4", "last"}},
	{"reserve-job $", []string{"RESERVED $ 1", "x"}},
	{"bury $ 0", []string{"BURIED"}},
	{"kick-job $ keep", []string{"BAD_FORMAT"}},
	{"kick-job $ keep-checkpoint", []string{"KICKED"}},
	{"get-checkpoint $", []string{"OK 4", "last"}},
	{"reserve-job $", []string{"RESERVED $ 1", "x"}},
	{"bury $ 0", []string{"BURIED"}},
	{"replay-job $ keep-checkpoint", []string{"REPLAYED"}},
	{"get-checkpoint $", []string{"OK 4", "last"}},
	{"reserve-job $", []string{"RESERVED $ 1", "x"}},
	{"bury $ 0", []string{"BURIED"}},
	{"kick-job $", []string{"KICKED"}},
	{"get-checkpoint $", []string{"NOT_FOUND"}},
}

func testCheckpointCommands(h *harness) {
	c, other := h.connect(), h.connect()
	id := c.put(60, "x")
	for _, tc := range checkpointCommands {
		fill := func(s string) string { return strings.ReplaceAll(s, "$", id) }
		c.send(fill(tc.command))
		for _, want := range tc.replies {
			if got := <-c.lines; got != fill(want) {
				h.Fatalf("%.40q: %.40q, want %.40q", fill(tc.command), got, fill(want))
			}
		}
	}
	lease := strings.Fields(c.ask("reserve-lease 0"))[2]
	c.want("x")
	other.send("checkpoint-lease "+id+" "+lease+" 2", "ab", "checkpoint-lease "+id+" 00000000000000000001 2", "cd",
		"touch-lease "+id+" "+lease+` progress:"a \"b\""`, "touch-lease "+id+" x progress:c", "get-checkpoint "+id)
	other.want("SAVED", "NOT_FOUND", "TOUCHED", "NOT_FOUND", "OK 2", "ab")
	c.send("stats-job "+id, "list-jobs default reserved")
	if got := strings.Join(c.page(), "\n"); !strings.HasSuffix(got, "lease: yes\nprogress: \"a \\\"b\\\"\"\ncheckpoint-bytes: 2") {
		h.Errorf("stats-job says %q", got)
	}
	if got := strings.Join(c.page(), "\n"); !strings.HasSuffix(got, `, progress: "a \"b\"", checkpoint-bytes: 2}`) {
		h.Errorf("list-jobs says %q", got)
	}
}

// saved puts a job that has a checkpoint, and is ready.
func (c *client) saved(checkpoint string) (id string) {
	c.h.Helper()
	id = c.put(60, "x")
	c.reserve(id)
	c.send(fmt.Sprintf("checkpoint %s %d", id, len(checkpoint)), checkpoint, "release "+id+" 0 0 failure:no")
	c.want("SAVED", "RELEASED")
	return id
}

// TestInfoOfCheckpoint: the info of a job has its checkpoint, whichever command has reserved it, also after a wait.
func TestInfoOfCheckpoint(t *testing.T) {
	for _, command := range []string{"reserve-lease 5 info", "reserve-batch 9 5 info", "reserve-batch 9 5 lease info"} {
		for _, waits := range []bool{false, true} {
			withServer(t, func(h *harness) {
				c, other := h.connect(), h.connect()
				id := other.saved("page \x007")
				if waits {
					other.reserve(id)
					c.send(command)
					synctest.Wait()
					other.send("release " + id + " 0 0 failure:no")
					other.want("RELEASED")
				} else {
					c.send(command)
				}
				begin, lease := "LEASED "+id, strings.Contains(command, "lease")
				if strings.HasPrefix(command, "reserve-batch") {
					c.want("RESERVED_BATCH 1")
				}
				if !lease {
					begin = "RESERVED " + id
				}
				c.wantInfo(begin, "x", `{"tube":"default","pri":0,"ttr":60,"age":0,"deliveries":1,"failures":0,"checkpoint-bytes":7,"checkpoint":"cGFnZSAANw=="}`)
			})
		}
	}
}

// TestInfoOfManyCheckpoints: of many jobs each comes with its own checkpoint, as far as there is room, and with none if it has none or
// the store cannot read it. Jobs without checkpoints need no further operation.
func TestInfoOfManyCheckpoints(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		const room = maxCheckpointBytes / protocol.MaxCheckpoint
		var want []string
		for i := range room + 10 {
			if i%3 == 0 {
				c.put(60, "x")
				want = append(want, "")
				continue
			}
			want = append(want, strings.Repeat(string(rune('a'+i%26)), protocol.MaxCheckpoint-i%2))
		}
		ids := map[int]string{}
		for i, data := range want {
			if data != "" {
				ids[i] = c.saved(data)
			}
		}
		asked := 0
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
				for i := range b.Ops {
					if b.Ops[i].Kind == storage.GetCheckpoint {
						asked++
					}
				}
			}
		})
		c.send("reserve-batch 1000 info")
		got := map[string]string{}
		<-c.lines
		for range want {
			id := strings.Fields(<-c.lines)[1]
			<-c.lines
			got[id] = <-c.lines
		}
		for i, id := range ids {
			text := base64.StdEncoding.EncodeToString([]byte(want[i]))
			if !strings.Contains(got[id], fmt.Sprintf(`"checkpoint-bytes":%d,"checkpoint":"%s"`, len(want[i]), text)) {
				t.Errorf("job %s comes with %.200s", id, got[id])
			}
		}
		if asked != len(ids) {
			t.Errorf("%d checkpoints were read for %d jobs with one", asked, len(ids))
		}
	})
}

// TestCheckpointsOfOnePacket: many large checkpoints that come at once are carried out in bursts of limited size, also if the tubes of
// their jobs have to be looked up, and their replies are in order.
func TestCheckpointsOfOnePacket(t *testing.T) {
	withUsers(t, user("worker", `"*"`, "work")+user("other", "default", "work"), func(g *accessHarness) {
		id := g.root.put(60, "x")
		for _, name := range []string{"worker", "other"} {
			c := g.as(name)
			c.reserve(id)
			c.discardReplies()
			var largest atomic.Int64 // the store is also called by connections that end
			g.store.set(func(p *proxyStore) {
				p.onDo = func(b *storage.Batch) {
					bytes := int64(0)
					for i := range b.Ops {
						if args := b.Ops[i].Args; args != nil {
							bytes += int64(len(args.Data))
						}
					}
					if bytes > largest.Load() {
						largest.Store(bytes)
					}
				}
			})
			var text strings.Builder
			for i := range 500 {
				fmt.Fprintf(&text, "checkpoint %s %d\r\n%s\r\n", id, protocol.MaxCheckpoint, strings.Repeat(string(rune('a'+i%26)), protocol.MaxCheckpoint))
			}
			c.sendRaw(text.String() + "get-checkpoint " + id + "\r\n")
			c.want(slices.Repeat([]string{"SAVED"}, 500)...)
			c.want("OK 65536", strings.Repeat(string(rune('a'+499%26)), protocol.MaxCheckpoint))
			if got, limit := largest.Load(), int64(maxBurstBytes+protocol.MaxCheckpoint); got == 0 || got > limit {
				t.Errorf("as %s: the largest burst has %d bytes of checkpoints, want at most %d", name, got, limit)
			}
			c.send("release " + id + " 0 0")
			c.want("RELEASED")
		}
	})
}

// TestCheckpointStartsTTR: saving a checkpoint starts the TTR anew.
func TestCheckpointStartsTTR(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		id := c.put(10, "x")
		c.reserve(id)
		for range 3 {
			time.Sleep(6 * time.Second)
			c.send("checkpoint "+id+" 1", "a")
			c.want("SAVED")
		}
		if left := c.stat("stats-job "+id, "time-left"); left != "9" && left != "10" {
			t.Errorf("the job has %s s left", left)
		}
	})
}

// TestCheckpointNeedsReadOrWork: get-checkpoint needs one of the two rights; of other tubes' jobs nothing is said.
func TestCheckpointNeedsReadOrWork(t *testing.T) {
	users := user("reads", "default", "read") + user("works", "default", "work") + user("puts", "default", "put") + user("elsewhere", "other", "work, read")
	withUsers(t, users, func(g *accessHarness) {
		id := g.root.saved("ab")
		for name, want := range map[string][]string{"reads": {"OK 2", "ab"}, "works": {"OK 2", "ab"}, "puts": {"FORBIDDEN"}, "elsewhere": {"NOT_FOUND"}} {
			c := g.as(name)
			c.send("get-checkpoint " + id)
			c.want(want...)
		}
		if need, _ := access.NeedOf("checkpoint"); need.One != access.Work {
			t.Errorf("checkpoint needs %v", need.One)
		}
	})
}
