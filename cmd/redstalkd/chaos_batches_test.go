package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
)

// The chaos has batches, too. Whatever happens to instances and to Redis, the job after a batch is there once, not
// before each of the members was deleted, and it does not wait for ever.

const (
	batchTubes    = 4
	batchMakers   = 2
	batchWorkers  = 4
	mostMembers   = 12
	mostBatches   = 100              // about how many are not done; more would only make the audit of a slow machine longer
	mostKicks     = 5                // in a row
	batchPatience = 10 * time.Second // of one command
)

// chaosBatches is the load with batches.
type chaosBatches struct {
	t     *testing.T
	addrs []string
	put   func(id uint64) // is told each job

	mu      sync.Mutex
	ran     int // batches whose job after them was deleted
	batches map[string]*chaosBatch
	buried  map[uint64]int // how often the bury of a job was sent, until it is kicked. They are kicked one by one: kick would let jobs run whose batch has failed
}

// chaosBatch is what the test knows of a batch.
type chaosBatch struct {
	members int
	sealing bool            // the seal was sent
	deleted map[string]bool // members whose delete was sent
	ran     bool            // the delete of the job after it was acknowledged
}

func (c *chaos) newBatches(addrs []string) *chaosBatches {
	return &chaosBatches{t: c.t, addrs: addrs, put: c.record.Foreign, batches: map[string]*chaosBatch{}, buried: map[uint64]int{}}
}

