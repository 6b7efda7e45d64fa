package main

import (
	"bytes"
	"cmp"
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

	"redstalk/protocol"
	"redstalk/protocol/client"
)

// work is reserve --exec. It runs several workers, each with its own connection. A worker
// reserves a job, runs the command, touches the job meanwhile, and then deletes, releases or
// buries it.
func work(t *task, tubes []string, wait time.Duration) error {
	w := &workers{task: t, tubes: tubes, wait: wait, command: t.String("exec"), left: t.Int("count"), onFailure: t.String("on-failure")}
	if err := w.check(); err != nil {
		return err
	}
	killCtx, stop := context.WithCancel(context.Background())
	defer stop()
	var stopReaping func()
	w.reaper, stopReaping = newReaper()
	defer stopReaping()
	defer w.watchSignals(stop)()
	defer context.AfterFunc(t.Context.Context, func() { t.infof("redstalk: taking no more jobs, waiting for running commands") })()
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
		return interrupted("running commands were killed, and their jobs released")
	case w.failed > 0:
		return failure{exitJobs, errors.New("")}
	}
	return nil
}

// workers is the shared state of the workers of one run.
type workers struct {
	*task
	tubes     []string
	wait      time.Duration
	command   string
	onFailure string // what to do with failed jobs
	reaper    *reaper

	mu           sync.Mutex
	left         int // jobs that may still be started, if --count is set
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
		return usage("--delete and --exec cannot be used together: --exec deletes finished jobs")
	case w.onFailure != "auto" && w.onFailure != "release" && w.onFailure != "bury":
		return usage("--on-failure must be release, bury or auto")
	}
	return nil
}

// watchSignals calls kill at the second signal. The first one cancels the context of the
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

// takeSlot reserves one of the jobs that --count allows. It reports false if there are none left.
func (w *workers) takeSlot() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Int("count") == 0 {
		return true
	}
	w.left--
	return w.left >= 0
}

// returnSlot undoes takeSlot, when no job came.
func (w *workers) returnSlot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left++
}

// pauses are the delays between attempts to reconnect.
var pauses = []time.Duration{time.Second / 10, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}

// run is one worker. It ends when there are no more jobs, or when the command is stopped. With
// --wait it reconnects when the connection fails.
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

// runOnce works until a connection fails that no lease outlives. It sets began when the first one is made.
func (w *workers) runOnce(killCtx context.Context, began *bool) error {
	l := &workerConn{workers: w}
	if err := l.connect(); err != nil {
		return err
	}
	defer func() { l.conn.Close() }()
	*began = true
	for w.Context.Context.Err() == nil && w.takeSlot() {
		var c *current
		err := awaitJob(w.Context.Context, l.conn, w.dialer.limit, l.reserve, w.wait, func(r *client.Reply) {
			c = &current{workerConn: l, killCtx: killCtx, id: r.ID, lease: string(r.Rest), leaseEnd: time.Now().Add(w.dialer.limit), body: bytes.Clone(r.Body)}
		})
		if c == nil {
			w.returnSlot()
		}
		if err != nil || c == nil {
			return err
		}
		if err := c.process(); err != nil {
			return err
		}
	}
	return nil
}

// workerConn is the connection of one worker. While the worker has a job with a lease, a new one can replace it.
type workerConn struct {
	*workers
	conn    *client.Conn
	reserve string // the command; with leases, if the server has them: a restart of the server does not end these
	reasons bool   // the server stores why jobs fail
	results bool   // the server keeps results

	checkpoints bool // the server keeps checkpoints
}

// connect makes the connection, or replaces it.
func (l *workerConn) connect() error {
	conn, err := l.dialer.connect()
	if err != nil {
		return err
	}
	if err = watch(conn, l.tubes); err == nil {
		err = conn.Ask([]byte("capabilities\r\n"), 1, func(r *client.Reply) error {
			l.reserve, l.reasons = "reserve-with-timeout", r.Word == client.OK && strings.Contains(string(r.Body), "- reason\n")
			l.results = r.Word == client.OK && strings.Contains(string(r.Body), "- results\n")
			l.checkpoints = r.Word == client.OK && strings.Contains(string(r.Body), "- checkpoint\n")
			if r.Word == client.OK && strings.Contains(string(r.Body), "- lease\n") {
				l.reserve = "reserve-lease"
			}
			return nil
		})
	}
	if err != nil {
		conn.Close()
		return connectionError("asking what the server can do", err)
	}
	if l.conn != nil {
		l.conn.Close()
	}
	l.conn = conn
	return nil
}

