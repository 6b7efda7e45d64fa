package attack

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/protocol/client"
)

// large are the attacks with large bodies.
var large = []attack{
	{"large-reserves", "500 jobs of 1 MiB, 8 connections pipeline reserves, on Redis", "all answered; puts below 1 s, no call above 100 ms", largeReserves},
	{"distant-reserves", "the same with 500 jobs of 64 KiB, on a Redis behind a link of 100 Mbit/s", "all answered; puts below 1 s, no call above 100 ms", distantReserves},
	{"large-puts", "64 connections put 3 x 16 MiB each, embedded", "memory near the jobs' own 3.2 GB", largePuts},
}

func largeReserves(r *run) error { return r.largeReserves(redis, 1<<20) }

func distantReserves(r *run) error { return r.largeReserves(distant, 1<<16-1) }

// largeReserves reserves jobs through another instance than they were put through, since that one
// can have the bodies in its cache.
func (r *run) largeReserves(e engine, size int) error {
	const jobs, connections = 500, 8
	return r.on(e, 2, []string{"-z", fmt.Sprint(size)}, func(s *cluster) error {
		at := s.instances[0]
		c, err := dial(s.instances[1].addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := putLarge(c, "large", jobs, size); err != nil {
			return err
		}
		var got atomic.Int64
		t, err := s.during(at, func() error { return reserveLarge(at, connections, jobs, &got) })
		r.report("%d of %d answered with a job: %v", got.Load(), jobs, t)
		return err
	})
}

// putLarge puts jobs one after the other.
func putLarge(c *client.Conn, tube string, n, size int) error {
	if _, err := command(c, "use %s", tube); err != nil {
		return err
	}
	put := client.AppendPut(nil, 1, 0, 600, bytes.Repeat([]byte("x"), size))
	for range n {
		if err := c.Ask(put, 1, client.Expect(client.Inserted)); err != nil {
			return fmt.Errorf("putting a large job: %w", err)
		}
	}
	return nil
}

// reserveLarge pipelines as many reserves on all connections together as there are jobs.
func reserveLarge(at *instance, connections, jobs int, got *atomic.Int64) error {
	var all sync.WaitGroup
	var failed atomic.Value
	for i := range connections {
		n := jobs*(i+1)/connections - jobs*i/connections
		all.Go(func() {
			c, err := dial(at.addr)
			if err == nil {
				defer c.Close()
				if err = c.UseOnly("large"); err == nil {
					err = c.Ask(bytes.Repeat([]byte("reserve-with-timeout 0\r\n"), n), n, func(r *client.Reply) error {
						if r.Word == client.Reserved {
							got.Add(1)
						}
						return nil
					})
				}
			}
			if err != nil {
				failed.Store(err)
			}
		})
	}
	all.Wait()
	err, _ := failed.Load().(error)
	return err
}

func largePuts(r *run) error {
	const connections, each, size = 64, 3, 16 << 20
	return r.on(embedded, 1, []string{"-z", fmt.Sprint(size)}, func(s *cluster) error {
		at := s.instances[0]
		var all sync.WaitGroup
		var failed atomic.Value
		begun := time.Now()
		for range connections {
			all.Go(func() {
				c, err := dial(at.addr)
				if err == nil {
					defer c.Close()
					err = putLarge(c, "large", each, size)
				}
				if err != nil {
					failed.Store(err)
				}
			})
		}
		most := watchMemory(at, &all)
		r.report("%d jobs in %s, at most %d MiB of memory for %d MiB of bodies", connections*each, format(time.Since(begun)), most>>20, connections*each*size>>20)
		err, _ := failed.Load().(error)
		return err
	})
}

// watchMemory waits for all, and returns the most that the instance had in memory.
func watchMemory(at *instance, all *sync.WaitGroup) int64 {
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	var most int64
	for {
		if now, err := at.resident(); err == nil {
			most = max(most, now)
		}
		select {
		case <-done:
			return most
		case <-time.After(50 * time.Millisecond):
		}
	}
}
