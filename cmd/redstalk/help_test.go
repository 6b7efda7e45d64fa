package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is the timeout of every wait in these tests, much longer than expected.
const patience = time.Minute

// redstalkd is the server, built once.
var redstalkd string

// asProgram is the variable that makes the test binary run as redstalk.
const asProgram = "REDSTALK_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "redstalk")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	redstalkd = filepath.Join(dir, "redstalkd")
	if err := compile.Program(redstalkd, "redstalk/cmd/redstalkd"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// startServer starts a server on a unix socket, and returns its address when it serves.
func startServer(t *testing.T, program string, args ...string) (addr string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	_, addr = child.Serve(t, cmd)
	return addr
}

// await waits until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

const beanstalkdPath = "/usr/bin/beanstalkd"

func beanstalkd(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(beanstalkdPath); err != nil {
		t.Skipf("the real beanstalkd is not installed: %v", err)
	}
	return startServer(t, beanstalkdPath)
}

func ours(t *testing.T) string {
	t.Helper()
	return startServer(t, redstalkd, "--store", "memory:")
}

// buffer is a buffer that several goroutines can write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// outcome is the result of a run of the program.
type outcome struct {
	code     int
	out, err string
}

// runIn runs the program in the process.
func runIn(ctx context.Context, stdin string, args ...string) outcome {
	var out, err buffer
	code := run(ctx, stdio{strings.NewReader(stdin), &out, &err}, append([]string{"redstalk"}, args...))
	return outcome{code, out.String(), err.String()}
}

// on returns a function that runs commands on a server, and fails if one has another exit code
// than 0.
func on(t *testing.T, addr string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		got := runIn(t.Context(), "", append([]string{"--server", addr}, args...)...)
		if got.code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, got.code, got.out, got.err)
		}
		return got.out
	}
}

// program is the program as a process of its own.
func program(t *testing.T, stderr *buffer, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = stderr, stderr
	return cmd
}
