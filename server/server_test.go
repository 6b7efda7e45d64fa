package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/server/schedule"
	"redstalk/storage"
)

func TestFirstComeFirstServed(t *testing.T) {
	withServer(t, func(h *harness) {
		producer := h.connect()
		var waiters []*client
		for i := range 200 {
			c := h.connect()
			if i%3 == 0 {
				c.send("watch other")
				c.want("WATCHING 2")
			}
			c.send("reserve")
			synctest.Wait() // until it waits
			waiters = append(waiters, c)
		}
		if got := producer.stat("stats-tube default", "current-waiting"); got != "200" {
			t.Errorf("current-waiting is %s, want 200", got)
		}
		for i, c := range waiters {
			id := producer.put(60, fmt.Sprint("job ", i))
			c.want("RESERVED "+id+" "+fmt.Sprint(len(fmt.Sprint("job ", i))), fmt.Sprint("job ", i))
		}
		for _, c := range waiters {
			c.wantNothing()
			c.close()
		}
	})
}

// TestBurstForWaiters: of many waiters each gets one of many jobs that are put at once.
func TestBurstForWaiters(t *testing.T) {
	withServer(t, func(h *harness) {
		n := 1000
		if testing.Short() {
			n = 200
		}
		producer := h.connect()
		var waiters []*client
		for range n {
			c := h.connect()
			c.send("reserve")
			waiters = append(waiters, c)
		}
		synctest.Wait()
		producer.sendRaw(strings.Repeat("put 0 0 60 1\r\nx\r\n", n))
		seen := make(map[string]bool)
		for _, c := range waiters {
			line := <-c.lines
			if seen[line] || !strings.HasPrefix(line, "RESERVED ") {
				t.Fatalf("a waiter got %q, perhaps not the only one", line)
			}
			seen[line] = true
			c.want("x")
		}
	})
}

func TestReserveTimeouts(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		begun := time.Now()
		c.send("reserve-with-timeout 0")
		c.wantWithin(begun, 0, "TIMED_OUT")
		c.send("reserve-with-timeout 30")
		c.wantWithin(begun, 30*time.Second, "TIMED_OUT")
		if got := c.stat("stats", "current-waiting"); got != "0" {
			t.Errorf("current-waiting is %s after all was answered", got)
		}
	})
}

func TestDeadlineSoon(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		id := c.put(3, "x")
		c.send("reserve")
		c.want("RESERVED "+id+" 1", "x")
		begun := time.Now()
		c.send("reserve")
		c.wantWithin(begun, 2*time.Second, "DEADLINE_SOON")
		c.send("reserve-with-timeout 0")
		c.wantWithin(begun, 2*time.Second, "DEADLINE_SOON")
		c.send("touch "+id, "reserve-with-timeout 1")
		c.want("TOUCHED")
		c.wantWithin(begun, 3*time.Second, "TIMED_OUT")
		c.send("reserve-with-timeout 100")
		c.wantWithin(begun, 4*time.Second, "DEADLINE_SOON")
		other.send("reserve")
		other.want("RESERVED "+id+" 1", "x")
		if took := time.Since(begun); took < 5*time.Second || took > 5*time.Second+5*time.Millisecond {
			t.Errorf("the job was taken back after %v, want 5s", took)
		}
	})
}

// TestManyIdleHolders: all holders that do nothing lose their jobs at the deadline. beanstalkd fails this
// test.
func TestManyIdleHolders(t *testing.T) {
	withServer(t, func(h *harness) {
		producer := h.connect()
		for range 60 {
			producer.put(5, "x")
			c := h.connect()
			c.send("reserve")
			<-c.lines
		}
		time.Sleep(4999 * time.Millisecond)
		if got := producer.stat("stats", "current-jobs-reserved"); got != "60" {
			t.Errorf("just before the deadline %s are reserved, want 60", got)
		}
		time.Sleep(5 * time.Millisecond)
		if got := producer.stat("stats", "current-jobs-ready"); got != "60" {
			t.Errorf("after the deadline %s are ready, want 60", got)
		}
	})
}