// current is a job that a worker has reserved.
type current struct {
	*workerConn
	killCtx  context.Context
	id       uint64
	lease    string    // "": the connection holds the job
	leaseEnd time.Time // with a lease: until when new connections are tried
	body     []byte
	job      job
	lost     bool // the reservation ended before the command
	said     lastLine
	result   firstBytes // what the command prints

	checkpoint checkpointFile
	unsaved    error // why the last checkpoint is not saved
}

// jobCommand returns a command about the job: by its lease, if it has one. more are further arguments.
func (c *current) jobCommand(verb, more string) string {
	if c.lease != "" {
		return fmt.Sprintf("%s-lease %d %s%s", verb, c.id, c.lease, more)
	}
	return fmt.Sprintf("%s %d%s", verb, c.id, more)
}

// process runs the command and finishes the job. Its error is one of the connection.
func (c *current) process() error {
	if err := c.readStats(); err != nil {
		return err
	}
	defer c.checkpoint.remove()
	if err := c.readCheckpoint(); err != nil {
		c.giveBack()
		return err
	}
	end := make(chan error, 1)
	began := time.Now()
	cmd, err := c.start(end)
	if err != nil {
		c.giveBack()
		return err
	}
	err = c.waitAndTouch(cmd, end)
	if err != nil {
		c.unsaved = c.saveCheckpoint()
	}
	if c.killCtx.Err() != nil {
		c.giveBack()
		return interrupted("job released")
	}
	result, finishErr := c.finish(err)
	c.record(result, err, time.Since(began))
	return finishErr
}

// giveBack releases a job that has not failed. Without a lease the end of the connection does it.
func (c *current) giveBack() {
	if c.lease == "" {
		return
	}
	if err := c.request(c.releaseAtOnce(), func(*client.Reply) {}); err != nil {
		c.infof("redstalk: job %d stays reserved until its lease ends: %v", c.id, err)
	}
}

// releaseAtOnce returns the command that releases a job that has not failed.
func (c *current) releaseAtOnce() string {
	more := fmt.Sprintf(" %d 0", c.job.Priority)
	if c.reasons {
		more += " failure:no"
	}
	return c.jobCommand("release", more)
}

// request sends a command on the worker's connection and passes its reply to take.
func (c *current) request(command string, take func(*client.Reply)) error {
	err := c.conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error { take(r); return nil })
	if err != nil {
		return connectionError(fmt.Sprintf("job %d", c.id), err)
	}
	return nil
}

// insist is request, and with a lease repeats it on new connections as long as the lease can last: perhaps the
// server starts again. repeated says that it did.
func (c *current) insist(command string, take func(*client.Reply)) (repeated bool, err error) {
	for attempt := 0; ; attempt++ {
		err = c.request(command, take)
		if err == nil || c.lease == "" || time.Now().After(c.leaseEnd) {
			return attempt > 0, err
		}
		if attempt == 0 {
			c.infof("redstalk: %v; connecting again", err)
		}
		select {
		case <-time.After(pauses[min(attempt, 1)]):
		case <-c.killCtx.Done():
			return true, err
		}
		c.connect() // if that fails, so does the next request
	}
}

// readStats requests the TTR of the job, and the values for the command's environment.
func (c *current) readStats() error {
	_, err := c.insist(fmt.Sprintf("stats-job %d", c.id), func(r *client.Reply) {
		if r.Word == client.OK {
			c.job.readPage(client.Page(r.Body))
			c.leaseEnd = time.Now().Add(c.ttr())
		}
	})
	return err
}

// ttr returns the TTR of the job.
func (c *current) ttr() time.Duration { return time.Duration(max(c.job.TTR, 1)) * time.Second }

