package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"redstalk/tools/bench/attack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newApp().RunContext(ctx, spreadServers(os.Args)); err != nil {
		fmt.Fprintln(os.Stderr, "stalkbench:", err)
		os.Exit(1)
	}
}

func newApp() *cli.App {
	return &cli.App{
		Name:                      "stalkbench",
		Usage:                     "load beanstalk servers and measure throughput, latency and cost",
		DisableSliceFlagSeparator: true, // a server's command line may hold commas
		Commands:                  []*cli.Command{runCommand(), compareCommand(), attackCommand()},
	}
}

// runCommand is "stalkbench run": one load on a server that is already running.
func runCommand() *cli.Command {
	l := baseLoad()
	return &cli.Command{
		Name:  "run",
		Usage: "run one load on a running server",
		Flags: append(targetFlags(),
			&cli.StringFlag{Name: "load", Usage: "start from the load `NAME` of compare; the other flags change it"},
			&cli.StringFlag{Name: "mode", Value: l.Mode, Usage: "put, cycle, pc, delayed, expire or http"},
			&cli.IntFlag{Name: "conns", Value: l.Conns, Usage: "connections"},
			&cli.IntFlag{Name: "pipeline", Value: l.Pipeline, Usage: "commands in one write; http: jobs in one request"},
			&cli.IntFlag{Name: "body", Value: l.Body, Usage: "`BYTES` of a job's body"},
			&cli.IntFlag{Name: "tubes", Value: l.Tubes, Usage: "tubes over which the connections spread"},
			&cli.IntFlag{Name: "idle-tubes", Usage: "more tubes, with one ready job each"},
			&cli.IntFlag{Name: "groups", Usage: "groups of the jobs in each tube, with a limit that does not bind; 0: none"},
			&cli.IntFlag{Name: "backlog", Usage: "jobs put before the load, into a tube of their own"},
			&cli.BoolFlag{Name: "backlog-same", Usage: "put the backlog into the tubes under load"},
			&cli.IntFlag{Name: "delay", Value: l.Delay, Usage: "mode delayed: `SECONDS` of each job's delay"},
			&cli.IntFlag{Name: "ttr", Value: l.TTR, Usage: "mode expire: `SECONDS` of each job's TTR"},
			&cli.IntFlag{Name: "rate", Value: l.Rate, Usage: "modes delayed and expire: jobs put per second in all"},
			&cli.DurationFlag{Name: "duration", Value: l.Duration, Usage: "how long to load the server"},
			&cli.IntFlag{Name: "threads", Value: l.Threads, Usage: "threads of the generator"},
			&cli.BoolFlag{Name: "blocking", Usage: "a goroutine per connection instead of an epoll loop"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the jobs on the server"},
			&cli.IntSliceFlag{Name: "pid", Usage: "measure process `PID`; can be repeated"},
			&cli.BoolFlag{Name: "json", Usage: "print the result as JSON"},
		),
		Action: runAction,
	}
}

func runAction(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("unexpected argument %q", c.Args().First())
	}
	l, err := loadOf(c)
	if err != nil {
		return err
	}
	t, err := targetOf(c)
	if err != nil {
		return err
	}
	res, err := runLoad(c.Context, t, l, c.IntSlice("pid"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := res.writeJSON(c.App.Writer); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	} else {
		res.writeText(c.App.Writer)
	}
	return res.verdict()
}

// attackCommand is "stalkbench attack": what hurts queue servers, on servers that it starts.
func attackCommand() *cli.Command {
	return &cli.Command{
		Name:  "attack",
		Usage: "run what hurts queue servers on a redstalkd, and measure the effect on other clients",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bin", Value: "bin/redstalkd", Usage: "the server's `PROGRAM`"},
			&cli.StringFlag{Name: "only", Usage: "the attacks to run, `NAMES` with commas; all if it is empty"},
			&cli.StringFlag{Name: "on", Usage: "for attacks with a million jobs: the only `ENGINE` to use, or 'redis in 16 partitions'"},
			&cli.BoolFlag{Name: "list", Usage: "print the attacks, and end"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("unexpected argument %q", c.Args().First())
			}
			if c.Bool("list") {
				attack.List(c.App.Writer)
				return nil
			}
			return attack.Run(c.String("bin"), c.String("only"), c.String("on"))
		},
	}
}

// loadOf reads a load from the flags: those given change the named load, or the
// base one.
func loadOf(c *cli.Context) (load, error) {
	l := baseLoad()
	if name := c.String("load"); name != "" {
		var err error
		if l, err = loadNamed(name); err != nil {
			return l, err
		}
	}
	ints := map[string]*int{
		"conns": &l.Conns, "pipeline": &l.Pipeline, "body": &l.Body, "tubes": &l.Tubes,
		"idle-tubes": &l.IdleTubes, "groups": &l.Groups, "backlog": &l.Backlog, "delay": &l.Delay,
		"ttr": &l.TTR, "rate": &l.Rate, "threads": &l.Threads,
	}
	for name, to := range ints {
		if c.IsSet(name) {
			*to = c.Int(name)
		}
	}
	bools := map[string]*bool{"backlog-same": &l.BacklogSame, "blocking": &l.Blocking, "keep": &l.Keep}
	for name, to := range bools {
		if c.IsSet(name) {
			*to = c.Bool(name)
		}
	}
	if c.IsSet("mode") {
		l.Mode = c.String("mode")
	}
	if c.IsSet("duration") {
		l.Duration = c.Duration("duration")
	}
	return l, l.check()
}