// TestDelayLateness: many different delays all end on time.
func TestDelayLateness(t *testing.T) {
	withServer(t, func(h *harness) {
		producer, worker := h.connect(), h.connect()
		due := make(map[string]time.Time)
		for i := range 100 {
			time.Sleep(7 * time.Millisecond)
			producer.sendRaw(fmt.Sprintf("put 0 %d 60 1\r\nx\r\n", 1+i%3))
			id := strings.TrimPrefix(<-producer.lines, "INSERTED ")
			due[id] = time.Now().Add(time.Duration(1+i%3) * time.Second)
		}
		for range 100 {
			worker.send("reserve")
			id := strings.Fields(<-worker.lines)[1]
			worker.want("x")
			if late := time.Since(due[id]); late > 2*time.Millisecond {
				// Jobs that were due before the worker asked waited for it.
				if due[id].After(time.Now().Add(-time.Millisecond)) {
					t.Errorf("job %s is %v late", id, late)
				}
			} else if late < 0 {
				t.Errorf("job %s is early by %v", id, -late)
			}
		}
	})
}

// TestPipelinedReserves: reserves and other commands that a connection sends at once are answered in
// order, as jobs come.
func TestPipelinedReserves(t *testing.T) {
	withServer(t, func(h *harness) {
		c, producer := h.connect(), h.connect()
		c.send("reserve", "reserve-with-timeout 10", "use a-tube", "reserve-with-timeout 5", "list-tube-used")
		c.wantNothing()
		producer.put(60, "one")
		c.want("RESERVED 1 3", "one")
		c.wantNothing()
		time.Sleep(9 * time.Second) // the wait of the second reserve began with the first answer
		producer.put(60, "two")
		c.want("RESERVED 2 3", "two", "USING a-tube")
		begun := time.Now()
		c.wantWithin(begun, 5*time.Second, "TIMED_OUT")
		c.want("USING a-tube")
	})
}

// TestHeldCommandKeepsItsName: bytes that are read while a command is held behind a waiting reserve do not
// change the name in the command.
func TestHeldCommandKeepsItsName(t *testing.T) {
	withServer(t, func(h *harness) {
		c, producer := h.connect(), h.connect()
		c.send("reserve", "use a-tube")
		c.wantNothing() // it was read, and is held
		c.send(strings.Repeat("x", 100), "list-tube-used")
		c.wantNothing() // these were read into the same buffer
		producer.put(60, "one")
		c.want("RESERVED 1 3", "one", "USING a-tube", "UNKNOWN_COMMAND", "USING a-tube")
	})
}

// TestPipelinedReservesGetAllJobs: once the first of several reserves in a burst has waited, the takes of
// all later ones are repeated.
func TestPipelinedReservesGetAllJobs(t *testing.T) {
	withServer(t, func(h *harness) {
		c, producer := h.connect(), h.connect()
		c.send("reserve", "reserve", "reserve", "reserve")
		c.wantNothing()
		begun := time.Now()
		producer.sendRaw(strings.Repeat("put 0 0 60 1\r\nx\r\n", 4))
		for id := range 4 {
			c.want(fmt.Sprintf("RESERVED %d 1", id+1), "x")
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("it took %v, as if wake-ups were lost", took)
		}
	})
}

// TestSecondReserveKnowsTheFirstJob: the second of two pipelined reserves is answered DEADLINE_SOON because
// of the job that the first one gets after a wait.
func TestSecondReserveKnowsTheFirstJob(t *testing.T) {
	withServer(t, func(h *harness) {
		c, producer := h.connect(), h.connect()
		c.send("reserve", "reserve")
		c.wantNothing()
		producer.put(1, "x")
		c.want("RESERVED 1 1", "x", "DEADLINE_SOON")
	})
}

// TestMoreThanTheBufferWhileWaiting: while it waits, a client can send more than the server reads ahead.
func TestMoreThanTheBufferWhileWaiting(t *testing.T) {
	withServer(t, func(h *harness) {
		c, producer := h.connect(), h.connect()
		const n = 20_000
		go io.WriteString(c.conn, "reserve\r\n"+strings.Repeat("list-tube-used\r\n", n))
		c.wantNothing()
		producer.put(60, "x")
		c.want("RESERVED 1 1", "x")
		for range n {
			c.want("USING default")
		}
	})
}

