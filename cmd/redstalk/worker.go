package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"redstalk/protocol/client"
)

// work is reserve --exec: a number of workers, each with a connection of its own, on which it
// reserves a job, runs the command, touches the job meanwhile, and deletes, releases or
// buries it.
func work(t *task, tubes []string, wait time.Duration) error {
	w := &workers{task: t, tubes: tubes, wait: wait, command: t.String("exec"), left: t.Int("count"), onFailure: t.String("on-failure")}
	if err := w.check(); err != nil {
		return err
	}
	killCtx, stop := context.WithCancel(context.Background())
	defer stop()
	defer w.watchSignals(stop)()
	defer context.AfterFunc(t.Context.Context, func() { t.infof("redstalk: taking no more jobs, waiting for those that run") })()
	errs := make(chan error, t.Int("jobs"))
	for range t.Int("jobs") {
		go func() { errs <- w.run(killCtx) }()
	}
	var err error
	for range t.Int("jobs") {
		err = errors.Join(err, <-errs)
	}
	t.infof("redstalk: %s done, %d failed", nounFor(w.done, "job"), w.failed)
	switch {
	case err != nil:
		return err
	case killCtx.Err() != nil:
		return interrupted("what ran was ended, and its jobs given back")
	case w.failed > 0:
		return failure{exitJobs, errors.New("")}
	}
	return nil
}

// workers are what the workers of one run share.
type workers struct {
	*task
	tubes     []string
	wait      time.Duration
	command   string
	onFailure string // what happens to jobs that fail

	mu           sync.Mutex
	left         int // jobs that may still be begun, if --count bounds them
	done, failed int
}

func (w *workers) check() error {
	switch {
	case w.command == "":
		return usage("--exec needs a command")
	case w.Int("jobs") < 1 || w.Int("jobs") > 10000:
		return usage("--jobs must be from 1 to 10000")
	case w.left < 0:
		return usage("--count must not be negative")
	case w.Bool("delete"):
		return usage("--delete and --exec exclude each other: --exec deletes what was done")
	case w.onFailure != "auto" && w.onFailure != "release" && w.onFailure != "bury":
		return usage("--on-failure is release, bury or auto")
	}
	return nil
}

// watchSignals has the second signal kill what runs. The first one has ended the context of the
// command.
func (w *workers) watchSignals(kill func()) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		first := w.Context.Context.Err() == nil
		for range signals {
			if !first {
				kill()
			}
			first = false
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

// takeSlot takes one from the jobs that may be begun.
func (w *workers) takeSlot() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Int("count") == 0 {
		return true
	}
	w.left--
	return w.left >= 0
}

// returnSlot gives it back, as no job came.
func (w *workers) returnSlot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left++
}

// pauses are those between attempts to connect again.
var pauses = []time.Duration{time.Second / 10, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}

// run is one worker. It ends when there are no more jobs, or when the command is told to end. If
// it waits for jobs it outlives its connection.
func (w *workers) run(killCtx context.Context) error {
	ctx := w.Context.Context
	for attempt := 0; ; attempt++ {
		began := false
		err := w.runOnce(killCtx, &began)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if w.wait == 0 || codeOf(err) != exitServer || !began && attempt == 0 {
			return err
		}
		if began {
			attempt = 0
		}
		w.infof("redstalk: %v; connecting again", err)
		select {
		case <-time.After(pauses[min(attempt, len(pauses)-1)]):
		case <-ctx.Done():
			return nil
		}
	}
}

// runOnce works on one connection. began says whether it could be made.
func (w *workers) runOnce(killCtx context.Context, began *bool) error {
	conn, err := w.dialer.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	*began = true
	if err := watch(conn, w.tubes); err != nil {
		return err
	}
	for w.Context.Context.Err() == nil && w.takeSlot() {
		var c *current
		err := awaitJob(w.Context.Context, conn, w.dialer.limit, "reserve-with-timeout", w.wait, func(r *client.Reply) {
			c = &current{workers: w, conn: conn, id: r.ID, body: bytes.Clone(r.Body)}
		})
		if c == nil {
			w.returnSlot()
		}
		if err != nil || c == nil {
			return err
		}
		if err := c.process(killCtx); err != nil {
			return err
		}
	}
	return nil
}

// current is a job that a worker has reserved.
type current struct {
	*workers
	conn *client.Conn
	id   uint64
	body []byte
	job  job
	lost bool // the reservation has ended before the command
}

// process runs the command and settles the job. Its error is one of the connection.
func (c *current) process(killCtx context.Context) error {
	if err := c.readStats(); err != nil {
		return err
	}
	end := make(chan error, 1)
	began := time.Now()
	cmd, err := c.start(end)
	if err != nil {
		return err // it is not the job that failed: it comes back with the end of the connection
	}
	err = c.waitAndTouch(killCtx, cmd, end)
	if killCtx.Err() != nil {
		return interrupted("job given back") // with the connection
	}
	how, settled := c.finish(err)
	c.record(how, err, time.Since(began))
	return settled
}

// request sends a command on the worker's connection and hands over its reply.
func (c *current) request(command string, take func(*client.Reply)) error {
	err := c.conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error { take(r); return nil })
	if err != nil {
		return connectionError(fmt.Sprintf("job %d", c.id), err)
	}
	return nil
}

