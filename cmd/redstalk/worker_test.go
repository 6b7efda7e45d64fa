package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"redstalk/tools/conformance/child"
)

var execJobs = flag.Int("exec-jobs", 300, "how many jobs reserve --exec is killed in the middle of")

// workshop is a server with numbered jobs, and a file into which the command of reserve --exec
// writes its input. The second half of the jobs waits until goOn.
type workshop struct {
	t        *testing.T
	addr     string
	out, may string
	n        int
}

func newWorkshop(t *testing.T, addr string, n int, more ...string) *workshop {
	w := &workshop{t, addr, filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "may"), n}
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
	}
	if got := runIn(t.Context(), lines.String(), append([]string{"put", "--lines", "-t", "work", "-s", addr}, more...)...); got.code != 0 {
		t.Fatal(got)
	}
	return w
}

func (w *workshop) args(more ...string) []string {
	command := fmt.Sprintf(`read n; while [ $n -ge %d ] && [ ! -e %s ]; do sleep 0.05; done; echo $n >>%s`, w.n/2, w.may, w.out)
	return append([]string{"reserve", "-t", "work", "-s", w.addr, "--exec", command}, more...)
}

// goOn lets the jobs from half on continue.
func (w *workshop) goOn() {
	if err := os.WriteFile(w.may, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// results returns what the commands have written.
func (w *workshop) results() []string {
	text, err := os.ReadFile(w.out)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// left returns how many jobs are in the tube.
func (w *workshop) left() string {
	page := on(w.t, w.addr)("tubes", "--json")
	_, page, _ = strings.Cut(page, `"name":"work",`)
	page, _, _ = strings.Cut(page, `,"total"`)
	return page
}

// hasLeft reports whether the given numbers of jobs are ready and reserved; all others are finished.
func (w *workshop) hasLeft(ready, reserved int) bool {
	left := w.left()
	return strings.Contains(left, fmt.Sprintf(`"ready":%d,`, ready)) && strings.Contains(left, fmt.Sprintf(`"reserved":%d,`, reserved))
}

// TestServerStartsAgain: the server starts again while a command runs. It runs once, since the job has a lease.
func TestServerStartsAgain(t *testing.T) {
	t.Parallel()
	store := "embedded:" + t.TempDir()
	server, addr := child.Serve(t, exec.Command(redstalkd, "--store", store))
	w := newWorkshop(t, addr, 2) // the command of the second job waits
	var said buffer
	cmd := program(t, &said, w.args("--wait", "forever", "--count", "2")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the first job", func() bool { return w.hasLeft(0, 1) })
	server.Kill()
	w.goOn()
	await(t, "another try", func() bool { return strings.Contains(said.String(), "connecting again") })
	again, err := child.Start(exec.Command(redstalkd, "--store", store, "-l", addr))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Kill()
	if err := cmd.Wait(); err != nil || len(w.results()) != 2 {
		t.Errorf("%v, results %q: %s", err, w.results(), said.String())
	}
	if left := w.left(); strings.Trim(left, `:,"abcdefghijklmnopqrstuvwxyz0`) != "" {
		t.Errorf("left: %s", left)
	}
}

// TestOrphansOfProcessOne: in a container, redstalk is process 1, and reaps what commands leave behind.
func TestOrphansOfProcessOne(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 || exec.Command("unshare", "-pf", "true").Run() != nil {
		t.Skip("only root can make process 1 on Linux")
	}
	t.Parallel()
	w := newWorkshop(t, ours(t), 10)
	var said buffer
	inside := program(t, &said)
	cmd := exec.Command("unshare", "-pf", "--mount-proc", inside.Path, "-s", w.addr, "reserve", "-t", "work", "--wait", "forever", "--exec", "true & exit 0")
	cmd.Env, cmd.Stderr = inside.Env, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var one string // process 1
	defer func() { exec.Command("kill", "-9", one).Run() }()
	zombies := func() (n int) {
		out, _ := exec.Command("ps", "-o", "stat=", "--ppid", one).Output()
		return strings.Count(string(out), "Z")
	}
	await(t, "the jobs", func() bool {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid))
		one = strings.TrimSpace(string(children))
		return w.hasLeft(0, 0) && one != ""
	})
	await(t, "the end of zombies", func() bool { return zombies() == 0 })
}

// TestKilledInTheMiddle: reserve --exec is killed when half of the jobs are done and some are
// running, and started again. Every job is done, and only those that were running can be done twice.
func TestKilledInTheMiddle(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{"beanstalkd": beanstalkd, "redstalkd": ours} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const atATime = 8
			w := newWorkshop(t, start(t), *execJobs, "--ttr", "2") // a lease ends with it
			var said buffer
			first := program(t, &said, w.args("--jobs", fmt.Sprint(atATime))...)
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, "half of the jobs", func() bool { return len(w.results()) >= w.n/2 })
			first.Process.Kill()
			w.goOn() // also ends the commands that were left behind, and have our pipe
			first.Wait()
			if got := runIn(t.Context(), "", w.args("--jobs", fmt.Sprint(atATime), "--wait", "3s")...); got.code != 0 {
				t.Fatalf("the second run: %+v", got)
			}
			results := w.results()
			all := slices.Clone(results)
			slices.Sort(all)
			if all = slices.Compact(all); len(all) != w.n {
				t.Errorf("%d of %d jobs were done", len(all), w.n)
			}
			if twice := len(results) - len(all); twice > atATime {
				t.Errorf("%d were done twice", twice)
			}
			if left := w.left(); strings.Trim(left, `:,"abcdefghijklmnopqrstuvwxyz0`) != "" {
				t.Errorf("left: %s", left)
			}
			if said.String() != "" {
				t.Errorf("a command without its whole body? %s", said.String())
			}
		})
	}
}