func TestTimeoutWithFullBuffer(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		begun := time.Now()
		go io.WriteString(c.conn, "reserve-with-timeout 7\r\n"+strings.Repeat("list-tube-used\r\n", 10_000))
		c.wantWithin(begun, 7*time.Second, "TIMED_OUT")
	})
}

func TestConnectionGone(t *testing.T) {
	withServer(t, func(h *harness) {
		holder, waiter, other := h.connect(), h.connect(), h.connect()
		other.put(60, "x")
		holder.send("reserve", "use somewhere", "watch somewhere")
		holder.want("RESERVED 1 1", "x", "USING somewhere", "WATCHING 2")
		waiter.send("reserve")
		waiter.wantNothing()
		holder.close()
		waiter.want("RESERVED 1 1", "x")
		if got := other.ask("stats-tube somewhere"); got != "NOT_FOUND" {
			t.Errorf("the tube of a connection that is gone: %s", got)
		}
		for key, want := range map[string]string{"reserves": "2", "timeouts": "0", "releases": "0"} {
			if got := other.stat("stats-job 1", key); got != want {
				t.Errorf("%s: %s, want %s", key, got, want)
			}
		}
	})
}

// TestGoneWhileWaiting: a waiter that has disconnected gets no job.
func TestGoneWhileWaiting(t *testing.T) {
	withServer(t, func(h *harness) {
		gone, waiter, producer := h.connect(), h.connect(), h.connect()
		gone.send("reserve")
		gone.wantNothing()
		waiter.send("reserve")
		waiter.wantNothing()
		gone.close()
		producer.put(60, "x")
		waiter.want("RESERVED 1 1", "x")
		if got := producer.stat("stats-tube default", "current-waiting"); got != "0" {
			t.Errorf("current-waiting is %s, want 0", got)
		}
	})
}

func TestLostWakeUp(t *testing.T) {
	withServer(t, func(h *harness) {
		waiter, producer := h.connect(), h.connect()
		waiter.send("reserve")
		waiter.wantNothing()
		h.store.set(func(p *proxyStore) { p.dropWakeUps = true })
		begun := time.Now()
		producer.put(60, "x")
		waiter.want("RESERVED 1 1")
		if took := time.Since(begun); took > queue.RetryEvery+10*time.Millisecond {
			t.Errorf("served %v after the lost wake-up, want at most %v", took, queue.RetryEvery)
		}
	})
}

func TestStoreFails(t *testing.T) {
	cause := errors.New("the disk is on fire")
	withServer(t, func(h *harness) {
		waiter, c := h.connect(), h.connect()
		waiter.send("reserve")
		waiter.wantNothing()
		h.store.set(func(p *proxyStore) { p.fail = func(*storage.Op) error { return cause } })
		for _, command := range []string{"delete 1", "peek-ready", "stats", "reserve", "reserve-with-timeout 3"} {
			if got := c.ask(command); got != "INTERNAL_ERROR" {
				t.Errorf("%s: %s", command, got)
			}
		}
		h.store.set(func(p *proxyStore) {
			p.fail = func(*storage.Op) error { return fmt.Errorf("%w: %w", storage.ErrNoSpace, cause) }
		})
		c.sendRaw("put 0 0 60 1\r\nx\r\n")
		c.want("OUT_OF_MEMORY")
		h.store.set(func(p *proxyStore) {
			p.fail = func(*storage.Op) error { return fmt.Errorf("%w: %w", storage.ErrTooBig, cause) }
		})
		c.sendRaw("put 0 0 60 1\r\nx\r\n")
		c.want("JOB_TOO_BIG")
		time.Sleep(3 * time.Second) // the dispatcher fails meanwhile
		waiter.wantNothing()
		h.store.set(func(p *proxyStore) { p.fail = nil })
		id := c.put(60, "x") // replies and commands still correspond
		waiter.want("RESERVED "+id+" 1", "x")
	})
}

