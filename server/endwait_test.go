package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/protocol"
	protoclient "redstalk/protocol/client"
	"redstalk/server/queue"
	"redstalk/storage"
)

// putKept puts a job that leaves a record, with more tags, and returns its id.
func (c *client) putKept(tags string) string {
	c.h.Helper()
	reply := c.ask(strings.TrimSuffix("put 0 0 60 1 keep:1h "+tags, " ") + "\r\nx")
	id, ok := strings.CutPrefix(reply, "INSERTED ")
	if !ok {
		c.h.Fatalf("putting a job: %q", reply)
	}
	return id
}

// reserve reserves a job.
func (c *client) reserve(id string) {
	c.h.Helper()
	c.send("reserve-job " + id)
	c.want("RESERVED "+id+" 1", "x")
}

// TestFinish: a job is finished once, by its holder, and only if it leaves a record.
func TestFinish(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		id, without := c.putKept(""), c.put(60, "x")
		c.send("finish "+id+" 2", "ab") // not reserved
		c.want("NOT_FOUND")
		c.reserve(id)
		c.reserve(without)
		other.send("finish "+id+" 2", "ab")
		other.want("NOT_FOUND")
		c.send("finish "+without+" 2", "ab", "finish "+id+" 65537", strings.Repeat("r", protocol.MaxResult+1), "finish "+id+" 2", "ab", "finish "+id+" 2", "cd", "delete "+without)
		c.want("NOT_KEPT", "JOB_TOO_BIG", "FINISHED", "NOT_FOUND", "DELETED")
		c.send("wait-job "+id+" 0", "wait-job "+without+" 0")
		c.want("ENDED "+id+" done 2", "ab", "NOT_FOUND")

		id = c.putKept("")
		lease := strings.Fields(c.ask("reserve-lease 0"))[2]
		c.want("x")
		result := strings.Repeat("r", protocol.MaxResult)
		other.send("finish-lease "+id+" 00000000000000000001 1", "a", "finish-lease "+id+" "+lease+" 65536", result, "wait-job "+id+" 5")
		other.want("NOT_FOUND", "FINISHED", "ENDED "+id+" done 65536", result)
	})
}

// TestWaitJob: a wait ends when its job does, however that is, and says how.
func TestWaitJob(t *testing.T) {
	for _, tc := range []struct {
		tags     string
		commands []string // of another connection; $ is the id
		want     string   // how, and the body
	}{
		{"", []string{"reserve-job $", "finish $ 3", "abc"}, "done 3\nabc"},
		{"", []string{"reserve-job $", "finish $ 0", ""}, "done 0\n"},
		{"", []string{"reserve-job $", "delete $"}, "done 0\n"},
		{"", []string{"delete $"}, "deleted 0\n"},
		{"", []string{"flush-tube default"}, "deleted 0\n"},
		{"key:k", []string{"delete-key default k"}, "deleted 0\n"},
		{"expire:1s", nil, "expired 0\n"},
		{"", []string{"move-jobs default ready b 1"}, "moved 3\nb 2"},
		{"max:1 dead:d", []string{"reserve-job $", `release $ 0 0 reason:oops`}, "dead 3\nd 2"},
		{"max:1", []string{"reserve-job $", `release $ 0 0 reason:"no way"`}, "parked 6\nno way"},
		{"", []string{"reserve-job $", "bury $ 0"}, "parked 0\n"},
	} {
		t.Run(fmt.Sprint(tc.tags, tc.commands), func(t *testing.T) {
			withServer(t, func(h *harness) {
				c, other := h.connect(), h.connect()
				id := other.putKept(tc.tags)
				c.send("wait-job "+id+" 1000", "list-tube-used")
				c.wantNothing()
				if tc.commands != nil {
					other.send(strings.Split(strings.ReplaceAll(strings.Join(tc.commands, "\n"), "$", id), "\n")...)
				}
				how, body, _ := strings.Cut(tc.want, "\n")
				c.want(append([]string{"ENDED " + id + " " + how}, strings.Split(body, "\n")...)...)
				c.want("USING default")
				c.send("wait-job "+id+" 0", "wait-job "+id+" 1000")
				for range 2 {
					c.want(append([]string{"ENDED " + id + " " + how}, strings.Split(body, "\n")...)...)
				}
			})
		})
	}
}

