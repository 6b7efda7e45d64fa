package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
	"redstalk/protocol/migrate"
)

func moveFromCommand() *cli.Command {
	return &cli.Command{
		Name: "move-from", ArgsUsage: "ADDR", Action: withDialer(arguments{1, 1}, moveFrom),
		Usage: "migrate all jobs from another beanstalk server, while both serve",
		Description: "Moves ready jobs, delayed ones with the rest of their delay, and buried ones, tube by tube. No job is lost, and none can be reserved on both servers. " +
			"Jobs get new ids, and their counters start at 0. Between two redstalks their tags come with them. After any interruption, run it again to continue. Jobs that workers have reserved there " +
			"stay with them: --wait waits for them.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "`ADDR` of the redstalk that receives the jobs, instead of --server"},
			&cli.Float64Flag{Name: "rate", Value: 2000, Usage: "move at most `N` jobs a second; 0 for no limit"},
			&cli.IntFlag{Name: "at-once", Value: 8, Usage: "move `N` jobs at the same time, which cannot be reserved on either server meanwhile; with 1 the jobs of a tube keep their exact order"},
			&cli.BoolFlag{Name: "wait", Usage: "continue until the other server has no jobs left, not even reserved ones"},
		},
	}
}

// moveCounts counts the moved jobs by tube and state.
type moveCounts struct {
	mu    sync.Mutex
	tubes []string // in order of their first job
	jobs  map[string]map[migrate.State]int
	bar   *progress
}

func (n *moveCounts) add(tube string, s migrate.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.jobs[tube] == nil {
		n.jobs[tube] = make(map[migrate.State]int)
		n.tubes = append(n.tubes, tube)
	}
	n.jobs[tube][s]++
	n.bar.add(1)
}

func moveFrom(t *task) error {
	from := t.Args().First()
	if migrate.Validate(from) != nil {
		return usage("%q is not the address of a server: HOST:PORT or unix:PATH", from)
	}
	if to := t.String("to"); to != "" {
		t.dialer.addr = to
	}
	if t.Int("at-once") < 1 || t.Int("at-once") > 1000 || t.Float64("rate") < 0 {
		return usage("--at-once must be 1 to 1000, and --rate not negative")
	}
	old, err := client.Dial(from, t.dialer.limit)
	if err != nil {
		return failure{exitServer, err}
	}
	defer old.Close()
	old.Timeout = t.dialer.limit
	var all uint64
	err = t.watchSilenceOf(from, "it hangs, or it is no beanstalk server", func() (err error) {
		all, err = jobsOf(old)
		return err
	})
	if err != nil {
		return connectionError("asking "+from, err)
	}
	err = t.watchSilence(func() error {
		here, err := t.newRemote()
		if err == nil {
			here.Close()
		}
		return err
	})
	if err != nil {
		return connectionError("asking "+t.dialer.addr, err)
	}
	n := &moveCounts{jobs: make(map[string]map[migrate.State]int), bar: startProgress(t, "moving", all)}
	m := &migrate.Mover{
		Connect:   func(context.Context) (*migrate.Migrator, error) { return t.newMigrator(from) },
		Migrators: t.Int("at-once"), Rate: t.Float64("rate"), WaitReserved: t.Bool("wait"), OnMigrated: n.add,
	}
	began := time.Now()
	moved, left, err := m.Run(t.Context.Context)
	n.bar.end()
	return errors.Join(n.print(t), t.printMove(from, moved, left, time.Since(began), err), t.printConnected(from, old))
}

// printConnected reports that clients still use the old server, whose next jobs would be left there.
func (t *task) printConnected(from string, old *client.Conn) error {
	others := uint64(0)
	for end := time.Now().Add(time.Second); ; { // a server can take a moment to notice that the connections of the move have ended
		page, err := old.Page("stats")
		if err != nil {
			return nil // the move itself has said what is wrong
		}
		if others = max(numberOf(page, "current-connections"), 1) - 1; others == 0 || !time.Now().Before(end) || t.Context.Context.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if others > 0 {
		t.infof("redstalk: %s still connected to %s: move again when they use the new server", nounFor(others, "client"), from)
	}
	return nil
}

// jobsOf returns the number of jobs of a server that can be moved.
func jobsOf(c *client.Conn) (n uint64, err error) {
	page, err := c.Page("stats")
	for _, state := range []string{"ready", "delayed", "buried"} {
		value, _ := page.Value("current-jobs-" + state)
		jobs, _ := strconv.ParseUint(value, 10, 64)
		n += jobs
	}
	return n, err
}

// newRemote connects to the server that receives the jobs.
func (t *task) newRemote() (*migrate.Remote, error) {
	to, err := t.dialer.connect()
	if err != nil {
		return nil, err
	}
	here, err := migrate.NewRemote(to)
	if err != nil {
		to.Close()
		if timeout := net.Error(nil); errors.As(err, &timeout) {
			return nil, err
		}
		return nil, failure{exitExtension, err}
	}
	return here, nil
}

// newMigrator makes a migrator with its connections to both servers.
func (t *task) newMigrator(from string) (*migrate.Migrator, error) {
	here, err := t.newRemote()
	if err != nil {
		return nil, err
	}
	old, err := client.Dial(from, t.dialer.limit)
	if err != nil {
		here.Close()
		return nil, failure{exitServer, err}
	}
	old.Timeout = t.dialer.limit
	c, err := migrate.New(old, from, here)
	if err != nil {
		old.Close()
		here.Close()
	}
	return c, err
}

// print prints how many jobs of each tube were moved.
func (n *moveCounts) print(t *task) error {
	for _, tube := range n.tubes {
		counts := n.jobs[tube]
		if t.Bool("json") {
			line, err := json.Marshal(map[string]any{"tube": tube, "ready": counts[migrate.Ready], "delayed": counts[migrate.Delayed], "buried": counts[migrate.Buried]})
			if err != nil {
				return err
			}
			fmt.Fprintf(t.out, "%s\n", line)
			continue
		}
		fmt.Fprintf(t.out, "%s: %d ready, %d delayed, %d buried\n", tube, counts[migrate.Ready], counts[migrate.Delayed], counts[migrate.Buried])
	}
	return nil
}

// printMove reports the result of a move.
func (t *task) printMove(from string, moved uint64, left migrate.Left, took time.Duration, err error) error {
	t.infof("redstalk: %s moved from %s in %v", nounFor(int(moved), "job"), from, took.Round(time.Millisecond))
	switch {
	case t.Context.Context.Err() != nil:
		return interrupted("run the same command again to continue")
	case errors.Is(err, migrate.ErrBusy):
		return failure{exitFailed, err}
	case err != nil:
		return fmt.Errorf("%w (when that is fixed, run the same command again to continue)", err)
	}
	if left.Reserved > 0 {
		t.infof("redstalk: %s left, reserved by workers: run the same command again when these are done", nounFor(left.Reserved, "job"))
	}
	if left.Less > 0 {
		t.infof("redstalk: %s moved without a tag that the new server does not know, a key that another job has there, or the tube of which it is a dead letter", nounFor(int(left.Less), "job"))
	}
	if left.Notes > 0 {
		t.infof("redstalk: %s left of unfinished moves from other addresses", nounFor(left.Notes, "job"))
	}
	return nil
}
