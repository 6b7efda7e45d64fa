package attack

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"redstalk/protocol/client"
)

// bursts are the attacks that measure the memory that a server keeps after jobs are deleted.
var bursts = []attack{
	{"large-burst", "10,000 bodies of 1 MiB are put, reserved and deleted by 50 connections", "memory is what it was within a minute", largeBurst},
}

const (
	burstJobs        = 10_000
	burstSize        = 1 << 20
	burstConnections = 50

	// settledAfter is the pause before a server's memory is measured: longer than
	// an idle server takes to give back memory that it does not need.
	settledAfter = 40 * time.Second
)

func largeBurst(r *run) error {
	return r.onEach(engines, []string{"-z", fmt.Sprint(burstSize)}, func(s *cluster) error { return r.burst(s) })
}

// burst sends the jobs through twice, as many at the same time as fit in memory, and measures the memory of
// the server and Redis before, during, and for a minute after that. What the second time adds would be added
// each time. First comes one job per connection, and a pause, because a server that
// has done nothing yet does not have its own code in memory.
func (r *run) burst(s *cluster) error {
	at := s.instances[0]
	if err := burstWave(at, burstConnections); err != nil {
		return err
	}
	time.Sleep(settledAfter)
	before, err := s.holding()
	if err != nil {
		return err
	}
	for _, which := range []string{"", "again, "} {
		wave, took, most, err := burstOnce(at)
		if err != nil {
			return err
		}
		after, err := s.minuteAfter()
		if err != nil {
			return err
		}
		r.report("%s: %s%s before; at most %d MiB in %s, %d jobs there at a time; %s", s.engine, which, before, most>>20, format(took), wave, after)
	}
	return nil
}

// burstOnce sends the jobs through, and returns how many of them existed at the same time, how long it took,
// and the most bytes that the server had in memory.
func burstOnce(at *instance) (wave int, took time.Duration, most int64, err error) {
	if wave, err = fitting(burstJobs, burstSize); err != nil {
		return 0, 0, 0, err
	}
	begun := time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		for left := burstJobs; left > 0 && err == nil; left -= wave {
			err = burstWave(at, min(wave, left))
		}
	})
	most = watchMemory(at, &all)
	return wave, time.Since(begun), most, err
}

// minuteAfter reports the memory over the next minute.
func (s *cluster) minuteAfter() (string, error) {
	var reported []string
	begun := time.Now()
	for _, when := range []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, time.Minute} {
		time.Sleep(when - time.Since(begun))
		now, err := s.holding()
		if err != nil {
			return "", err
		}
		reported = append(reported, fmt.Sprintf("%s after %s", now, format(when)))
	}
	return strings.Join(reported, ", "), nil
}

// holding reports the memory of the first instance and of Redis.
func (s *cluster) holding() (string, error) {
	own, err := s.instances[0].resident()
	if err != nil || s.redis == nil {
		return fmt.Sprintf("%d MiB", own>>20), err
	}
	beside, err := s.redis.memory()
	return fmt.Sprintf("%d MiB (Redis %d)", own>>20, beside>>20), err
}

// fitting is how many of n bodies may exist at the same time: they may use half of the machine's free
// memory.
func fitting(n, size int) (int, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("reading how much memory is free: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	var free int
	if _, err := fmt.Sscan(rest, &free); err != nil {
		return 0, fmt.Errorf("reading how much memory is free: %w", err)
	}
	return max(burstConnections, min(n, free<<10/2/size)), nil
}

// burstWave puts n jobs, then reserves all of them, then deletes them.
func burstWave(at *instance, n int) error {
	var all, put, reserved sync.WaitGroup
	failed := make(chan error, burstConnections)
	put.Add(burstConnections)
	reserved.Add(burstConnections)
	for i := range burstConnections {
		share := n*(i+1)/burstConnections - n*i/burstConnections
		all.Go(func() {
			if err := burstShare(at, share, &put, &reserved); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// burstShare is one connection's part of a wave. It starts to reserve when all have put, and to
// delete when all have reserved.
func burstShare(at *instance, n int, put, reserved *sync.WaitGroup) error {
	c, err := dial(at.addr)
	if err == nil {
		defer c.Close()
		err = putLarge(c, "large", n, burstSize)
	}
	put.Done()
	put.Wait()
	var ids []uint64
	if err == nil {
		ids, err = reserveEach(c, "large", n)
	}
	reserved.Done()
	reserved.Wait()
	for _, id := range ids {
		if err == nil {
			err = c.Ask(client.AppendDelete(nil, id), 1, client.Expect(client.Deleted))
		}
	}
	return err
}

// reserveEach reserves n jobs one at a time, and returns their ids.
func reserveEach(c *client.Conn, tube string, n int) ([]uint64, error) {
	if err := c.UseOnly(tube); err != nil {
		return nil, err
	}
	body := bytes.Repeat([]byte("x"), burstSize)
	var ids []uint64
	for range n {
		err := c.Ask([]byte("reserve-with-timeout 0\r\n"), 1, func(r *client.Reply) error {
			if r.Word != client.Reserved || !bytes.Equal(r.Body, body) {
				return fmt.Errorf("reserving a large job: %.100q", r.Line)
			}
			ids = append(ids, r.ID)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}