// TestWaitJobInVain: a wait ends after its time, and at once if there is nothing to wait for.
func TestWaitJobInVain(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		id, without := c.putKept(""), c.put(60, "x")
		begun := time.Now()
		c.send("wait-job " + id + " 5")
		c.wantWithin(begun, 5*time.Second, "TIMED_OUT")
		c.send("wait-job "+id+" 0", "wait-job "+without+" 5", "wait-job 77 5")
		c.wantWithin(begun, 5*time.Second, "TIMED_OUT")
		c.want("NOT_KEPT", "NOT_FOUND")
		c.send("drain", "wait-job "+id+" 2147483647")
		c.want("DRAINING")
		c.wantNothing()
		h.connect().send("delete " + id)
		c.want("ENDED "+id+" deleted 0", "")
	})
}

// TestWaitJobInBursts: waits amid many commands in one packet are answered in their order.
func TestWaitJobInBursts(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		var ids []string
		for range 10 {
			ids = append(ids, other.putKept(""))
		}
		var burst, want []string
		for i := range 500 {
			if i%50 == 25 {
				id := ids[i/50]
				burst = append(burst, "wait-job "+id+" 100")
				want = append(want, "ENDED "+id+" deleted 0", "")
			}
			burst = append(burst, fmt.Sprintf("watch t%d", i))
			want = append(want, fmt.Sprintf("WATCHING %d", i+2))
		}
		c.send(burst...)
		for _, id := range ids {
			time.Sleep(time.Second)
			other.send("delete " + id)
			other.want("DELETED")
		}
		c.want(want...)
	})
}

// TestWaitBehindQuestions: a wait ends with its job also if it comes in one packet with wait-jobs that only ask.
func TestWaitBehindQuestions(t *testing.T) {
	withUsers(t, user("reader", "default", "read"), func(g *accessHarness) {
		for _, c := range []*client{g.root, g.as("reader")} {
			other := g.as("root")
			goesOn, id := other.putKept(""), other.putKept("")
			c.send("wait-job "+goesOn+" 0", "wait-job 77 0", "wait-job "+id+" 100")
			c.want("TIMED_OUT", "NOT_FOUND")
			c.wantNothing()
			begun := time.Now()
			other.send("delete " + id)
			c.wantWithin(begun, 0, "ENDED "+id+" deleted 0")
			c.want("")
		}
	})
}

// countEndQuestions returns how often the store is asked what has become of a job.
func (h *harness) countEndQuestions() *atomic.Int64 {
	n := new(atomic.Int64)
	h.store.set(func(p *proxyStore) {
		p.onDo = func(b *storage.Batch) {
			for i := range b.Ops {
				if b.Ops[i].Kind == storage.WaitEnded {
					n.Add(1)
				}
			}
		}
	})
	return n
}

// TestWaitJobGivenUp: a client that leaves, and a server that stops, end the wait.
func TestWaitJobGivenUp(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		id := other.putKept("")
		c.send("wait-job " + id + " 1000")
		c.wantNothing()
		c.close()
		synctest.Wait()
		asked := h.countEndQuestions()
		other.send("delete " + id)
		other.want("DELETED")
		if synctest.Wait(); asked.Load() != 0 {
			t.Errorf("the store was asked %d times for a client that had left", asked.Load())
		}

		id = other.putKept("")
		c = h.connect()
		c.send("wait-job " + id + " 1000")
		c.wantNothing()
		if err := h.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-c.ended
		h.reopen(Config{})
	})
}

// TestWaitJobWithoutStore: while the store fails, a wait goes on; what fails at its end is an error.
func TestWaitJobWithoutStore(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		id := other.putKept("")
		c.send("wait-job " + id + " 1000")
		c.wantNothing()
		fail := func(op *storage.Op) error {
			if op.Kind == storage.WaitEnded {
				return errors.New("the store is away")
			}
			return nil
		}
		h.store.set(func(p *proxyStore) { p.fail = fail })
		other.send("delete " + id)
		other.want("DELETED")
		time.Sleep(time.Minute)
		c.wantNothing()
		h.store.set(func(p *proxyStore) { p.fail = nil })
		begun := time.Now()
		c.want("ENDED "+id+" deleted 0", "")
		if took := time.Since(begun); took > queue.RetryEndWait {
			t.Errorf("the answer came after %v", took)
		}
		h.store.set(func(p *proxyStore) { p.fail = fail })
		c.send("wait-job " + id + " 1000")
		c.want("INTERNAL_ERROR")
	})
}