// run puts batches until ctx ends, and works on them until all are done.
func (b *chaosBatches) run(ctx context.Context, seed uint64) {
	var makers, workers sync.WaitGroup
	working, stop := context.WithCancel(context.Background())
	for i := range batchWorkers {
		workers.Go(func() { b.work(working, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	for i := range batchMakers {
		makers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(100+i)))
			for n := 0; ctx.Err() == nil; n++ {
				if b.unfinished() < mostBatches {
					b.make(fmt.Sprintf("batch-%d-%d", i, n), rng)
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	makers.Wait()
	rng := rand.New(rand.NewPCG(seed, 200))
	for limit := time.Now().Add(chaosPatience); !b.empty(rng) && time.Now().Before(limit); {
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	workers.Wait()
}

// empty returns whether there is no job any more. After a lost answer to a delete nobody else knows.
func (b *chaosBatches) empty(rng *rand.Rand) bool {
	conn, err := b.dial(rng)
	if err != nil {
		return false
	}
	defer conn.Close()
	for i := range batchTubes {
		line, err := askTwo(conn, fmt.Sprintf("use default\r\nstats-tube of-batches-%d\r\n", i))
		if err != nil {
			return false
		}
		if line == "NOT_FOUND" {
			continue
		}
		var size int
		if _, err := fmt.Sscanf(line, "OK %d", &size); err != nil {
			return false
		}
		for line != "" { // the page ends with an empty line
			if line, err = conn.Line(); err != nil {
				return false
			}
			for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
				if n, is := strings.CutPrefix(line, "current-jobs-"+state+": "); is && strings.TrimSpace(n) != "0" {
					return false
				}
			}
		}
	}
	return true
}

// make puts a batch. Every command is repeated until its result is known; the jobs have keys, so that a repeated put puts
// nothing.
func (b *chaosBatches) make(name string, rng *rand.Rand) {
	n := rng.IntN(mostMembers + 1)
	b.mu.Lock()
	b.batches[name] = &chaosBatch{members: n, deleted: map[string]bool{}}
	b.mu.Unlock()
	after := rng.IntN(n + 1) // the job after it comes behind that many members
	for i := range n + 1 {
		tube := fmt.Sprint("of-batches-", rng.IntN(batchTubes))
		if i == after {
			body := name + " after"
			b.insist(rng, fmt.Sprintf("use %s\r\nput 0 0 5 %d after:%s key:after-%s key-ttl:1h\r\n%s\r\n", tube, len(body), name, name, body), "INSERTED")
		}
		if i < n {
			body := fmt.Sprintf("%s %d", name, i)
			b.insist(rng, fmt.Sprintf("use %s\r\nput 0 0 5 %d batch:%s key:%d-%s key-ttl:1h\r\n%s\r\n", tube, len(body), name, i, name, body), "INSERTED")
		}
	}
	b.mu.Lock()
	b.batches[name].sealing = true
	b.mu.Unlock()
	b.insist(rng, "use default\r\nseal-batch "+name+"\r\n", "SEALED")
}

// insist sends a use and a command to instances until one answers with a word.
func (b *chaosBatches) insist(rng *rand.Rand, commands, want string) {
	line := ""
	for limit := time.Now().Add(chaosPatience); time.Now().Before(limit); {
		conn, err := b.dial(rng)
		if err == nil {
			line, err = askTwo(conn, commands)
			conn.Close()
		}
		if err == nil && strings.HasPrefix(line, want) {
			var id uint64
			if fields := strings.Fields(line); len(fields) == 2 { // else a put before was carried out
				fmt.Sscan(fields[1], &id)
				b.put(id)
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.t.Errorf("%q was never answered with %s: %s", commands, want, line)
}

func (b *chaosBatches) dial(rng *rand.Rand) (*protoclient.Conn, error) {
	conn, err := protoclient.Dial(b.addrs[rng.IntN(len(b.addrs))], batchPatience)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(batchPatience))
	}
	return conn, err
}

// askTwo sends two commands, and returns the first line of the second answer.
func askTwo(conn *protoclient.Conn, commands string) (string, error) {
	if err := conn.Send([]byte(commands)); err != nil {
		return "", err
	}
	if _, err := conn.Line(); err != nil {
		return "", err
	}
	return conn.Line()
}

// work reserves jobs of batches until ctx ends. Most are deleted; others are released or buried, or their holder leaves.
func (b *chaosBatches) work(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		conn, err := b.dial(rng)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		for range 20 {
			if !b.workOnce(conn, rng) {
				break
			}
		}
		conn.Close()
	}
}

// workOnce reserves a job and finishes it. It returns false if the connection is to be closed.
func (b *chaosBatches) workOnce(conn *protoclient.Conn, rng *rand.Rand) bool {
	tube := fmt.Sprint("of-batches-", rng.IntN(batchTubes))
	line, err := askTwo(conn, fmt.Sprintf("watch %s\r\nreserve-with-timeout 0\r\n", tube))
	if err != nil {
		return false
	}
	var id uint64
	if _, err := fmt.Sscanf(line, "RESERVED %d", &id); err != nil {
		return b.kick(conn)
	}
	body, err := conn.Line()
	if err != nil {
		return false
	}
	name, member, _ := strings.Cut(body, " ")
	if member == "after" {
		b.checkAfter(name)
	}
	switch n := rng.IntN(10); {
	case n == 0:
		return false
	case n == 1:
		_, err = askTwo(conn, fmt.Sprintf("use default\r\nrelease %d 0 0\r\n", id))
		return err == nil
	case n == 2:
		b.mu.Lock()
		b.buried[id]++
		b.mu.Unlock()
		_, err = askTwo(conn, fmt.Sprintf("use default\r\nbury %d 0\r\n", id))
		return err == nil
	}
	b.mu.Lock()
	if member != "after" {
		b.batches[name].deleted[member] = true
	}
	b.mu.Unlock()
	line, err = askTwo(conn, fmt.Sprintf("use default\r\ndelete %d\r\n", id))
	if err == nil && line == "DELETED" && member == "after" {
		b.hasRun(name)
	}
	return err == nil
}

// checkAfter checks that the job after a batch may run.
func (b *chaosBatches) checkAfter(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if batch := b.batches[name]; !batch.sealing || len(batch.deleted) < batch.members || batch.ran {
		b.t.Errorf("the job after %s runs: sealed %v, %d of %d members deleted, ran before %v", name, batch.sealing, len(batch.deleted), batch.members, batch.ran)
	}
}

func (b *chaosBatches) hasRun(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batches[name].ran = true
	b.ran++
}

// unfinished returns after how many batches the job has not run.
func (b *chaosBatches) unfinished() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.batches) - b.ran
}

// kick kicks some jobs that were buried.
func (b *chaosBatches) kick(conn *protoclient.Conn) bool {
	b.mu.Lock()
	buried := map[uint64]int{}
	for id, times := range b.buried {
		if buried[id] = times; len(buried) == mostKicks {
			break
		}
	}
	b.mu.Unlock()
	for id, times := range buried {
		line, err := askTwo(conn, fmt.Sprintf("use default\r\nkick-job %d\r\n", id))
		if err != nil || line != "KICKED" && line != "NOT_FOUND" {
			return false
		}
		b.mu.Lock()
		if line == "KICKED" && b.buried[id] == times {
			delete(b.buried, id)
		}
		b.mu.Unlock()
	}
	return true
}

// check checks, when all have stopped, that no job after a batch still waits. A delete whose answer was lost counts as
// done if the job is gone.
func (b *chaosBatches) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.t.Logf("%d batches", len(b.batches))
	a := dial(b.t, b.addrs[0])
	for name, batch := range b.batches {
		if !batch.ran {
			page := a.page("stats-batch " + name)
			if !strings.Contains(page, "state: done\n") || !strings.Contains(page, "after-held: 0\n") {
				b.t.Errorf("the job after %s has not run (%d of %d members deleted):\n%s", name, len(batch.deleted), batch.members, page)
			}
		}
	}
}
