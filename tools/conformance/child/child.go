// Package child starts programs for judges, tests and the load generator: on a free port, with
// their output kept, waited for until they answer, and ended by their process id.
//
// Start and Process are in this file, Freeze in freeze_linux.go and freeze_other.go, Output in output.go, FreePort in
// port.go, and for tests the real beanstalkd in beanstalkd.go and nginx in nginx.go.
package child

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"syscall"
	"time"
)

// A Process is a program that was started.
type Process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr *Output         // empty if the command had a place for it before it was started
	Ended          <-chan struct{} // closed when it has ended and been waited for
}

// drainLimit is how long the output of an ended program is read, if a program that it
// started keeps it open.
const drainLimit = 10 * time.Second

// Start starts a command.
func Start(cmd *exec.Cmd) (*Process, error) {
	ended := make(chan struct{})
	p := &Process{Cmd: cmd, Stdout: NewOutput(), Stderr: NewOutput(), Ended: ended}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Stderr
	}
	cmd.WaitDelay = drainLimit
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return p, nil
}

// Await returns when answers returns nil. It is an error if the process ends or the context is done before.
func (p *Process) Await(ctx context.Context, answers func() error) error {
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.Ended:
			return fmt.Errorf("%s ended (%v) before it answered: %s", p.Cmd.Path, p.Cmd.ProcessState, p.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer (%w): %w: %s", p.Cmd.Path, ctx.Err(), err, p.said())
		}
	}
}

// AwaitWithin is Await with a limit of time.
func (p *Process) AwaitWithin(limit time.Duration, answers func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return p.Await(ctx, answers)
}

// Accepts returns a function for Await: whether a server accepts connections.
func Accepts(network, addr string) func() error {
	return func() error {
		conn, err := net.DialTimeout(network, addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// said is the end of what the process wrote.
func (p *Process) said() string {
	text := p.Stdout.String() + p.Stderr.String()
	if text == "" {
		return "it wrote nothing"
	}
	return text[max(0, len(text)-1000):]
}

// Pid is the process id.
func (p *Process) Pid() int { return p.Cmd.Process.Pid }

// Stop sends SIGTERM, after a limit of time SIGKILL, and waits for the end.
func (p *Process) Stop(limit time.Duration) {
	p.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended:
	case <-time.After(limit):
		p.Kill()
	}
}

// Kill sends SIGKILL and waits for the end. The process may have ended already.
func (p *Process) Kill() {
	p.Cmd.Process.Kill()
	<-p.Ended
}