// TestManyWaitJobs: a flush ends the waits of many connections, each with few questions to the store.
func TestManyWaitJobs(t *testing.T) {
	withServer(t, func(h *harness) {
		const jobs, each = 100, 20
		other := h.connect()
		asked := h.countEndQuestions()
		var all [][]*client
		for i := range jobs {
			other.putKept("")
			all = append(all, h.connectMany(each, fmt.Sprintf("wait-job %d 1000", i+1)))
		}
		synctest.Wait()
		other.send("flush-tube default")
		other.want(fmt.Sprintf("FLUSHED %d", jobs))
		for i, clients := range all {
			for _, c := range clients {
				c.want(fmt.Sprintf("ENDED %d deleted 0", i+1), "")
			}
		}
		if n := asked.Load(); n > 2*jobs*each {
			t.Errorf("the store was asked %d times by %d connections", n, jobs*each)
		}
	})
}

// TestPagesOfEnded: stats-ended and list-ended show what a job was, and how it ended.
func TestPagesOfEnded(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("client worker-1", "use t", "watch t")
		c.want("NAMED", "USING t", "WATCHING 2")
		first, second := c.putKept(`key:k group:"a b" meta:m="v w" max:5`), c.putKept("batch:b")
		c.reserve(first)
		time.Sleep(time.Second)
		c.send("release "+first+" 0 0 reason:oops", "reserve-job "+first, "finish "+first+" 3", "abc", "delete "+second)
		c.want("RELEASED", "RESERVED "+first+" 1", "x", "FINISHED", "DELETED")
		for key, want := range map[string]string{
			"id": first, "tube": "t", "how": "done", "key": `"k"`, "group": `"a b"`, "batch": "missing", "deliveries": "2", "failures": "1",
			"holder": `"worker-1"`, "reason": `"oops"`, "meta": `{m: "v w"}`, "result-bytes": "3", "result": `"YWJj"`, "to-tube": "missing",
			"ended-ms": fmt.Sprint(time.Now().UnixMilli()), "until-ms": fmt.Sprint(time.Now().Add(time.Hour).UnixMilli()),
		} {
			if got := c.stat("stats-ended "+first, key); got != want {
				t.Errorf("%s is %s, want %s", key, got, want)
			}
		}
		now := time.Now().UnixMilli()
		line := fmt.Sprintf(`- {id: %s, tube: t, how: deleted, batch: "b", put-ms: %d, ended-ms: %d, until-ms: %d, deliveries: 0, failures: 0, result-bytes: 0}`,
			second, now-1000, now, now+3600_000)
		if n := c.stat("stats", "redstalk-ended-records"); n != "2" {
			t.Errorf("stats counts %s records", n)
		}
		cursor := c.stat("list-ended t 1", "next")
		c.send("list-ended batch:b", "list-ended batch:c", "list-ended other")
		c.wantPages([]string{`next: ""`, "ended:", line}, []string{`next: ""`, "ended: []"}, []string{`next: ""`, "ended: []"})
		c.send("list-ended t 1 " + cursor)
		if got := c.page(); len(got) != 3 || got[0] != `next: ""` || !strings.HasPrefix(got[2], "- {id: "+first+", tube: t, how: done, ") {
			t.Errorf("the second page is %q", got)
		}
		c.send("stats-ended 77", "stats-ended "+c.putKept(""))
		c.want("NOT_FOUND", "NOT_FOUND")
	})
}

