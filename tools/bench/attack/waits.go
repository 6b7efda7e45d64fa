package attack

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/protocol/client"
)

// waits are the attacks on reserves that wait.
var waits = []attack{
	{"wait-ends", "a wait ends just after a job has become due (delay, release, pause, TTR; 1,000 each)", "0 TIMED_OUT", waitEnds},
	{"idle-waits", "100 connections wait on 1,000 tubes each, on Redis", "at most 3 % of a core of Redis", idleWaits},
}

// waitRounds is how often each way to become due is tried, and atOnce how many run concurrently.
const (
	waitRounds = 1000
	atOnce     = 250
)

func waitEnds(r *run) error {
	for _, e := range engines {
		if err := r.on(e, 1, nil, func(s *cluster) error { return r.waitEndsOn(s, s.instances[0], s.instances[0]) }); err != nil {
			return err
		}
	}
	return r.on(redis, 2, nil, func(s *cluster) error { return r.waitEndsOn(s, s.instances[0], s.instances[1]) })
}

// waitEndsOn lets jobs become due through one instance, and waits for them at another.
func (r *run) waitEndsOn(s *cluster, by, at *instance) error {
	counts := ""
	for _, way := range []struct {
		name string
		make func(c *client.Conn, tube string) error
	}{{"delay", dueByDelay}, {"release", dueByRelease}, {"pause", dueByPause}, {"TTR", dueByTTR}} {
		var missed atomic.Int64
		var failed atomic.Value
		var all sync.WaitGroup
		for client := range atOnce {
			all.Go(func() {
				if err := waitRoundsOf(way.make, by, at, fmt.Sprint(way.name, client), &missed); err != nil {
					failed.Store(err)
				}
			})
		}
		all.Wait()
		if err, ok := failed.Load().(error); ok {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		counts += fmt.Sprintf(" %s %d", way.name, missed.Load())
	}
	r.report("%s, %d instance(s): TIMED_OUT of %d each:%s", s.engine, len(s.instances), waitRounds, counts)
	return nil
}

// waitRoundsOf runs a share of the rounds, and counts those that got no job.
func waitRoundsOf(due func(*client.Conn, string) error, by, at *instance, tube string, missed *atomic.Int64) error {
	maker, err := dial(by.addr)
	if err != nil {
		return err
	}
	defer maker.Close()
	waiter, err := dial(at.addr)
	if err != nil {
		return err
	}
	defer waiter.Close()
	if err := waiter.UseOnly(tube); err != nil {
		return err
	}
	for i := range waitRounds / atOnce {
		if err := due(maker, tube); err != nil {
			return err
		}
		time.Sleep(time.Duration(i%4) * time.Millisecond)
		var id uint64
		err := waiter.Ask([]byte("reserve-with-timeout 1\r\n"), 1, func(r *client.Reply) error {
			if id = r.ID; r.Word != client.Reserved {
				missed.Add(1)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if id == 0 { // the job becomes ready a moment later, and must not exist in the next round
			err = waiter.Ask([]byte("reserve-with-timeout 5\r\n"), 1, func(r *client.Reply) error { id = r.ID; return nil })
		}
		if err == nil {
			_, err = command(waiter, "delete %d", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func dueByDelay(c *client.Conn, tube string) error { return putMany(c, tube, 1, 1, 1, 60) }

func dueByRelease(c *client.Conn, tube string) error {
	if err := putMany(c, tube, 1, 1, 0, 60); err != nil {
		return err
	}
	ids, err := reserveMany(c, tube, 1)
	if err == nil {
		_, err = command(c, "release %d 1 1", ids[0])
	}
	return err
}

func dueByPause(c *client.Conn, tube string) error {
	if err := putMany(c, tube, 1, 1, 0, 60); err != nil {
		return err
	}
	_, err := command(c, "pause-tube %s 1", tube)
	return err
}

func dueByTTR(c *client.Conn, tube string) error {
	if err := putMany(c, tube, 1, 1, 0, 1); err != nil {
		return err
	}
	_, err := reserveMany(c, tube, 1)
	return err
}

// idleWaits compares the processor time of Redis with and without waiting connections.
func idleWaits(r *run) error {
	return r.on(redis, 1, nil, func(s *cluster) error {
		const idle = 10 * time.Second
		before, err := s.redis.share(idle)
		if err != nil {
			return err
		}
		for range 100 {
			c, err := dial(s.instances[0].addr)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := watchMany(c, 1000, 0); err != nil {
				return err
			}
			if err := c.Send([]byte("reserve\r\n")); err != nil {
				return err
			}
		}
		time.Sleep(2 * time.Second)
		with, err := s.redis.share(idle)
		r.report("%.2f %% of a core of Redis (%.2f %% without)", with*100, before*100)
		return err
	})
}

// share is the part of a processor that Redis uses during d.
func (s *redisServer) share(d time.Duration) (float64, error) {
	before, err := used(s.Pid())
	if err != nil {
		return 0, err
	}
	time.Sleep(d)
	after, err := used(s.Pid())
	return float64(after-before) / float64(d), err
}

// watchMany makes a connection watch n tubes, from the first number on.
func watchMany(c *client.Conn, n, first int) error {
	return bulk(c, n, client.Watching, func(out []byte, i int) []byte { return fmt.Appendf(out, "watch t%d\r\n", first+i) })
}
