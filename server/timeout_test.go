package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
)

// dueInASecond are ways by which a job becomes ready after a second. Each returns the tube that a client
// has to watch to get the job.
var dueInASecond = map[string]func(h *harness) (tube string){
	"put with delay": func(h *harness) string {
		h.connect().sendRaw("put 0 1 60 1\r\nx\r\n")
		return "default"
	},
	"release with delay": func(h *harness) string {
		c := h.connect()
		c.put(60, "x")
		c.send("reserve", "release 1 0 1")
		c.want("RESERVED 1 1", "x", "RELEASED")
		return "default"
	},
	"pause": func(h *harness) string {
		c := h.connect()
		c.send("use t")
		c.want("USING t")
		c.put(60, "x")
		c.send("pause-tube t 1")
		c.want("PAUSED")
		return "t"
	},
	"TTR": func(h *harness) string {
		c := h.connect()
		c.put(1, "x")
		c.send("reserve")
		c.want("RESERVED 1 1", "x")
		return "default"
	},
}

// TestDueAtTheTimeout: a job that becomes due before the timeout of a wait is handed out, even if the
// store needs longer for that.
func TestDueAtTheTimeout(t *testing.T) {
	for name, makeDue := range dueInASecond {
		for _, within := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", within), func(t *testing.T) {
				withServer(t, func(h *harness) {
					tube := makeDue(h)
					synctest.Wait()
					h.store.set(func(p *proxyStore) {
						p.tick = func(tick func() (time.Duration, error)) (time.Duration, error) {
							time.Sleep(5 * time.Millisecond)
							return tick()
						}
					})
					time.Sleep(within)
					c := h.connect()
					c.send("watch "+tube, "reserve-with-timeout 1")
					<-c.lines
					c.want("RESERVED 1 1", "x")
				})
			})
		}
	}
}

// TestPartialTickAtTheLimit: a Tick that has made only some of the due jobs ready does not end a wait.
func TestPartialTickAtTheLimit(t *testing.T) {
	withServer(t, func(h *harness) {
		tube, due := dueInASecond["put with delay"](h), time.Now().Add(time.Second)
		synctest.Wait()
		partial := 0
		h.store.set(func(p *proxyStore) {
			p.tick = func(tick func() (time.Duration, error)) (time.Duration, error) {
				if time.Now().Before(due) {
					return tick()
				}
				if partial++; partial < 5 {
					time.Sleep(2 * time.Millisecond)
					return 0, nil
				}
				return tick()
			}
		})
		c := h.connect()
		c.send("watch "+tube, "reserve-with-timeout 1")
		c.want("WATCHING 1", "RESERVED 1 1", "x")
	})
}

// TestTimeoutWithoutTick: a Tick that fails or hangs does not delay the timeout of a wait for long.
func TestTimeoutWithoutTick(t *testing.T) {
	for name, tick := range map[string]func(func() (time.Duration, error)) (time.Duration, error){
		"fails":      func(func() (time.Duration, error)) (time.Duration, error) { return 0, errors.New("no") },
		"never ends": func(func() (time.Duration, error)) (time.Duration, error) { time.Sleep(time.Minute); return 0, nil },
		"never enough": func(func() (time.Duration, error)) (time.Duration, error) {
			time.Sleep(time.Millisecond)
			return 0, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, func(h *harness) {
				h.store.set(func(p *proxyStore) { p.tick = tick })
				begun := time.Now()
				all := h.connectMany(10, "reserve-with-timeout 3")
				for _, c := range all {
					c.want("TIMED_OUT")
				}
				if took := time.Since(begun); took < 3*time.Second || took > 3*time.Second+queue.TickPatience+10*time.Millisecond {
					t.Errorf("answered after %v", took)
				}
			})
		})
	}
}

// TestTimeoutWithDeadStore: if the store does not answer, waiters that are not in a batch time out in
// time, and the others when the store answers. No reserve is answered twice.
func TestTimeoutWithDeadStore(t *testing.T) {
	withServer(t, func(h *harness) {
		all := h.connectMany(2*queue.MaxTakes, "reserve-with-timeout 3")
		synctest.Wait()
		answers := make(chan struct{})
		h.store.set(func(p *proxyStore) {
			p.onDo = func(b *storage.Batch) {
				if b.Ops[0].Kind == storage.Take {
					<-answers
				}
			}
		})
		time.Sleep(3*time.Second + queue.TickPatience + 2*queue.DispatchPatience)
		synctest.Wait()
		answered := 0
		for _, c := range all {
			answered += len(c.lines)
		}
		if least := len(all) - queue.MaxTakes; answered < least || answered == len(all) {
			t.Errorf("%d of %d were answered, want at least %d", answered, len(all), least)
		}
		close(answers)
		for _, c := range all {
			c.want("TIMED_OUT")
		}
		for _, c := range all {
			c.wantNothing()
		}
	})
}

// TestManyTimeoutsAtOnce: many waits that time out at the same time are served in batches of limited size,
// and get the jobs that are due at that time, one each.
func TestManyTimeoutsAtOnce(t *testing.T) {
	const n, jobs = 1500, 700
	withServer(t, func(h *harness) {
		h.connect().sendRaw(strings.Repeat("put 0 1 60 1\r\nx\r\n", jobs))
		synctest.Wait()
		h.store.set(func(p *proxyStore) { p.takes = 0 })
		all := h.connectMany(n, "reserve-with-timeout 1")
		seen := make(map[string]bool)
		for _, c := range all {
			line := <-c.lines
			if line == "TIMED_OUT" {
				continue
			}
			if seen[line] || !strings.HasPrefix(line, "RESERVED ") {
				t.Fatalf("a waiter got %q, perhaps not the only one", line)
			}
			seen[line] = true
			c.want("x")
		}
		if len(seen) != jobs {
			t.Errorf("%d jobs were handed out, want %d", len(seen), jobs)
		}
		if takes, _, largest := h.store.counts(); largest > queue.MaxTakes || takes > 3*n {
			t.Errorf("there were %d takes, up to %d in a batch", takes, largest)
		}
	})
}

// TestGoneAtTheTimeout: a client that has gone when the last take for it is made gets no job.
func TestGoneAtTheTimeout(t *testing.T) {
	withServer(t, func(h *harness) {
		gone, other := h.connect(), h.connect()
		gone.send("reserve-with-timeout 1")
		synctest.Wait()
		h.store.set(func(p *proxyStore) {
			p.tick = func(tick func() (time.Duration, error)) (time.Duration, error) {
				time.Sleep(20 * time.Millisecond)
				return tick()
			}
		})
		time.Sleep(time.Second + 10*time.Millisecond) // the timeout has passed
		gone.close()
		synctest.Wait()
		other.put(60, "x")
		time.Sleep(time.Second)
		other.send("reserve-with-timeout 0")
		other.want("RESERVED 1 1", "x")
		if got := other.stat("stats-job 1", "reserves"); got != "1" {
			t.Errorf("%s reserves, want 1", got)
		}
	})
}

// TestShutdownAtTheTimeout: a wait whose timeout has passed does not delay Shutdown.
func TestShutdownAtTheTimeout(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.send("reserve-with-timeout 1")
		synctest.Wait()
		h.store.set(func(p *proxyStore) {
			p.tick = func(func() (time.Duration, error)) (time.Duration, error) {
				time.Sleep(100 * time.Millisecond)
				return time.Second, nil
			}
		})
		time.Sleep(time.Second + 10*time.Millisecond)
		if err := h.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-c.ended
		h.reopen(Config{})
	})
}
