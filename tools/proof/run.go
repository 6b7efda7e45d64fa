package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// run runs the part, and returns what came of it. The error is about what no record can be made of:
// a program that is not there, a file that cannot be written.
func (p *part) run(ctx context.Context, o options, logs string) (*record, error) {
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	r, err := newRecord(p, o)
	if err != nil {
		return nil, err
	}
	log, err := createLog(logs, p.name, r.Time)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fmt.Printf("%s: %s\n  %s\n  all that is printed: %s\n", p.name, p.what, r.Again, log.Name())
	n, begun := newNotes(p), time.Now()
	for _, line := range p.commands(o) {
		if err = execute(ctx, line, log, n); err != nil {
			break
		}
	}
	r.Seconds = int(time.Since(begun).Seconds())
	r.Load += " to " + loadAverage()
	n.fill(r, err, ctx.Err() != nil)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return nil, err
	}
	return r, nil
}

// createLog makes the file for what a part prints.
func createLog(dir, name string, begun time.Time) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the logs: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, begun.Format("20060102-150405-")+name+".log"))
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	return log, nil
}

// execute runs a command line, and notes what it prints. When ctx is over, the command and all that
// it has started are ended.
func execute(ctx context.Context, line []string, log io.Writer, n *notes) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(log, "$ %s\n", strings.Join(line, " "))
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", line[0], err)
	}
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		n.all(read, log)
	}()
	err = cmd.Wait()
	select {
	case <-noted:
	case <-time.After(10 * time.Second): // somebody who was left behind has the pipe
		read.Close()
		<-noted
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(line, " "), err)
	}
	return nil
}

// all notes each line that comes, and copies what it says to the log.
func (n *notes) all(from io.Reader, log io.Writer) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if said := n.line(line); said != "" {
			io.WriteString(log, said)
		}
		if err != nil {
			break
		}
	}
	for test := range maps.Clone(n.begun) {
		n.endLine(test)
	}
}
