package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// compareCommand is "stalkbench compare": the same loads on several servers.
func compareCommand() *cli.Command {
	return &cli.Command{
		Name:  "compare",
		Usage: "start several servers in turn and run the same loads on each",
		Description: "A server is name=command, in which {port}, {port2} and {dir} are filled in, or\n" +
			"name=pre: helper command ;; command. The helper, such as a database, is\n" +
			"started before the server and measured beside it. Each server is started\n" +
			"anew for every load, on a free loopback port. One whose command has {cert}\n" +
			"and {key}, which become the files of a certificate, is used with TLS at\n" +
			"{port}; one with {access}, a file of users, as a user of it.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "servers", Required: true, Usage: "one or more `NAME=COMMAND`"},
			&cli.IntFlag{Name: "rounds", Value: 3, Usage: "times to run every load on every server"},
			&cli.StringFlag{Name: "loads", Value: defaultLoads, Usage: "`NAMES` of loads, with commas"},
			&cli.DurationFlag{Name: "duration", Value: 5 * time.Second, Usage: "of each load"},
			&cli.IntFlag{Name: "threads", Value: 1, Usage: "threads of the generator"},
			&cli.StringFlag{Name: "markdown", Usage: "write the table to `FILE` as Markdown"},
			&cli.StringFlag{Name: "svg", Usage: "draw the throughput into `FILE`"},
		},
		Action: compareAction,
	}
}

// spreadServers lets several servers follow --servers, which the flag
// package does not allow: it repeats the flag before each word that is not a flag.
func spreadServers(args []string) []string {
	var out []string
	in := false
	for _, a := range args {
		switch {
		case a == "--servers" || a == "-servers":
			in = true
			continue
		case in && strings.HasPrefix(a, "-"):
			in = false
		case in:
			out = append(out, "--servers")
		}
		out = append(out, a)
	}
	return out
}

func compareAction(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("unexpected argument %q", c.Args().First())
	}
	cmp := &comparison{rounds: c.Int("rounds"), progress: c.App.ErrWriter}
	for _, spec := range c.StringSlice("servers") {
		s, err := parseServer(spec)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(cmp.servers, func(o server) bool { return o.name == s.name }) {
			return fmt.Errorf("two servers are named %s", s.name)
		}
		cmp.servers = append(cmp.servers, s)
	}
	for _, name := range strings.Split(c.String("loads"), ",") {
		l, err := loadNamed(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		l.Duration, l.Threads = c.Duration("duration"), c.Int("threads")
		if err := l.check(); err != nil {
			return fmt.Errorf("load %s: %w", l.Name, err)
		}
		cmp.loads = append(cmp.loads, l)
	}
	if cmp.rounds < 1 {
		return errors.New("there must be 1 round or more")
	}
	runErr := cmp.run(c.Context)
	rows := cmp.rows()
	writeTable(c.App.Writer, rows)
	return errors.Join(runErr, cmp.save(c.String("markdown"), c.String("svg"), rows))
}

// A comparison is servers, loads and the results of the runs.
type comparison struct {
	servers  []server
	loads    []load
	rounds   int
	progress io.Writer
	results  map[cell][]*result // of each round, nil if there is none
}

// A cell is one server under one load, by their indexes.
type cell struct{ server, load int }

// run runs every load on every server, round by round. The servers take turns,
// so that other work on the machine affects all of them. A run that
// fails is reported and left out, and the rest continue.
func (c *comparison) run(ctx context.Context) error {
	c.results = make(map[cell][]*result)
	var failed []error
	for round := range c.rounds {
		for li := range c.loads {
			for si := range c.servers {
				res, err := c.once(ctx, &c.servers[si], c.loads[li])
				if ctx.Err() != nil {
					return errors.Join(append(failed, ctx.Err())...)
				}
				if err != nil {
					err = fmt.Errorf("%s under %s: %w", c.servers[si].name, c.loads[li].Name, err)
					failed = append(failed, err)
					fmt.Fprintf(c.progress, "round %d/%d  %v\n", round+1, c.rounds, err)
				}
				at := cell{si, li}
				c.results[at] = append(c.results[at], res)
				if res == nil {
					continue
				}
				fmt.Fprintf(c.progress, "round %d/%d  %-16s %-16s %9.0f ops/s\n",
					round+1, c.rounds, c.servers[si].name, c.loads[li].Name, res.OpsPerSec)
			}
		}
	}
	return errors.Join(failed...)
}

// once starts a server, runs a load on it and stops it.
func (c *comparison) once(ctx context.Context, s *server, l load) (*result, error) {
	r, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	res, err := runLoad(ctx, r.target, l, r.pids())
	if err != nil {
		return nil, err
	}
	return res, res.verdict()
}

// save writes the Markdown and SVG files, those whose names are not empty.
func (c *comparison) save(markdown, svg string, rows []row) error {
	var errs []error
	write := func(name, what string, fill func(io.Writer)) {
		if name == "" {
			return
		}
		var b strings.Builder
		fill(&b)
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("writing the %s: %w", what, err))
		}
	}
	write(markdown, "table", func(w io.Writer) { writeMarkdown(w, c, rows) })
	write(svg, "plot", func(w io.Writer) { writeSVG(w, rows) })
	return errors.Join(errs...)
}
