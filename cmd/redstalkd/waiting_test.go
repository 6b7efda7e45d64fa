package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
)

// TestManyWaiters: a thousand connections wait on one tube, a thousand jobs
// are put; each gets one, none is delivered twice.
func TestManyWaiters(t *testing.T) {
	const n = 1000
	onEngines(t, func(t *testing.T, store func() []string) {
		_, addr := serve(t, append(store(), "-p0")...)
		producer := dial(t, addr)
		waiters := make([]*client, n)
		for i := range waiters {
			waiters[i] = dial(t, addr)
			waiters[i].send("reserve\r\n")
		}
		producer.awaitFigure("stats", "current-waiting", fmt.Sprint(n))
		go producer.sendAside(strings.Repeat("put 0 0 60 4\r\nbody\r\n", n))
		seen := make(map[string]bool)
		for _, c := range waiters {
			line := c.line()
			if !strings.HasPrefix(line, "RESERVED ") || seen[line] {
				t.Fatalf("%q, perhaps for the second time", line)
			}
			seen[line] = true
			if body := c.line(); body != "body" {
				t.Fatalf("the body is %q", body)
			}
		}
		for range n {
			if line := producer.line(); !strings.HasPrefix(line, "INSERTED ") {
				t.Fatal(line)
			}
		}
		producer.awaitFigure("stats", "current-jobs-reserved", fmt.Sprint(n))
		producer.awaitFigure("stats", "current-waiting", "0")
	})
}

// TestLateness measures how late delayed jobs become ready and how late
// reservations end. They must never be early; how late they are
// depends on the machine, so the limit is only for defects.
func TestLateness(t *testing.T) {
	atLength(t)
	n := 200 * *rare
	onEngines(t, func(t *testing.T, store func() []string) {
		_, addr := serve(t, append(store(), "-p0")...)
		t.Run("delay", func(t *testing.T) { reportLateness(t, func() []time.Duration { return delays(t, addr, n) }) })
		t.Run("TTR", func(t *testing.T) { reportLateness(t, func() []time.Duration { return expiries(t, addr, n) }) })
	})
}

// reportLateness measures again if jobs were so late that the machine can be the cause.
func reportLateness(t *testing.T, measure func() []time.Duration) {
	t.Helper()
	for range 5 {
		late := measure()
		slices.Sort(late)
		p50, p99, most := late[len(late)/2], late[len(late)*99/100], late[len(late)-1]
		t.Logf("lateness of %d jobs: p50 %v, p99 %v, most %v", len(late), p50, p99, most)
		if late[0] < -time.Millisecond {
			t.Errorf("one was early by %v", -late[0])
		}
		if p50 <= busy.Times(100*time.Millisecond) {
			return
		}
	}
	t.Error("every time half of them were more than 100 ms late, or as many times that as the machine is busy")
}

// delays puts n jobs with a delay of 1 s, spread over a second, and returns
// how long after its due time each was handed to the waiting connection.
func delays(t *testing.T, addr string, n int) []time.Duration {
	producer, worker := dial(t, addr), dial(t, addr)
	worker.send(strings.Repeat("reserve\r\n", n))
	came := make(chan map[int]time.Time, 1)
	go func() { came <- worker.arrivals(n) }()
	due := make(map[int]time.Time)
	next := time.NewTicker(time.Second / time.Duration(n))
	defer next.Stop()
	for range n {
		<-next.C
		before := time.Now()
		producer.send("put 0 1 60 1\r\nx\r\n")
		id, err := strconv.Atoi(strings.TrimPrefix(producer.line(), "INSERTED "))
		if err != nil {
			t.Fatal(err)
		}
		due[id] = before.Add(time.Second)
	}
	late := make([]time.Duration, 0, n)
	for id, at := range <-came {
		late = append(late, at.Sub(due[id]))
	}
	if len(late) != n {
		t.Fatalf("%d jobs came, want %d", len(late), n)
	}
	return late
}

// arrivals reads up to n reserved jobs, and returns when each arrived.
func (c *client) arrivals(n int) map[int]time.Time {
	came := make(map[int]time.Time)
	for len(came) < n {
		line, err := c.conn.Line()
		if err != nil {
			break
		}
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "RESERVED" {
			id, _ := strconv.Atoi(fields[1])
			came[id] = time.Now()
		}
	}
	return came
}

// expiries has n connections reserve a job with TTR 3 each, or more on a machine that
// is busy, spread over two seconds, and then do nothing. It returns how long after its
// deadline each job was handed to another connection.
func expiries(t *testing.T, addr string, n int) []time.Duration {
	producer, ttr := dial(t, addr), min(busy.Times(3*time.Second), patience/3).Truncate(time.Second) // shorter than any wait here
	go producer.sendAside("use ttr\r\n" + strings.Repeat(fmt.Sprintf("put 0 0 %d 1\r\nx\r\n", int(ttr.Seconds())), n))
	producer.line()
	for range n {
		producer.line()
	}
	holders := make([]*client, n)
	for i := range holders {
		holders[i] = dial(t, addr)
		holders[i].ask("watch ttr\r\nignore default\r\n", "WATCHING 2", "WATCHING 1")
	}
	due := make(map[int]time.Time)
	next := time.NewTicker(2 * time.Second / time.Duration(n))
	defer next.Stop()
	for _, c := range holders {
		<-next.C
		before := time.Now()
		c.send("reserve\r\n")
		id, err := strconv.Atoi(strings.Fields(c.line())[1])
		if err != nil {
			t.Fatal(err)
		}
		c.line()
		due[id] = before.Add(ttr)
	}
	other := dial(t, addr)
	other.ask("watch ttr\r\nignore default\r\n", "WATCHING 2", "WATCHING 1")
	late := make([]time.Duration, 0, n)
	for len(late) < n {
		other.send("reserve\r\n")
		id, err := strconv.Atoi(strings.Fields(other.line())[1])
		if err != nil {
			t.Fatal(err)
		}
		late = append(late, time.Since(due[id]))
		other.line() // the body
		other.ask(fmt.Sprintf("delete %d\r\n", id), "DELETED")
	}
	return late
}
