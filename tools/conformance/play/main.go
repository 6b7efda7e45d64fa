// Command transcript plays the transcripts of testdata/transcripts: on
// any server (check), on the real beanstalkd (oracle), or on the
// real beanstalkd with its replies written into the files (record). See
// package redstalk/tools/conformance/transcript for the format.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"redstalk/tools/conformance/transcript"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := app().RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "transcript:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	slack := &cli.DurationFlag{Name: "slack", Value: 50 * time.Millisecond, Usage: "how late a timed reply may come"}
	jobs := &cli.IntFlag{Name: "jobs", Aliases: []string{"j"}, Value: 8, Usage: "transcripts played at the same time"}
	return &cli.App{
		Name:  "transcript",
		Usage: "play written dialogues with a work-queue server",
		Commands: []*cli.Command{
			{
				Name: "check", ArgsUsage: "FILE...", Action: check,
				Usage: "play on a server that runs already (--addr), one after another, or on one started for each file (--server)",
				Flags: []cli.Flag{slack, jobs,
					&cli.StringFlag{Name: "addr", Usage: "host:port or unix:PATH of a running server; counters and ids are only right if it is fresh"},
					&cli.IntFlag{Name: "pid", Usage: "process to signal, for transcripts that do, with --addr"},
					&cli.StringFlag{Name: "server", Usage: "binary to start for each file, as BINARY -l unix:PATH FLAGS"},
					&cli.StringFlag{Name: "kind", Value: "redstalk", Usage: "selects the only-blocks"},
				},
			},
			{
				Name: "oracle", ArgsUsage: "FILE...", Action: oracle, Flags: []cli.Flag{slack, jobs},
				Usage: "play on the real beanstalkd, one server for each file",
			},
			{
				Name: "record", ArgsUsage: "FILE...", Action: record,
				Usage: "play on the real beanstalkd and rewrite the replies in the files",
			},
		},
	}
}

// player plays one transcript somewhere.
type player func(ctx context.Context, t *transcript.Transcript) error

// on plays on a server that start runs for each transcript.
func on(c *cli.Context, start func(dir string, flags ...string) (*transcript.Server, error)) player {
	return func(ctx context.Context, t *transcript.Transcript) error {
		return transcript.PlayInTime(ctx, t, func() (transcript.Target, func(), error) {
			dir, err := os.MkdirTemp("", "transcript")
			if err != nil {
				return transcript.Target{}, nil, err
			}
			srv, err := start(dir, t.Flags()...)
			if err != nil {
				os.RemoveAll(dir)
				return transcript.Target{}, nil, err
			}
			target := srv.Target()
			target.Slack = c.Duration("slack")
			return target, func() { srv.Stop(); os.RemoveAll(dir) }, nil
		})
	}
}

func oracle(c *cli.Context) error {
	return playAll(c, c.Int("jobs"), on(c, transcript.StartBeanstalkd))
}

func check(c *cli.Context) error {
	if bin := c.String("server"); bin != "" {
		return playAll(c, c.Int("jobs"), on(c, func(dir string, flags ...string) (*transcript.Server, error) {
			return transcript.Start(c.String("kind"), bin, dir, flags...)
		}))
	}
	if c.String("addr") == "" {
		return errors.New("check needs --addr or --server")
	}
	target := transcript.Target{Kind: c.String("kind"), Slack: c.Duration("slack"), Dial: dialer(c.String("addr"))}
	if pid := c.Int("pid"); pid > 0 {
		target.Signal = func(s os.Signal) error {
			p, err := os.FindProcess(pid)
			if err != nil {
				return err
			}
			return p.Signal(s)
		}
	}
	return playAll(c, 1, func(ctx context.Context, t *transcript.Transcript) error {
		return transcript.Play(ctx, t, target)
	})
}

func dialer(addr string) func() (net.Conn, error) {
	network := "tcp"
	if len(addr) > 5 && addr[:5] == "unix:" {
		network, addr = "unix", addr[5:]
	}
	return func() (net.Conn, error) { return net.Dial(network, addr) }
}

// playAll plays the files of the command line, at most n concurrently, and
// reports each failure.
func playAll(c *cli.Context, n int, play player) error {
	if c.NArg() == 0 {
		return errors.New("no files given")
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed int
		slots  = make(chan struct{}, max(n, 1))
	)
	for _, file := range c.Args().Slice() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t, err := transcript.LoadFile(file)
			if err == nil {
				err = play(c.Context, t)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				fmt.Println(err)
			}
		})
	}
	wg.Wait()
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, c.NArg())
	}
	fmt.Printf("%d played as written\n", c.NArg())
	return nil
}

func record(c *cli.Context) error {
	if c.NArg() == 0 {
		return errors.New("no files given")
	}
	for _, file := range c.Args().Slice() {
		if err := recordFile(c.Context, file); err != nil {
			return err
		}
	}
	return nil
}

// recordFile rewrites one file, if anything in it changes.
func recordFile(ctx context.Context, file string) error {
	t, err := transcript.LoadFile(file)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "transcript")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	srv, err := transcript.StartBeanstalkd(dir, t.Flags()...)
	if err != nil {
		return err
	}
	defer srv.Stop()
	text, err := transcript.Record(ctx, t, srv.Target())
	if err != nil {
		return err
	}
	old, err := os.ReadFile(file)
	if err != nil || string(old) == text {
		return err
	}
	fmt.Println("rewritten:", file)
	return os.WriteFile(file, []byte(text), 0o644)
}
