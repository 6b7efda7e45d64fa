package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	protoclient "redstalk/protocol/client"
	"redstalk/tools/redistest"
)

// weightedWorkers are connections that reserve with weights from the tubes a, b and c, and delete what
// they get.
type weightedWorkers struct {
	done chan string // bodies
	all  sync.WaitGroup
}

// start starts a worker. Its weights differ from those of others.
func (w *weightedWorkers) start(t *testing.T, addr string, seed int) {
	c, err := protoclient.Dial(addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for i, tube := range []string{"a", "b", "c"} {
		askLine(t, c, fmt.Sprintf("watch %s %d", tube, 1+(seed*7+i*31)%100))
	}
	askLine(t, c, "ignore default")
	c.Timeout = 0
	w.all.Go(func() {
		for {
			var id uint64
			body := ""
			err := c.Ask([]byte("reserve\r\n"), 1, func(r *protoclient.Reply) error {
				id, body = r.ID, string(r.Body)
				return nil
			})
			if err == nil {
				err = c.Ask(protoclient.AppendDelete(nil, id), 1, protoclient.Expect(protoclient.Deleted))
			}
			if err != nil {
				return // the test has ended
			}
			w.done <- body
		}
	})
}

// TestWeightsOnInstances: with weights, no job is left while somebody waits, on any of two instances:
// bursts smaller than the number of workers are done soon, and each job once.
func TestWeightsOnInstances(t *testing.T) {
	for _, partitions := range []string{"1", "4"} {
		t.Run(partitions+" partitions", func(t *testing.T) {
			t.Parallel()
			testWeightsOnInstances(t, partitions)
		})
	}
}

func testWeightsOnInstances(t *testing.T, partitions string) {
	redis := redistest.Start(t)
	workers := &weightedWorkers{done: make(chan string, 100)}
	var producers []*protoclient.Conn
	for i := range 2 {
		_, addr := serve(t, "-p0", "--store", redis.URL(), "--partitions", partitions)
		for k := range 5 {
			workers.start(t, addr, 5*i+k)
		}
		c, err := protoclient.Dial(addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		producers = append(producers, c)
	}
	random, slow, bursts := rand.New(rand.NewPCG(1, 1)), 0, 100
	for burst := range bursts {
		want := make(map[string]bool)
		for i := range 1 + random.IntN(2)*random.IntN(2)*random.IntN(8) { // mostly one, so that nothing else wakes a worker
			body := fmt.Sprintf("%d-%d", burst, i)
			want[body] = true
			c := producers[random.IntN(2)]
			askLine(t, c, "use "+string("abc"[random.IntN(3)]))
			askLine(t, c, fmt.Sprintf("put %d 0 60 %d\r\n%s", random.IntN(2000), len(body), body))
		}
		watch, late := startWatch(), time.After(patience)
		for len(want) > 0 {
			select {
			case body := <-workers.done:
				if !want[body] {
					t.Fatalf("burst %d: %s is done twice, or too late", burst, body)
				}
				delete(want, body)
			case <-late:
				t.Fatalf("burst %d: %v are left, and all workers wait", burst, want)
			}
		}
		if watch.took() > 200*time.Millisecond {
			slow++
		}
	}
	if slow > bursts/8 { // a lost wake-up costs up to a second, and a busy machine makes some slow as well
		t.Errorf("%d of %d bursts had to wait", slow, bursts)
	}
}