// TestQuotaIsLogged: the log says that a quota has refused a put, not that the store is full; and which tube
// it is, as far as the command names one.
func TestQuotaIsLogged(t *testing.T) {
	withLimits(t, Config{}, func(h *harness, log *logBuffer) {
		c := h.connect()
		for _, command := range []string{"set-policy t quota-jobs:1", "use t"} {
			c.ask(command)
		}
		c.put(60, "x")
		c.sendRaw("put 0 0 60 1\r\nx\r\n")
		c.want("OUT_OF_MEMORY")
		if log.count("no space") > 0 || log.count(`tube=t`) != 1 || log.count("has reached its quota") != 1 {
			t.Errorf("%s", &log.text)
		}
		c.sendRaw("set-schedule s t 0 60 1 every:1h\r\nx\r\n")
		c.want("SET")
		if got := c.ask("run-schedule s"); got != "OUT_OF_MEMORY" {
			t.Error(got)
		}
	})
}

// TestTakeFailsForWaiter: if the take of the dispatcher fails, the waiter gets the job when the store works
// again.
func TestTakeFailsForWaiter(t *testing.T) {
	withServer(t, func(h *harness) {
		waiter, c := h.connect(), h.connect()
		waiter.send("reserve")
		waiter.wantNothing()
		h.store.set(func(p *proxyStore) {
			p.fail = func(op *storage.Op) error {
				if op.Kind == storage.Take {
					return storage.ErrUnavailable
				}
				return nil
			}
		})
		c.put(60, "x")
		waiter.wantNothing()
		h.store.set(func(p *proxyStore) { p.fail = nil })
		begun := time.Now()
		waiter.want("RESERVED 1 1", "x")
		if took := time.Since(begun); took > queue.RetryEvery {
			t.Errorf("served after %v", took)
		}
	})
}

func TestOneBatchPerBurst(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("list-tube-used")
		c.want("USING default")
		before := h.store.batches
		c.sendRaw(strings.Repeat("put 0 0 60 1\r\nx\r\n", 20) + strings.Repeat("reserve\r\n", 20))
		for range 20 {
			<-c.lines
		}
		for range 20 {
			<-c.lines
			<-c.lines
		}
		if got := h.store.batches - before; got != 1 {
			t.Errorf("40 pipelined commands took %d batches, want 1", got)
		}
	})
}

// TestCountersInOrder: stats counts the commands before it in the pipeline, and not those after it.
func TestCountersInOrder(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.sendRaw("put 0 0 60 1\r\nx\r\n")
		c.want("INSERTED 1")
		c.send("stats", "list-tubes", "peek 1")
		var page []string
		for line := range c.lines {
			if line == "" {
				break
			}
			page = append(page, line)
		}
		text := strings.Join(page, "\n")
		for _, want := range []string{"cmd-put: 1", "cmd-stats: 1", "cmd-list-tubes: 0", "cmd-peek: 0"} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("the page lacks %q", want)
			}
		}
	})
}

func TestDrain(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.put(60, "x")
		h.queue.Drain()
		c.sendRaw("put 0 0 60 1\r\nx\r\n")
		c.want("DRAINING")
		c.sendRaw("put 0 0 60 99999\r\n" + strings.Repeat("x", 99999) + "\r\n")
		c.want("JOB_TOO_BIG")
		c.send("reserve")
		c.want("RESERVED 1 1", "x")
		if got := c.stat("stats", "draining"); got != "true" {
			t.Errorf("draining: %s", got)
		}
	})
}

func TestShutdown(t *testing.T) {
	withServer(t, func(h *harness) {
		holder, waiter, idle := h.connect(), h.connect(), h.connect()
		id := holder.put(60, "x")
		holder.send("reserve")
		holder.want("RESERVED "+id+" 1", "x")
		waiter.send("reserve")
		waiter.wantNothing()
		if err := h.server.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		for _, c := range []*client{holder, waiter, idle} {
			<-c.ended
		}
		ops := []storage.Op{{Kind: storage.JobStats, ID: 1}}
		storage.DoWait(h.store, ops)
		if got := ops[0].Answer.Job.State.String(); got != "reserved" { // until the store ends: then the reservation does not count
			t.Errorf("a job that was held is %s", got)
		}
		ours, theirs := net.Pipe()
		h.server.ServeConn(theirs) // returns at once: the server is closed
		ours.Close()
		h.reopen(Config{}) // withServer shuts it down
	})
}

