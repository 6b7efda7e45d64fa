package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"redstalk/tools/conformance/child"
)

var chroots = flag.String("chroots", "", "the `folder` where tools/chroots.sh has made Debian's suites, whose PHP frameworks are played")

// frameworkPrograms use the queue drivers that the frameworks have themselves, and print a transcript.
var frameworkPrograms = []string{"laravel/life.php", "symfony.php"}

// TestFrameworks lets the PHP frameworks of each suite work on redstalkd and on the real beanstalkd, with
// and without restarts. Their transcripts must be the same.
func TestFrameworks(t *testing.T) {
	if *chroots == "" {
		t.Skip("wants -chroots")
	}
	suites, err := filepath.Glob(*chroots + "/*/packages")
	if err != nil || len(suites) == 0 {
		t.Fatalf("no suites in %s; tools/chroots.sh makes them (%v)", *chroots, err)
	}
	for _, file := range suites {
		root := filepath.Dir(file)
		for _, program := range frameworkPrograms {
			t.Run(filepath.Base(root)+"/"+program, func(t *testing.T) {
				t.Parallel()
				repeatIfStalled(t, func() error { return playAlike(t, root, program) })
			})
		}
	}
}

// playAlike plays a program of the suite at root on each server, all at the same time, and returns
// an error if a transcript differs from beanstalkd's.
func playAlike(t *testing.T, root, program string) error {
	t.Helper()
	transcripts, lock := map[string]string{}, sync.Mutex{}
	t.Run("plays", func(t *testing.T) {
		play := func(name, durability string, server func(t *testing.T) func(string) *exec.Cmd) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				transcript := playFramework(t, root, program, durability, server(t))
				lock.Lock()
				defer lock.Unlock()
				transcripts[name] = transcript
			})
		}
		for name, server := range durableServers {
			play(name, "durable", server)
		}
		play("memory", "volatile", func(*testing.T) func(string) *exec.Cmd {
			return func(port string) *exec.Cmd { return command("-p", port, "--store", "memory:") }
		})
	})
	want := transcripts["beanstalkd"]
	delete(transcripts, "beanstalkd")
	withoutRestarts, _, restarts := strings.Cut(want, "--- restart")
	if !restarts {
		return fmt.Errorf("on beanstalkd it never came to the restarts: %w\n%s", errTimed, want)
	}
	t.Logf("on beanstalkd:\n%s", want)
	var differences error
	for name, got := range transcripts {
		want := want
		if name == "memory" {
			want = withoutRestarts
		}
		if got != want {
			differences = errors.Join(differences, fmt.Errorf("%s differs from beanstalkd: %w\n%s", name, errTimed, differingParts(got, want)))
		}
	}
	return differences
}

// playFramework returns the transcript of one program, which runs in the suite at root.
func playFramework(t *testing.T, root, program, durability string, server func(port string) *exec.Cmd) string {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Join(root, "tmp"), "redstalk")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, os.DirFS(clientsFolder+"/php")); err != nil {
		t.Fatal(err)
	}
	s := &restartable{command: server, port: child.FreePort()}
	s.start(t)
	defer func() { s.running.Cmd.Process.Kill() }()
	said, err := runClient(t, s, []string{"chroot", root, "php", filepath.Join("/tmp", filepath.Base(folder), program), durability})
	if err != nil {
		return fmt.Sprint(said, err, "\n")
	}
	return said.String()
}

// differingParts returns the parts in which two transcripts differ.
func differingParts(got, want string) string {
	const part = "--- "
	gotParts, wantParts := strings.Split(got, part), strings.Split(want, part)
	var b strings.Builder
	for i := range max(len(gotParts), len(wantParts)) {
		g, w := partAt(gotParts, i), partAt(wantParts, i)
		if g != w {
			fmt.Fprintf(&b, "here:\n%s%sbeanstalkd:\n%s%s", part, g, part, w)
		}
	}
	return b.String()
}

func partAt(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}
