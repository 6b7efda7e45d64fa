package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/inspect"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/worker"
)

// The books of a test: what was acknowledged, and what was handled when.
type books struct {
	mu      sync.Mutex
	put     map[string]bool // acknowledged
	unknown int             // puts with an unknown outcome
	handled map[string][]span
}

// A span is the time in which a handler held a job: until it returned, or its context ended.
type span struct{ begin, end time.Time }

// handler handles jobs and enters them in the books.
func (b *books) handler(ctx context.Context, job *worker.Job) error {
	begin := time.Now()
	d := rand.N(40 * time.Millisecond)
	if rand.N(300) == 0 {
		d = chaosTTR + time.Second // needs a heartbeat
	}
	end := time.After(d)
	var err error
	select {
	case <-end:
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handled[string(job.Body)] = append(b.handled[string(job.Body)], span{begin, time.Now()})
	return err
}

const chaosTTR = 3 * time.Second

// A scale says how much happens in a test: the jobs, the longest gap between two of a producer, and
// the pause between disasters.
type scale struct {
	jobs       int
	gap, pause time.Duration
}

// produce puts jobs from a few goroutines.
func (b *books) produce(t *testing.T, c *client.Client, by scale, leases bool) {
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for i := p; i < by.jobs && !t.Failed(); i += 4 {
				b.putOne(t, c, fmt.Sprint("job-", i), leases)
				time.Sleep(rand.N(by.gap))
			}
		})
	}
	wg.Wait()
}

// putOne puts a job until that is acknowledged, or its outcome is unknown.
func (b *books) putOne(t *testing.T, c *client.Client, body string, leases bool) {
	opts := []client.PutOption{client.TTR(chaosTTR)}
	if leases {
		opts = append(opts, client.Key(body), client.KeyTTL(time.Hour))
	}
	for range 20 {
		_, err := c.Put(t.Context(), "chaos", []byte(body), opts...)
		b.mu.Lock()
		b.put[body] = err == nil
		if errors.Is(err, client.ErrUnknownOutcome) && !leases {
			b.unknown++
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		if err == nil {
			return
		}
	}
	t.Errorf("cannot put %s", body)
}

// clock returns the time of the day.
func clock(t time.Time) string { return t.Format("15:04:05.000") }

// audit compares the books when nothing is left on the server.
func (b *books) audit(t *testing.T, leases bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again, overlaps, lost := 0, 0, 0
	for body, acknowledged := range b.put {
		spans := b.handled[body]
		if acknowledged && len(spans) == 0 {
			lost++
		}
		again += max(len(spans)-1, 0)
		for i, s := range spans {
			for _, other := range spans[:i] {
				if s.begin.Before(other.end) && other.begin.Before(s.end) {
					overlaps++
					t.Logf("%s was handled from %v to %v, and from %v to %v", body, clock(s.begin), clock(s.end), clock(other.begin), clock(other.end))
				}
			}
		}
	}
	t.Logf("%d jobs put, %d with an unknown outcome, %d handled, %d deliveries more", len(b.put), b.unknown, len(b.handled), again)
	if lost > 0 {
		t.Errorf("%d jobs are lost", lost)
	}
	if overlaps > 0 && leases { // without leases, the server gives a job on before its handler can know
		t.Errorf("%d jobs were handled twice while they were held", overlaps)
	}
	if len(b.handled) == 0 {
		t.Error("nothing was handled")
	}
}

// disasters are what happens to each kind of server, in turn.
func disasters(on *testserver.Cluster, proxies []*testserver.Proxy) []func(*testing.T) {
	cut := func(*testing.T) {
		for _, p := range proxies {
			p.Cut()
		}
	}
	away := func(*testing.T) {
		proxies[0].Shut(true)
		proxies[0].Cut()
		time.Sleep(300 * time.Millisecond)
		proxies[0].Shut(false)
	}
	freeze := func(*testing.T) {
		i := rand.IntN(len(on.Servers))
		on.Servers[i].Freeze()
		time.Sleep(1200 * time.Millisecond)
		on.Servers[i].Thaw()
	}
	all := []func(*testing.T){cut, freeze, away}
	if on.Restart != nil {
		all = append(all, func(t *testing.T) {
			i := rand.IntN(len(on.Servers))
			on.Servers[i].Kill()
			time.Sleep(200 * time.Millisecond)
			on.Restart(t, i)
		})
	}
	return all
}

// TestChaos: while servers are killed, frozen and cut off, every job that was acknowledged is handled, and
// none by two handlers that both hold it.
func TestChaos(t *testing.T) {
	testserver.CheckLeaks(t)
	t.Parallel()
	by := scale{10000, 3 * time.Millisecond, 800 * time.Millisecond}
	if testing.Short() { // disasters while jobs are put as well
		by = scale{300, 10 * time.Millisecond, 150 * time.Millisecond}
	}
	for name, startServers := range testserver.Engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := startServers(t)
			var proxies []*testserver.Proxy
			addrs := ""
			for _, addr := range on.Addrs {
				proxies = append(proxies, testserver.NewProxy(t, addr))
				addrs += proxies[len(proxies)-1].Addr + ","
			}
			chaos(t, on, proxies, addrs, by)
		})
	}
}

func chaos(t *testing.T, on *testserver.Cluster, proxies []*testserver.Proxy, addrs string, by scale) {
	quick := []client.Option{client.ReplyTimeout(time.Second), client.DialTimeout(500 * time.Millisecond), client.Wait(30 * time.Second)}
	c := client.New(addrs, quick...)
	defer c.Close()
	b := &books{put: map[string]bool{}, handled: map[string][]span{}}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	config := worker.Config{Concurrency: 40, Logger: quiet, Backoff: worker.Intervals(make([]time.Duration, 1000)...)}
	stop := start(t, c, config, handle("chaos", b.handler))
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		b.produce(t, c, by, on.Leases())
	}()
	all := disasters(on, proxies)
	for i := 0; ; i++ {
		select {
		case <-produced:
		case <-time.After(by.pause):
			all[i%len(all)](t)
			continue
		}
		if i >= len(all) {
			break
		}
		all[i](t)
	}
	awaitEmpty(t, c)
	if err := stop(); err != nil {
		t.Error(err)
	}
	b.audit(t, on.Leases())
}

// awaitEmpty waits until the tube has no jobs.
func awaitEmpty(t *testing.T, c *client.Client) {
	var tube *inspect.Tube
	var err error
	for range 600 {
		tube, err = inspect.New(c).Tube(t.Context(), "chaos")
		if err == nil && tube.Ready+tube.Reserved+tube.Delayed == 0 {
			if tube.Buried > 0 {
				t.Errorf("%d jobs are buried", tube.Buried)
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("jobs are left: %+v, %v", tube, err)
}
