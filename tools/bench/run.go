package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A run is one load on one server, from the first connection to the clean end.
type run struct {
	load load
	target
	fixture *fixture
	wires   []*wire
	flow    *flow // of paired loads only
	made    []*cycler

	began    time.Time
	deadline atomic.Int64 // ns since began; no new cycle starts after it
	quitOnce sync.Once
	quit     chan struct{}
	quitting atomic.Bool
}

// now is the time since the run began, in nanoseconds.
func (r *run) now() int64 { return int64(time.Since(r.began)) }

// end stops the drivers, even if their sessions wait for replies.
func (r *run) end() {
	r.quitOnce.Do(func() {
		r.quitting.Store(true)
		close(r.quit)
	})
}

func (r *run) stopped() bool { return r.quitting.Load() }

// runLoad runs load l on the server t and measures it and the processes
// pids. If ctx is done first, the load stops early and is still cleaned up.
func runLoad(ctx context.Context, t target, l load, pids []int) (*result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if l.Mode == modeHTTP && (t.tls != nil || t.user != "") {
		return nil, errors.New("mode http has neither TLS nor users")
	}
	r := &run{load: l, target: t, fixture: newFixture(t), quit: make(chan struct{})}
	body := makeBody(l.Body)
	err := r.fixture.prepare(&l, body)
	if err == nil && l.Groups > 0 {
		err = r.fixture.limitGroups(&l, unreachedLimit)
	}
	if err == nil && l.Mode == modeHTTP {
		err = awaitReady(ctx, t.addr)
	}
	var res *result
	if err == nil {
		res, err = r.measure(ctx, body, pids)
	}
	r.disconnect()
	if l.Keep {
		return res, err
	}
	cleaned, cleanErr := r.clean()
	if err = errors.Join(err, cleanErr); err != nil {
		return nil, err
	}
	res.account(cleaned)
	return res, nil
}

// measure connects, runs the load to its end and makes the result.
func (r *run) measure(ctx context.Context, body []byte, pids []int) (*result, error) {
	tallies, err := r.connect(body)
	if err != nil {
		return nil, err
	}
	watch := newUsageMeter(pids)
	r.began = time.Now()
	r.deadline.Store(int64(r.load.Duration))
	if err := watch.start(); err != nil {
		return nil, err
	}
	ended := r.launch()
	select {
	case <-time.After(r.load.Duration):
	case <-ctx.Done():
		r.deadline.Store(r.now())
	case err := <-ended: // too early: all connections are lost
		r.deadline.Store(r.now())
		ended <- err
	}
	usage, usageErr := watch.stop()
	all := &counters{r: r}
	late := r.awaitSessions(ended, all)
	for _, t := range tallies {
		all.merge(t)
	}
	if err := errors.Join(late, usageErr); err != nil {
		return nil, err
	}
	return newResult(r, all, usage), nil
}

// connect makes the connections, sets each to its tube and gives it a
// session. It returns the counters, which belong to the drivers until they end.
func (r *run) connect(body []byte) ([]*counters, error) {
	l := &r.load
	var all []*counters
	for range min(l.Threads, l.Conns) {
		all = append(all, &counters{r: r})
	}
	if l.paired() {
		r.flow = newFlow(l, l.Conns/2, l.Conns-l.Conns/2)
	}
	for i := range l.Conns {
		if l.Blocking && i >= len(all) {
			all = append(all, &counters{r: r})
		}
		conn, err := r.connection(i)
		if err != nil {
			return nil, fmt.Errorf("making connection %d of %d: %w", i+1, l.Conns, err)
		}
		t := all[i%len(all)]
		r.wires = append(r.wires, &wire{conn: conn, t: t, s: r.newSession(i, t, body), http: l.Mode == modeHTTP})
	}
	return all, nil
}

// connection makes connection i.
func (r *run) connection(i int) (net.Conn, error) {
	if r.load.Mode == modeHTTP {
		return dialHTTP(r.addr)
	}
	return r.dialTube(r.fixture.tube(r.tubeOf(i)))
}

// tubeOf returns the number of the tube of connection i. Producers and consumers
// alternate among the connections, so these use tubes in pairs.
func (r *run) tubeOf(i int) int {
	if r.flow != nil {
		i /= 2
	}
	return i % r.load.Tubes
}

// newSession returns the session of connection i.
func (r *run) newSession(i int, t *counters, body []byte) session {
	if r.load.Mode == modeHTTP {
		return newHTTPCycler(&r.load, t, r.addr, r.fixture.tube(r.tubeOf(i)), body)
	}
	if r.flow == nil {
		c := newCycler(&r.load, t, body)
		r.made = append(r.made, c)
		return c
	}
	if i%2 == 0 || i == r.load.Conns { // an odd last connection consumes
		return newConsumer(&r.load, t, r.flow, body)
	}
	producers := int64(r.load.Conns / 2)
	due := r.flow.interval * int64(i/2) / producers
	if r.load.Mode == modeExpire {
		return newHolder(&r.load, t, r.flow, body, due)
	}
	return newProducer(&r.load, t, r.flow, body, due)
}

// launch starts the drivers; the channel delivers their error when all have ended.
func (r *run) launch() chan error {
	ended := make(chan error, 1)
	if r.load.Blocking {
		go func() { ended <- driveBlocking(r, r.wires) }()
		return ended
	}
	threads := min(r.load.Threads, r.load.Conns)
	errs := make(chan error, threads)
	for i := range threads {
		var mine []*wire
		for j := i; j < len(r.wires); j += threads {
			mine = append(mine, r.wires[j])
		}
		go func() { errs <- drive(r, mine) }()
	}
	go func() {
		var err error
		for range threads {
			err = errors.Join(err, <-errs)
		}
		ended <- err
	}()
	return ended
}

// grace is how long after the duration replies are accepted; it is three times the duration
// if that is longer.
const grace = 10 * time.Second

// awaitSessions waits until the sessions finish their cycles, then ends the drivers.
// If that exceeds the grace, it counts an error in t.
func (r *run) awaitSessions(ended chan error, t *counters) error {
	patience := max(grace, 3*r.load.Duration)
	limit := time.After(patience + time.Duration(max(r.load.Delay, r.load.TTR))*time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-limit:
			t.fail(fmt.Sprintf("the load did not finish within %v of its end", patience))
			r.end()
			return <-ended
		case <-tick.C:
			if r.flow != nil && r.flow.idle() {
				r.end()
			}
		}
	}
}

// disconnect closes the connections that still belong to the run.
func (r *run) disconnect() {
	for _, w := range r.wires {
		w.conn.Close()
	}
}

// clean deletes all jobs that the run made and returns how many it found.
func (r *run) clean() (int64, error) {
	if r.load.Mode == modeHTTP {
		return r.cleanHTTP()
	}
	for _, c := range r.made {
		r.fixture.ids = append(r.fixture.ids, c.made...)
	}
	if r.load.Groups > 0 {
		if err := r.fixture.limitGroups(&r.load, 0); err != nil {
			return 0, err
		}
	}
	deleted, err := r.fixture.deleteAll()
	if err != nil || r.load.Mode == modePut {
		return deleted, err
	}
	drained, err := r.fixture.drain(min(r.load.Tubes, r.load.Conns))
	return deleted + drained, err
}