// readStats asks for the TTR of the job, and what else the command may want to know.
func (c *current) readStats() error {
	return c.request(fmt.Sprintf("stats-job %d", c.id), func(r *client.Reply) {
		if r.Word == client.OK {
			c.job.readPage(client.Page(r.Body))
		}
	})
}

// start starts the command. What ends it comes by the channel. It has a process group of its
// own, so that the signals of a terminal reach redstalk only.
func (c *current) start(end chan<- error) (*exec.Cmd, error) {
	in, err := wholeInput(c.body)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd := exec.Command("/bin/sh", "-c", c.command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, raw(c.out), raw(c.err)
	if c.Bool("json") {
		cmd.Stdout = cmd.Stderr
	}
	cmd.Env = append(withoutSecret(os.Environ()),
		fmt.Sprintf("REDSTALK_JOB_ID=%d", c.id), "REDSTALK_JOB_TUBE="+c.job.Tube, fmt.Sprintf("REDSTALK_JOB_RESERVES=%d", c.job.Reserves))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for what the command has left behind with our output open
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the command: %w", err)
	}
	go func() { end <- commandError(cmd.Wait()) }()
	return cmd, nil
}

// withoutSecret returns an environment without the secret of redstalk, which the command has no
// use for.
func withoutSecret(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, secretVariable+"=") })
}

// wholeInput is a file without a name that holds a body. A pipe would break if redstalk were
// killed, and its command would take the part of the body that it has for the whole.
func wholeInput(body []byte) (*os.File, error) {
	file, err := os.CreateTemp("", "redstalk-job")
	if err != nil {
		return nil, fmt.Errorf("keeping the body for the command: %w", err)
	}
	os.Remove(file.Name())
	if _, err = file.Write(body); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("keeping the body for the command: %w", err)
	}
	return file, nil
}

// commandError returns how a command has ended: having left something behind is no failure.
func commandError(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// waitAndTouch waits for the end of the command and touches the job three times in its TTR.
func (c *current) waitAndTouch(killCtx context.Context, cmd *exec.Cmd, end <-chan error) error {
	ticker := time.NewTicker(time.Duration(max(c.job.TTR, 1)) * time.Second / 3)
	defer ticker.Stop()
	kill := killCtx.Done()
	for {
		select {
		case err := <-end:
			return err
		case <-ticker.C:
			c.touch()
		case <-kill:
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			kill = nil
		}
	}
}

// touch has the TTR begin anew. If that fails, somebody else may have the job already. The command goes
// on all the same: half of its work may be done.
func (c *current) touch() {
	if c.lost {
		return
	}
	err := c.request(fmt.Sprintf("touch %d", c.id), func(r *client.Reply) { c.lost = string(r.Line) != "TOUCHED" })
	if c.lost = c.lost || err != nil; c.lost {
		c.infof("redstalk: job %d is not reserved any more while its command runs: it may run twice", c.id)
	}
}

// finish tells the server what became of the job, and returns what the server made of that.
func (c *current) finish(failed error) (how string, err error) {
	command, want := fmt.Sprintf("delete %d", c.id), "DELETED"
	if failed != nil {
		release, err := c.shouldRelease()
		if err != nil {
			return "lost", err
		}
		command, want = fmt.Sprintf("bury %d %d", c.id, c.job.Priority), "BURIED"
		if release {
			command, want = fmt.Sprintf("release %d %d %d", c.id, c.job.Priority, wholeSeconds(c.duration("delay"))), "RELEASED"
		}
	}
	how = "lost"
	err = c.request(command, func(r *client.Reply) {
		if string(r.Line) == want {
			how = strings.ToLower(want)
		}
	})
	return how, err
}

// shouldRelease tells whether a job that has failed is released.
func (c *current) shouldRelease() (bool, error) {
	if c.onFailure != "auto" {
		return c.onFailure == "release", nil
	}
	if len(c.job.Retry) > 0 || c.job.Max > 0 {
		return true, nil
	}
	has := false
	err := c.request("get-policy "+c.job.Tube, func(r *client.Reply) {
		if r.Word == client.OK {
			_, retry := client.Page(r.Body).Value("retry")
			_, most := client.Page(r.Body).Value("max")
			has = retry || most
		}
	})
	return has, err
}

// record counts the job, and says what became of it: everything by --json, otherwise what went
// wrong.
func (c *current) record(how string, failed error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if how == "deleted" {
		c.done++
	} else {
		c.failed++
	}
	if c.Bool("json") {
		code := 0
		var exit *exec.ExitError
		if errors.As(failed, &exit) {
			code = exit.ExitCode()
		} else if failed != nil {
			code = -1
		}
		c.printJSON(map[string]any{"id": c.id, "tube": c.job.Tube, "exit": code, "result": how, "took_ms": took.Milliseconds()})
		return
	}
	if failed != nil {
		c.infof("redstalk: job %s failed (%v) and was %s", strconv.FormatUint(c.id, 10), failed, how)
	} else if how != "deleted" {
		c.infof("redstalk: job %d was done, but could not be deleted: it comes again", c.id)
	}
}
