package attack

import (
	"fmt"
	"strings"
	"time"

	"redstalk/protocol/client"
)

// millions are the attacks that flush, move, list, or expire a million jobs.
var millions = []attack{
	{"flush-1m", "1,000,000 ready jobs are moved, then flushed; then as many reserved ones", "others at most 20 ms", eachMillion(flushMany)},
	{"list-1m", "of 1,000,000 jobs in each state pages of 1,000 are listed", "others at most 20 ms", eachMillion(listMany)},
	{"expire-1m", "1,000,000 delays end at once, then as many TTRs", "others at most 20 ms", eachMillion(expireMany)},
	{"dead-1m", "1,000,000 jobs are exhausted when their TTR ends, and go to a dead-letter tube", "others at most 20 ms", eachMillion(exhaustMany)},
	{"keys-1m", "1,000,000 keys stay taken for a while when their jobs are flushed, and then do not", "others at most 20 ms", eachMillion(keysMany)},
}

// million is the number of their jobs.
const million = 1_000_000

// eachMillion runs an attack on each cluster of onMillions, with a client of its own.
func eachMillion(attack func(*clusterPair, *client.Conn) error) func(*run) error {
	return func(r *run) error {
		return r.onMillions(func(m *clusterPair) error {
			c, err := dial(m.instances[0].addr)
			if err != nil {
				return err
			}
			defer c.Close()
			return attack(m, c)
		})
	}
}

// command is a step that runs a command while bystanders work.
func (m *clusterPair) command(c *client.Conn, format string, args ...any) func() error {
	text := fmt.Sprintf(format, args...)
	return m.measured(text, func() error { _, err := command(c, "%s", text); return err })
}

// measured is a step that does something while bystanders work.
func (m *clusterPair) measured(what string, do func() error) func() error {
	return func() error { return m.beside(what, do) }
}

// inTurn runs steps until one fails.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// put is a step that puts a million jobs.
func put(c *client.Conn, tube string, delay int) func() error {
	return func() error { return putMany(c, tube, million, 10, delay, 600) }
}

// idle is a step in which nothing is done for a while.
func idle(d time.Duration) func() error {
	return func() error { time.Sleep(d); return nil }
}

func flushMany(m *clusterPair, c *client.Conn) error {
	return inTurn(
		m.measured("nothing", idle(3*time.Second)),
		put(c, "from", 0),
		m.command(c, "move-jobs from ready to %d", million),
		m.command(c, "flush-tube to"),
		put(c, "held", 0),
		reserveAll(c, "held"),
		m.command(c, "flush-tube held reserved"),
	)
}

// reserveAll is a step that reserves a million jobs of a tube, and drops their ids.
func reserveAll(c *client.Conn, tube string) func() error {
	return func() error { _, err := reserveMany(c, tube, million); return err }
}

func listMany(m *clusterPair, c *client.Conn) error {
	list := func(tube, state string, pages int) func() error {
		what := fmt.Sprintf("%d pages of %s", pages, state)
		return m.measured(what, func() error { return listPages(c, tube, state, pages) })
	}
	var ids []uint64
	return inTurn(
		put(c, "later", 3600),
		list("later", "delayed", 100),
		put(c, "held", 0),
		list("held", "ready", 100),
		func() (err error) { ids, err = reserveMany(c, "held", million); return err },
		list("held", "reserved", 2),
		func() error {
			return bulk(c, len(ids), client.Other, func(out []byte, i int) []byte { return fmt.Appendf(out, "bury %d 1\r\n", ids[i]) })
		},
		list("held", "buried", 100),
		m.command(c, "kick %d", million),
	)
}

// listPages lists the first pages of the jobs of a tube.
func listPages(c *client.Conn, tube, state string, pages int) error {
	cursor := ""
	for range pages {
		page, err := c.Page(strings.TrimRight(fmt.Sprintf("list-jobs %s %s 1000 %s", tube, state, cursor), " "))
		if err != nil {
			return err
		}
		next, _ := page.Value("next")
		if cursor = strings.Trim(next, `"`); cursor == "" {
			return fmt.Errorf("there is no next page of %s", state)
		}
	}
	return nil
}

// putAllDue puts a million delayed jobs that are due within a second, some time from now.
func putAllDue(c *client.Conn, tube string, in time.Duration) (due time.Time, err error) {
	if _, err := command(c, "use %s", tube); err != nil {
		return due, err
	}
	due = time.Now().Add(in)
	return due, bulk(c, million, client.Inserted, func(out []byte, _ int) []byte {
		return client.AppendPut(out, 1, max(int(time.Until(due)/time.Second), 1), ttr, []byte("due"))
	})
}

const (
	// dueIn is how long a million jobs may take to be put.
	dueIn = 40 * time.Second

	// ttr is the TTR of jobs that are to expire, in seconds. Measuring starts a second before the
	// first one ends.
	ttr = 30
)

// expired is a step in which the reservations of all jobs expire that reserve has made in the tube
// held.
func (m *clusterPair) expired(what string, reserve func() error) func() error {
	return func() error {
		begun := time.Now()
		if err := reserve(); err != nil {
			return err
		}
		time.Sleep(time.Until(begun.Add((ttr - 1) * time.Second)))
		return m.beside(what, m.allReady)
	}
}

// allReady waits until a million jobs are ready.
func (m *clusterPair) allReady() error { return awaitReady(m.instances[0], million) }

func expireMany(m *clusterPair, c *client.Conn) error {
	return inTurn(
		func() error {
			due, err := putAllDue(c, "held", dueIn)
			time.Sleep(time.Until(due) - 2*time.Second)
			return err
		},
		m.measured("delays", m.allReady),
		m.expired("TTRs", reserveAll(c, "held")),
	)
}

func exhaustMany(m *clusterPair, c *client.Conn) error {
	return inTurn(
		m.putTagged(c, "dies", func(int) string { return "max:1 dead:held" }),
		m.expired("dead letters", reserveAll(c, "dies")),
	)
}

// putTagged is a step that puts a million jobs with tags.
func (m *clusterPair) putTagged(c *client.Conn, tube string, tags func(i int) string) func() error {
	return func() error {
		if _, err := command(c, "use %s", tube); err != nil {
			return err
		}
		return bulk(c, million, client.Inserted, func(out []byte, i int) []byte {
			return fmt.Appendf(out, "put 1 0 %d 4 %s\r\nbody\r\n", ttr, tags(i))
		})
	}
}

func keysMany(m *clusterPair, c *client.Conn) error {
	return inTurn(
		m.putTagged(c, "held", func(i int) string { return fmt.Sprintf("key:order-%d key-ttl:10s", i) }),
		m.command(c, "flush-tube held"),
		m.measured("keys", idle(15*time.Second)),
	)
}
