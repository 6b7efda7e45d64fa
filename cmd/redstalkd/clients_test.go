package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
	"redstalk/tools/redistest"
)

// withClients reports whether what make test-clients installs is there.
var withClients = flag.Bool("clients", false, "run the programs in testdata/clients, each with a client that others wrote")

// clientsFolder has a folder for each client.
const clientsFolder = "../../testdata/clients"

// clientPatience is the timeout of one run of one program, which takes about 20 s, or 2 min with a framework.
const clientPatience = 5 * time.Minute

// clientStall is how long the machine may stand still during a run. The first
// parts of a program say how late replies may be, and DEADLINE_SOON leaves a
// client one second: if others use the machine so much that one of these parts
// fails after a longer stall, that says nothing and is repeated, at most clientRuns
// times in all. A failure after that, of a restart or the ledger, always counts.
const (
	clientStall = 400 * time.Millisecond
	clientRuns  = 4
)

// clientLedger is how many jobs a program at least does after its last restart.
const clientLedger = 500

// clientPrograms are the command lines of the programs, to which host and port
// are added. (go-beanstalk's own tests use no server, so there is a program
// for it, too.)
func clientPrograms(t *testing.T) map[string][]string {
	golang := filepath.Join(t.TempDir(), "go-beanstalk")
	if err := compile.Program(golang, clientsFolder+"/go"); err != nil {
		t.Fatal(err)
	}
	programs := map[string][]string{
		"go-beanstalk": {golang},
		"pheanstalk":   {"php", clientsFolder + "/php/life.php"},
		"beaneater":    {"ruby", clientsFolder + "/ruby/life.rb"},
		"jackd":        {"node", clientsFolder + "/node/life.js"},
		"nc":           {"bash", clientsFolder + "/nc/life.bash"},
	}
	for suite, root := range suites(t) {
		programs["beaneater-"+suite] = []string{"chroot", root, "ruby", copyInto(t, root, "ruby/life.rb")}
	}
	return programs
}

// TestClients runs the programs on the binary with each durable engine, and on
// the real beanstalkd, which is the judge of the programs.
//
// A program prints the line "restart" to request a restart of its server, and reads a
// line when that is done. It leaves no jobs, and exits with 0 on success.
func TestClients(t *testing.T) {
	if !*withClients {
		t.Skip("wants -clients")
	}
	programs := clientPrograms(t)
	for server, command := range durableServers {
		t.Run(server, func(t *testing.T) {
			for name, program := range programs {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					repeatIfStalled(t, func() error { return tryClient(t, command(t), program) })
				})
			}
		})
	}
}

// repeatIfStalled fails the test if try does, unless that may be because the machine stood still.
func repeatIfStalled(t *testing.T, try func() error) {
	t.Helper()
	for run := 1; ; run++ {
		stalled := watchMachine()
		err := try()
		stall := stalled()
		if err == nil {
			return
		}
		if stall < clientStall || run == clientRuns || !errors.Is(err, errTimed) {
			t.Fatalf("%v\n(the machine stood still for up to %v)", err, stall)
		}
		t.Logf("to be repeated, as the machine stood still for %v: %v", stall, err)
	}
}

// durableServers are the servers that keep their jobs over a restart. Each function returns the
// command line for an empty store.
var durableServers = map[string]func(t *testing.T) func(port string) *exec.Cmd{
	"beanstalkd": func(t *testing.T) func(string) *exec.Cmd {
		dir, limit := t.TempDir(), "65535"
		return func(port string) *exec.Cmd {
			cmd := exec.Command("beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", dir, "-f", "0", "-z", limit)
			limit = "65537" // or it refuses to read back a body of 65535 bytes, and all that follow
			return cmd
		}
	},
	"embedded": func(t *testing.T) func(string) *exec.Cmd {
		dir := t.TempDir()
		return func(port string) *exec.Cmd { return command("-p", port, "--store", "embedded:"+dir) }
	},
	"redis": func(t *testing.T) func(string) *exec.Cmd {
		url := redistest.Start(t).URL()
		return func(port string) *exec.Cmd { return command("-p", port, "--store", url) }
	},
}

// errTimed reports that a program failed in a part with limits of time.
var errTimed = errors.New("in one of the parts that measure time")

// watchMachine starts to measure stalls of the machine. longest ends that and
// returns the longest one.
func watchMachine() (longest func() time.Duration) {
	stop, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		const step = 10 * time.Millisecond
		var stall time.Duration
		for {
			begun := time.Now()
			select {
			case <-time.After(step):
				stall = max(stall, time.Since(begun)-step)
			case <-stop:
				result <- stall
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-result
	}
}

// tryClient is one run of a program on a server with a store of its own.
func tryClient(t *testing.T, command func(port string) *exec.Cmd, program []string) error {
	t.Helper()
	s := &restartable{command: command, port: child.FreePort()}
	s.start(t)
	defer func() { s.running.Cmd.Process.Kill() }()
	said, err := runClient(t, s, program)
	if err != nil && !strings.Contains(said.String(), "ok waiting\n") {
		err = fmt.Errorf("%w: %w", errTimed, err)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	if s.restarts != 2 {
		return fmt.Errorf("the program wanted %d restarts, not 2:\n%s", s.restarts, said)
	}
	return checkLeftNothing(t, s)
}

// runClient runs a program, and does what it asks for.
func runClient(t *testing.T, s *restartable, program []string) (said output, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clientPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program[0], append(program[1:len(program):len(program)], "127.0.0.1", s.port)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with all that it has started
	said = newOutput()
	cmd.Stderr = said
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make test-clients installs what is missing", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(said, lines.Text())
		if lines.Text() == "restart" {
			s.restart(t)
			io.WriteString(in, "restarted\n")
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		err = fmt.Errorf("it has not come to an end: %w", ctx.Err())
	}
	return said, err
}

// checkLeftNothing checks on the server that the program has left no jobs: its
// exit code alone is not trusted.
func checkLeftNothing(t *testing.T, s *restartable) error {
	t.Helper()
	c := dial(t, s.addr())
	for _, state := range []string{"ready", "reserved", "delayed", "buried"} {
		if left := c.figure("stats", "current-jobs-"+state); left != "0" {
			return fmt.Errorf("%s jobs are left %s", left, state)
		}
	}
	for _, key := range []string{"cmd-put", "cmd-delete"} {
		if n, err := strconv.Atoi(c.figure("stats", key)); n < clientLedger || err != nil {
			return fmt.Errorf("%s is %d, want at least %d", key, n, clientLedger)
		}
	}
	c.awaitFigure("stats", "current-connections", "1")
	if names := c.page("list-tubes"); names != "---\n- default\n" {
		return fmt.Errorf("list-tubes says %q", names)
	}
	return nil
}
