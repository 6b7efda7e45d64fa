package migrate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"redstalk/server/queue"
)

// described returns the tags in the page of a job, without what a move changes, and its checkpoint.
func described(t *testing.T, addr, tube, state string) string {
	t.Helper()
	c := dial(t, addr)
	ask(t, c, "use %s", tube)
	line := ask(t, c, "peek-%s", state)
	if !strings.HasPrefix(line, "FOUND") {
		t.Fatalf("%s job of %s: %s", state, tube, line)
	}
	page, err := c.Page("stats-job " + strings.Fields(line)[1])
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^(expires-ms: \d+)\d{6}$`).ReplaceAllString(string(page), "$1")
	var kept []string
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, ":")
		switch name {
		case "tube", "state", "pri", "ttr", "key", "group", "retry", "jitter", "max", "dead", "expires-ms", "on-expire", "meta", "trace", "reason", "failed-ms", "batch", "checkpoint-bytes":
			kept = append(kept, line)
		}
	}
	saved, err := c.Page("get-checkpoint " + strings.Fields(line)[1])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(kept, "") + string(saved)
}

const fullTags = `group:"a \"b\"" retry:exp(1s,1h,5) jitter:20 max:7 dead:graves expire:2401h on-expire:park meta:a="x \"1\"" meta:b=y trace:00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`

// putFull puts a job with all tags, saves a checkpoint of it, and fails it once, into a tube and a state.
func putFull(t *testing.T, addr, tube string, state State, key string) {
	t.Helper()
	c, tags := dial(t, addr), fullTags
	if state == Buried { // with pending members the batch would be under way
		tags += ` batch:"b#1"`
	}
	ask(t, c, "use %s", tube)
	id := strings.Fields(ask(t, c, "put 5 0 60 4 key:%s %s\r\nbody", key, tags))[1]
	ask(t, c, "reserve-job %s", id)
	ask(t, c, "checkpoint %s 9\r\nx\r\ny of %s", id, state[:1])
	delay := 0
	if state == Delayed {
		delay = 50_000
	}
	last := fmt.Sprintf(`release %s 5 %d reason:"550 no"`, id, delay)
	if state == Buried {
		last = fmt.Sprintf(`bury %s 5 reason:"550 no"`, id)
	}
	ask(t, c, "%s", last)
	if state == Ready {
		ask(t, c, "reschedule %s 0", id)
	}
}

// TestTagsCome: between two redstalks jobs keep their tags, in every state. A key that another job has
// there stays with that one.
func TestTagsCome(t *testing.T) {
	t.Parallel()
	from, to := redstalk(t, queue.Config{}), redstalk(t, queue.Config{})
	want := map[State]string{}
	for _, state := range []State{Ready, Delayed, Buried} {
		putFull(t, from, string(state), state, "k")
		putFull(t, from, "taken", state, "same-"+string(state))
		want[state] = described(t, from, string(state), string(state))
		if n := strings.Count(want[state], "\n"); n != 18+strings.Count(want[state], "batch:") {
			t.Fatalf("%d lines: %s", n, want[state])
		}
	}
	now := dial(t, to)
	ask(t, now, "use taken")
	ask(t, now, "put 1 0 60 1 key:same-ready\r\nx")
	if moved, left := move(t, from, to, 2); moved != 6 || left.Less != 1 {
		t.Errorf("moved %d jobs, and left %+v", moved, left)
	}
	for _, state := range []State{Ready, Delayed, Buried} {
		if got := described(t, to, string(state), string(state)); got != want[state] {
			t.Errorf("%s:\n%s\nwant\n%s", state, got, want[state])
		}
	}
	if got := counts(t, now); got != "3 0 2 2" {
		t.Errorf("new server: %s", got)
	}
}

// TestKilledWithKeys: a job with a key of its own is on exactly one server, whenever the migrator is
// killed, and has its tags.
func TestKilledWithKeys(t *testing.T) {
	t.Parallel()
	from, to := redstalk(t, queue.Config{}), redstalk(t, queue.Config{})
	for _, state := range []State{Ready, Delayed, Buried} {
		for _, at := range []step{noteWritten, marked, copyPlaced, deleted, revealed} {
			t.Run(fmt.Sprintf("%s, %s", state, at), func(t *testing.T) {
				tube := fmt.Sprintf("%s-%s", state, at)
				putFull(t, from, tube, state, "k")
				want := described(t, from, tube, string(state))
				c := migrator(t, from, to)
				killAt(c, at)
				untilKilled(t, func() (err error) {
					if state == Ready {
						_, err = c.Next(context.Background(), tube)
					} else {
						_, err = c.Head(context.Background(), tube, state)
					}
					return err
				})
				move(t, from, to, 1)
				if got := described(t, to, tube, string(state)); got != want {
					t.Errorf("moved:\n%s\nwant\n%s", got, want)
				}
				if got := counts(t, dial(t, from)); got != "0 0 0 0" {
					t.Errorf("the old server has jobs: %s", got)
				}
				if got := value(t, dial(t, to), "stats-tube "+tube, "total-jobs"); got != "1" {
					t.Errorf("the new server has had %s jobs", got)
				}
			})
		}
	}
}

// TestBatchUnderWay: while a batch is under way nothing is moved, and the error names it; nor is a member of one that was begun since, or
// a job after it. When nothing of the batch is left to wait for, all is moved.
func TestBatchUnderWay(t *testing.T) {
	t.Parallel()
	from, to := redstalk(t, queue.Config{}), redstalk(t, queue.Config{})
	old := dial(t, from)
	var under *UnderWay
	refused := func(want string) {
		t.Helper()
		m := &Mover{Connect: func(context.Context) (*Migrator, error) { return migrator(t, from, to), nil }}
		if n, _, err := m.Run(context.Background()); n != 0 || !errors.As(err, &under) || !strings.Contains(err.Error(), want) {
			t.Errorf("moved %d, %v", n, err)
		}
	}
	ask(t, old, "use a")
	ask(t, old, "put 0 0 60 1\r\nx")
	ask(t, old, "put 0 0 60 1 batch:B\r\nm")
	refused(`B (pending members: 1, jobs after it: 0)`)
	ask(t, old, "use z")
	ask(t, old, "put 0 0 60 1 after:B\r\na")
	ask(t, old, "seal-batch B")
	refused(`B (pending members: 1, jobs after it: 1)`)
	c := migrator(t, from, to)
	for _, next := range []func() (Outcome, error){
		func() (Outcome, error) { return c.Head(context.Background(), "z", Delayed) },
		func() (Outcome, error) { c.Next(context.Background(), "a"); return c.Next(context.Background(), "a") },
	} {
		if done, err := next(); done == Migrated || !errors.As(err, &under) {
			t.Errorf("begun since: %v, %v", done, err)
		}
	}
	c.Close()
	ask(t, old, "watch a")
	ask(t, old, "reserve-with-timeout 5") // the migrator gives it back
	ask(t, old, "delete 2")
	ask(t, old, "kick-job 3") // this server has nobody who examines batches
	if n, left := move(t, from, to, 2); n != 1 || left != (Left{}) {
		t.Errorf("in the end: moved %d, and left %+v", n, left)
	}
}