// TestToldToEnd: after the first signal, running commands end, and no others start.
func TestToldToEnd(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, ours(t), 20)
	var said buffer
	cmd := program(t, &said, w.args("--jobs", "2", "--wait", "forever")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "half of the jobs", func() bool { return w.hasLeft(8, 2) })
	cmd.Process.Signal(syscall.SIGTERM)
	await(t, "the end of taking", func() bool { return strings.Contains(said.String(), "no more jobs") })
	w.goOn()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, said.String())
	}
	if n := len(w.results()); n != 12 || !strings.Contains(w.left(), `"ready":8`) {
		t.Errorf("%d were done, %s", n, w.left())
	}
}

// TestToldTwice: the second signal kills running commands, whose jobs are released.
func TestToldTwice(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t, ours(t), 20)
	var said buffer
	cmd := program(t, &said, w.args("--jobs", "2")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "half of the jobs", func() bool { return w.hasLeft(8, 2) })
	cmd.Process.Signal(syscall.SIGTERM)
	await(t, "the end of taking", func() bool { return strings.Contains(said.String(), "no more jobs") })
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	await(t, "the jobs to come back", func() bool { return strings.Contains(w.left(), `"ready":10`) })
	if n := len(w.results()); n != 10 {
		t.Errorf("%d were done", n)
	}
}

// TestFailures: the effect of a failing command on its job.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		start        func(*testing.T) string
		policy, more []string
		state        string
	}{
		{"buried", ours, nil, nil, "buried"},
		{"buried by beanstalkd", beanstalkd, nil, nil, "buried"},
		{"released by beanstalkd", beanstalkd, nil, []string{"--on-failure", "release", "--delay", "1h"}, "delayed"},
		{"by the policy of the tube", ours, []string{"policy", "f", "retry:1h"}, nil, "delayed"},
		{"by its deliveries", ours, []string{"policy", "f", "max:3"}, nil, "buried"},
		{"buried in spite of the policy", ours, []string{"policy", "f", "retry:1h"}, []string{"--on-failure", "bury"}, "buried"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := c.start(t)
			if c.policy != nil {
				on(t, addr)(c.policy...)
			}
			on(t, addr)("put", "-t", "f", "--pri", "7", "x")
			got := runIn(t.Context(), "", append([]string{"reserve", "-t", "f", "-s", addr, "--exec", "exit 9"}, c.more...)...)
			if got.code != exitJobs || !strings.Contains(got.err, "exit status 9") {
				t.Errorf("%+v", got)
			}
			if got := on(t, addr)("stats", "1", "--json"); !strings.Contains(got, `"state":"`+c.state) || !strings.Contains(got, `"pri":7`) {
				t.Error(got)
			}
		})
	}
}

// TestExec: the environment of a command, and the output of --json.
func TestExec(t *testing.T) {
	t.Parallel()
	addr := beanstalkd(t)
	for range 3 {
		on(t, addr)("put", "-t", "e", "body")
	}
	got := on(t, addr)("reserve", "-t", "e", "--count", "1", "--exec", "cat; echo \" $REDSTALK_JOB_ID $REDSTALK_JOB_TUBE $REDSTALK_JOB_RESERVES\"")
	if got != "body 1 e 1\n" {
		t.Errorf("%q", got)
	}
	// A command need not read its input, and --json has standard output for itself.
	got = on(t, addr)("reserve", "-t", "e", "--json", "--exec", "echo noise")
	if strings.Count(got, `"exit":0,`) != 2 || strings.Count(got, `"result":"deleted"`) != 2 || strings.Contains(got, "noise") {
		t.Error(got)
	}
}

// TestNoSecretForCommands: the command does not get redstalk's secret.
func TestNoSecretForCommands(t *testing.T) {
	addr := ours(t)
	t.Setenv(secretVariable, "hunter2-hunter2")
	on(t, addr)("put", "x")
	got := on(t, addr)("reserve", "--exec", "env")
	if strings.Contains(got, "hunter2") || !strings.Contains(got, "REDSTALK_JOB_ID=1\n") {
		t.Error(got)
	}
}

// TestTouches: a command can take longer than the TTR.
func TestTouches(t *testing.T) {
	t.Parallel()
	addr := beanstalkd(t)
	on(t, addr)("put", "-t", "e", "--ttr", "2", "body")
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	got := runIn(ctx, "", "reserve", "-t", "e", "--json", "-s", addr, "--exec", "sleep 5")
	if got.code != 0 || !strings.Contains(got.out, `"result":"deleted"`) {
		if strings.Contains(got.err, "not reserved any more") {
			t.Skip("the machine was too busy to touch in time")
		}
		t.Errorf("%+v", got)
	}
}