// page returns the lines of a page, without the first.
func (c *client) page() (lines []string) {
	c.h.Helper()
	if reply := <-c.lines; !strings.HasPrefix(reply, "OK ") {
		c.h.Fatalf("got %q, want a page", reply)
	}
	c.want("---")
	for line := range c.lines {
		if line == "" {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

// wantPages checks the next pages.
func (c *client) wantPages(pages ...[]string) {
	c.h.Helper()
	for _, want := range pages {
		if got := c.page(); !slices.Equal(got, want) {
			c.h.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// TestPagesOfEndedInBursts: of many pages that a client wants at once the server has one in memory.
func TestPagesOfEndedInBursts(t *testing.T) {
	withServer(t, func(h *harness) {
		var most int
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
				n := 0
				for i := range b.Ops {
					if b.Ops[i].Kind == storage.ListEnded {
						n++
					}
				}
				most = max(most, n)
			}
		})
		c := h.connect()
		c.send(slices.Repeat([]string{"list-ended t 1000"}, 20)...)
		for range 20 {
			c.wantPages([]string{`next: ""`, "ended: []"})
		}
		if most != 1 {
			t.Errorf("%d pages in a batch", most)
		}
	})
}

// TestRightsOnEnded: a client learns of jobs that have ended exactly what it would learn of jobs in their tubes.
func TestRightsOnEnded(t *testing.T) {
	users := user("reader", "post", "look") + user("worker", "post", "work") + user("other", "a", "look, work")
	withUsers(t, users, func(g *accessHarness) {
		g.root.send("use post")
		g.root.want("USING post")
		ended, waiting := g.root.putKept(""), g.root.putKept("")
		g.root.send("delete " + ended)
		g.root.want("DELETED")
		for who, want := range map[string][]string{
			"reader": {"ENDED " + ended + " deleted 0", "", "TIMED_OUT", "NOT_FOUND"},
			"worker": {"FORBIDDEN", "FORBIDDEN", "NOT_FOUND"},
			"other":  {"NOT_FOUND", "NOT_FOUND", "NOT_FOUND"},
		} {
			c := g.as(who)
			c.send("wait-job "+ended+" 5", "wait-job "+waiting+" 5", "wait-job 77 5")
			c.want(want...)
			c.send("stats-ended " + ended)
			if who == "reader" {
				c.page()
			} else {
				c.want(want[0])
			}
			c.close()
		}
	})
}

// TestWaitJobOfLostRight: a client that loses the right to read while it waits learns nothing, and one whose user is removed is gone.
func TestWaitJobOfLostRight(t *testing.T) {
	reader := user("reader", "post", "look")
	withUsers(t, reader+user("gone", "post", "look"), func(g *accessHarness) {
		g.root.send("use post")
		g.root.want("USING post")
		id := g.root.putKept("")
		c, gone := g.as("reader"), g.as("gone")
		for _, c := range []*client{c, gone} {
			c.send("wait-job "+id+" 1000", "list-tube-used")
			c.wantNothing()
		}
		g.rewrite(user("reader", "a", "look"))
		<-gone.ended
		g.root.send("delete " + id)
		c.want("NOT_FOUND", "USING default")
		c.close()
	})
}

// TestEndedOfBatch: the records of a batch are those of tubes that the client may read.
func TestEndedOfBatch(t *testing.T) {
	app := strings.Replace(user("app", "post", "look, put"), "rights: [", "rights: [{tubes: [secret], may: [put]}, ", 1)
	withUsers(t, app+user("other", "post", "look"), func(g *accessHarness) {
		c, other := g.as("app"), g.as("other")
		for _, name := range []string{"post", "secret"} {
			c.send("use " + name)
			c.want("USING " + name)
			c.putKept("batch:b")
		}
		g.root.send("flush-tube post", "flush-tube secret", "list-ended batch:app~b")
		g.root.want("FLUSHED 1", "FLUSHED 1")
		if page := g.root.page(); len(page) != 4 {
			t.Errorf("root sees %q", page)
		}
		c.send("list-ended batch:b")
		if page := c.page(); len(page) != 3 || !strings.Contains(page[2], "tube: post") {
			t.Errorf("app sees %q", page)
		}
		c.send("list-ended secret", "list-ended batch:"+strings.Repeat("n", protocol.MaxBatchName))
		c.want("FORBIDDEN", "BAD_FORMAT")
		other.send("list-ended batch:app~b")
		other.want("FORBIDDEN")
		c.close()
		other.close()
	})
}

// TestWaitJobsOnTCP: many waits need no goroutine each, and a client that closes its half is answered at once.
func TestWaitJobsOnTCP(t *testing.T) {
	const n = 1000
	s, dial := onTCP(t, Config{})
	defer s.Shutdown(context.Background())
	conn, r := dial()
	ask := func(command, want string) {
		t.Helper()
		fmt.Fprint(conn, command, "\r\n")
		wantLine(t, r, want)
	}
	ask("put 0 0 60 1 keep:1h\r\nx", "INSERTED 1")
	before := runtime.NumGoroutine()
	var all []*protoclient.Conn
	for range n {
		conn, r := dial()
		fmt.Fprint(conn, "list-tube-used\r\nwait-job 1 1000\r\n")
		wantLine(t, r, "USING default")
		all = append(all, r)
	}
	if more := runtime.NumGoroutine() - before; runtime.GOOS == "linux" && more > n/10 {
		t.Errorf("%d waits have %d goroutines", n, more)
	}
	half, r2 := dial()
	fmt.Fprint(half, "wait-job 1 1000\r\nlist-tube-used\r\n")
	half.(*net.TCPConn).CloseWrite()
	wantLine(t, r2, "TIMED_OUT")
	wantLine(t, r2, "USING default")
	ask("reserve", "RESERVED 1 1")
	wantLine(t, r, "x")
	ask("finish 1 2\r\nok", "FINISHED")
	for _, r := range all {
		wantLine(t, r, "ENDED 1 done 2")
		wantLine(t, r, "ok")
	}
}
