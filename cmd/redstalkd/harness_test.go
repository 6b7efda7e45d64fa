package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
)

// patience is the timeout of every wait in these tests, much longer than expected.
const patience = time.Minute

// binary is the program, built once.
var binary string

var builtBefore = flag.String("program", "", "the `path` of the program, with -tags poison, instead of building it")

// TestMain lets many tests run at the same time on few processors: most of
// their time they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "10")
	os.Setenv("REDSTALK_STORE", "memory:") // unless a test says otherwise
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "redstalkd")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755) // for the tests of -u
	binary = filepath.Join(dir, "redstalkd")
	if *builtBefore != "" {
		err = os.Symlink(*builtBefore, binary)
	} else { // -tags poison: memory of bodies is overwritten when it is released
		err = compile.Program(binary, ".", "poison"+furtherTags)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// atLength skips a test with -short: make test-long runs it.
func atLength(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// process is a run of the binary.
type process struct {
	*child.Process
	stdout, stderr output
}

// command is the binary with these arguments and its own environment, in which the store is
// memory:. It works in a directory that goes after the tests: without that variable its default
// store is there.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Dir = filepath.Dir(binary)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "REDSTALK_STORE=memory:"}
	return cmd
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return &process{p, output{p.Stdout}, output{p.Stderr}}
}

// serve starts the binary with -V and these arguments, and waits until it
// serves.
func serve(t *testing.T, args ...string) (p *process, addr string) {
	t.Helper()
	p = start(t, command(append([]string{"-V"}, args...)...))
	return p, p.serving(t)
}

func (p *process) serving(t *testing.T) (addr string) {
	t.Helper()
	return p.stderr.await(t, `msg=serving addr=(\S+)`)
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// freeze suspends the process, until SIGCONT.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
}

// code waits for the end of the process.
func (p *process) code(t *testing.T) int {
	t.Helper()
	return p.codeWithin(t, patience)
}

// codeWithin is code with a limit of time, for a process that can have much to do.
func (p *process) codeWithin(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.Ended:
	case <-time.After(limit):
		t.Fatalf("the process goes on:\n%s", p.stderr)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// run is one whole run of the binary that is expected to end by itself.
func run(t *testing.T, cmd *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, cmd)
	code = p.code(t)
	return code, p.stdout.String(), p.stderr.String()
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}