// TestShutdownWhileWaiting: neither a full read buffer nor a reserve that is beginning to wait delays
// Shutdown.
func TestShutdownWhileWaiting(t *testing.T) {
	withServer(t, func(h *harness) {
		full := h.connect()
		go io.WriteString(full.conn, "reserve\r\n"+strings.Repeat("list-tube-used\r\n", 10_000))
		synctest.Wait()
		var others []*client
		for range 50 {
			c := h.connect()
			go io.WriteString(c.conn, "reserve\r\n")
			others = append(others, c)
		}
		begun := time.Now()
		if err := h.server.Shutdown(context.Background()); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("shutdown took %v", took)
		}
		for _, c := range append(others, full) {
			<-c.ended
		}
		h.reopen(Config{})
	})
}

// TestShutdownOfADeadStore: a store that never answers does not delay Shutdown for long.
func TestShutdownOfADeadStore(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.put(60, "x")
		never := make(chan struct{})
		h.store.set(func(p *proxyStore) { p.fail = func(*storage.Op) error { <-never; return nil } })
		c.send("reserve")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := h.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		if took := time.Since(begun); took > time.Second+storeGrace {
			t.Errorf("shutdown took %v", took)
		}
		close(never)
		h.store.set(func(p *proxyStore) { p.fail = nil })
		synctest.Wait()
		h.reopen(Config{})
	})
}

// TestShutdownIsBounded: a client that does not read its replies delays Shutdown only until its context
// ends.
func TestShutdownIsBounded(t *testing.T) {
	withServer(t, func(h *harness) {
		ours, theirs := net.Pipe()
		go h.server.ServeConn(theirs)
		go ours.Write([]byte(strings.Repeat("stats\r\n", 1000)))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		if err := h.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("shutdown took %v, want 3s", took)
		}
		h.reopen(Config{})
	})
}

func TestQuoteStats(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		for quote, want := range map[bool]string{false: "default", true: `"default"`} {
			h.server.config.QuoteStats = quote
			if got := c.stat("stats-tube default", "name"); got != want {
				t.Errorf("quoting %v: name is %s, want %s", quote, got, want)
			}
		}
	})
}

// failingListener fails to accept some times, and then works.
type failingListener struct {
	net.Listener
	failures int
}

func (l *failingListener) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestOutOfDescriptors: if accepting fails for a while, the server retries with delays.
func TestOutOfDescriptors(t *testing.T) {
	withServer(t, func(h *harness) {
		real, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		real.Close() // accepting fails for good after the temporary failures
		begun := time.Now()
		err = h.server.Serve(&failingListener{real, 10})
		if err == nil || isTemporary(err) {
			t.Errorf("serve: %v", err)
		}
		if took := time.Since(begun); took < time.Second || took > 10*time.Second {
			t.Errorf("ten failures took %v", took)
		}
	})
}

// TestVersion: version is the number of beanstalkd's version alone, since clients compare it as a number.
// redstalk's version is in the last line but one, before the database of time zones.
func TestVersion(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		for quote, want := range map[bool]string{false: "redstalk-version: 0.1.0-test", true: `redstalk-version: "0.1.0-test"`} {
			h.server.config.QuoteStats = quote
			if got := c.stat("stats", "version"); got != `"1.13"` {
				t.Errorf("version: %s", got)
			}
			c.send("stats")
			lines := []string{""}
			for line := range c.lines {
				if line == "" {
					break
				}
				lines = append(lines, line)
			}
			last := lines[len(lines)-2:]
			if last[0] != want || last[1] != fmt.Sprintf("redstalk-time-zones: %q", schedule.ZoneDatabase()) {
				t.Errorf("the last lines are %q, want %s and the time zones", last, want)
			}
		}
	})
}