// start starts the command. Its result is sent to end. It has its own process group, so that
// signals from a terminal reach only redstalk.
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
	if c.results {
		c.result.to = cmd.Stdout
		cmd.Stdout = &c.result
	}
	if c.reasons {
		c.said.to = cmd.Stderr
		cmd.Stderr = &c.said
	}
	cmd.Env = append(withoutSecret(os.Environ()),
		fmt.Sprintf("REDSTALK_JOB_ID=%d", c.id), "REDSTALK_JOB_TUBE="+c.job.Tube, fmt.Sprintf("REDSTALK_JOB_RESERVES=%d", c.job.Reserves))
	cmd.Env = append(cmd.Env, c.checkpoint.env()...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for processes that the command leaves behind with our output open
	if err := c.reaper.start(cmd); err != nil {
		return nil, fmt.Errorf("starting the command: %w", err)
	}
	go func() { end <- commandError(c.reaper.wait(cmd)) }()
	return cmd, nil
}

// withoutSecret returns an environment without redstalk's secret, which the command does not need.
func withoutSecret(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, secretVariable+"=") })
}

// wholeInput returns an unlinked file with the body. With a pipe, a kill of redstalk would end the
// input early, and the command would take a part of the body for the whole.
func wholeInput(body []byte) (*os.File, error) {
	file, err := os.CreateTemp("", "redstalk-job")
	if err != nil {
		return nil, fmt.Errorf("storing the body for the command: %w", err)
	}
	os.Remove(file.Name())
	if _, err = file.Write(body); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("storing the body for the command: %w", err)
	}
	return file, nil
}

// commandError returns the error of a command. A process that it leaves behind is not an error.
func commandError(err error) error {
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// waitAndTouch waits for the end of the command, and touches the job three times per TTR.
func (c *current) waitAndTouch(cmd *exec.Cmd, end <-chan error) error {
	ticker := time.NewTicker(c.ttr() / 3)
	defer ticker.Stop()
	kill := c.killCtx.Done()
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

// touch restarts the TTR. If that fails, another worker may have the job already. The command still
// continues: half of its work may be done.
func (c *current) touch() {
	if c.lost {
		return
	}
	touch := func() error {
		return c.request(c.jobCommand("touch", ""), func(r *client.Reply) {
			c.lost, c.leaseEnd = string(r.Line) != "TOUCHED", time.Now().Add(c.ttr())
		})
	}
	err := touch()
	if err != nil && c.lease != "" {
		if err = c.connect(); err == nil {
			err = touch()
		}
	}
	mayRecover := c.lease != "" && time.Now().Before(c.leaseEnd)
	if c.lost = c.lost || err != nil && !mayRecover; c.lost {
		c.infof("redstalk: the reservation of job %d ended while its command runs: it may run twice", c.id)
	}
}

// finish deletes, buries or releases the job, and returns what was done: deleted, buried, released, or
// lost if the server refused. failed is the error of the command.
func (c *current) finish(failed error) (result string, err error) {
	command, want := c.jobCommand("delete", ""), "DELETED"
	if failed == nil && c.hasResult() {
		result, err := c.finishWithResult()
		if err != nil || result != "" {
			return result, err
		}
	}
	if c.unfinished(failed) {
		return c.finishBy(c.releaseAtOnce(), "RELEASED")
	}
	if failed != nil {
		release, err := c.shouldRelease()
		if err != nil {
			return "lost", err
		}
		command, want = c.jobCommand("bury", fmt.Sprintf(" %d", c.job.Priority)), "BURIED"
		if release {
			command, want = c.jobCommand("release", fmt.Sprintf(" %d %d", c.job.Priority, wholeSeconds(c.duration("delay")))), "RELEASED"
		}
		command += reasonWord(c.reason(failed))
	}
	return c.finishBy(command, want)
}

// unfinished reports whether the command says that it has not finished the job. If its checkpoint is lost, that is a failure.
func (c *current) unfinished(failed error) bool {
	return exitCodeOf(failed) == exitUnfinished && c.unsaved == nil
}

// hasResult reports whether the job may be finished with what the command has printed.
func (c *current) hasResult() bool {
	return c.results && len(c.result.bytes) > 0 && len(c.result.bytes) <= protocol.MaxResult
}

// finishWithResult deletes the job, with a result. The result of that is "" if no record of the job would be kept.
func (c *current) finishWithResult() (result string, err error) {
	output := c.result.bytes
	result, err = c.finishBy(c.jobCommand("finish", fmt.Sprintf(" %d\r\n%s", len(output), output)), "FINISHED")
	switch result {
	case "finished":
		return "deleted", err
	case "not_kept":
		return "", err
	}
	return result, err
}

// finishBy sends the command that finishes the job.
func (c *current) finishBy(command, want string) (result string, err error) {
	result = "lost"
	repeated, err := c.insist(command, func(r *client.Reply) {
		if word := string(r.Line); word == want || word == "NOT_KEPT" {
			result = strings.ToLower(word)
		}
	})
	if err == nil && repeated && result == "lost" && c.wasFinished(want) {
		result = strings.ToLower(want)
	}
	return result, err
}

// wasFinished reports whether a command whose reply was lost was carried out after all: its repetition was refused.
func (c *current) wasFinished(want string) (was bool) {
	states := map[string][]string{"DELETED": {""}, "FINISHED": {""}, "BURIED": {"buried"}, "RELEASED": {"ready", "delayed"}}
	err := c.request(fmt.Sprintf("stats-job %d", c.id), func(r *client.Reply) {
		state, _ := client.Page(r.Body).Value("state")
		was = slices.Contains(states[want], state) && (r.Word == client.OK || r.Word == client.NotFound)
	})
	return was && err == nil
}

// reason returns why the command has failed: the last line of its standard error, or how it ended.
func (c *current) reason(failed error) string {
	if !c.reasons {
		return ""
	}
	reason := cmp.Or(protocol.CleanReason(c.said.line()), protocol.CleanReason(failed.Error()))
	if c.unsaved != nil {
		reason = protocol.CleanReason(c.unsaved.Error() + "; " + reason)
	}
	return reason
}

// firstBytes passes on what is written to it, and keeps the beginning of it: one byte more than a result can have.
type firstBytes struct {
	to    io.Writer
	bytes []byte
}

func (f *firstBytes) Write(b []byte) (int, error) {
	f.bytes = append(f.bytes, b[:min(len(b), protocol.MaxResult+1-len(f.bytes))]...)
	return f.to.Write(b)
}

// lastLine passes on what is written to it, and keeps the end of it.
type lastLine struct {
	to  io.Writer
	end []byte
}

// keptEnd is how many bytes of a line are kept, at its end: more than a reason has.
const keptEnd = 4 << 10

func (l *lastLine) Write(b []byte) (int, error) {
	l.end = append(l.end, b...)
	l.end = l.end[max(0, len(l.end)-keptEnd):]
	return l.to.Write(b)
}

// line returns the last line that is not empty.
func (l *lastLine) line() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(l.end), ""))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// shouldRelease reports whether a failed job is to be released rather than buried.
func (c *current) shouldRelease() (bool, error) {
	if c.onFailure != "auto" {
		return c.onFailure == "release", nil
	}
	if len(c.job.Retry) > 0 || c.job.Max > 0 {
		return true, nil
	}
	has := false
	_, err := c.insist("get-policy "+c.job.Tube, func(r *client.Reply) {
		if r.Word == client.OK {
			_, retry := client.Page(r.Body).Value("retry")
			_, most := client.Page(r.Body).Value("max")
			has = retry || most
		}
	})
	return has, err
}

// record counts the job and prints its result: with --json always, otherwise only failures.
func (c *current) record(result string, failed error, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unfinished := c.unfinished(failed) && result == "released"
	switch {
	case result == "deleted":
		c.done++
	case !unfinished:
		c.failed++
	}
	if c.unsaved != nil {
		c.infof("redstalk: job %d: %v", c.id, c.unsaved)
	}
	if c.Bool("json") {
		c.printJSON(map[string]any{"id": c.id, "tube": c.job.Tube, "exit": exitCodeOf(failed), "result": result, "took_ms": took.Milliseconds()})
		return
	}
	if unfinished {
		c.infof("redstalk: job %d is not finished, and was released", c.id)
	} else if failed != nil {
		c.infof("redstalk: job %s failed (%v) and was %s", strconv.FormatUint(c.id, 10), failed, result)
	} else if result != "deleted" {
		c.infof("redstalk: job %d was done, but could not be deleted: it will be delivered again", c.id)
	}
}
