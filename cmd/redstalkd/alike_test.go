package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"redstalk/tools/conformance/child"
)

var chroots = flag.String("chroots", "", "the `folder` where tools/chroots.sh has made Debian's suites, whose PHP frameworks are played")

// frameworkPrograms use the queue drivers that PHP frameworks have themselves, and print a transcript.
var frameworkPrograms = []string{"laravel/life.php", "symfony.php"}

// nodeClients are those that testdata/clients/node/calls.js knows.
var nodeClients = []string{"fivebeans", "nodestalker", "beanstalkd", "node-beanstalk"}

// alikeExceptions are the differences that are allowed: in a part, on a server, these lines can be here.
var alikeExceptions = []struct{ server, part, lines, reason string }{
	{"redis", "restart by force between get and ack\n", "restart\nack throws Symfony\\Component\\Messenger\\Exception\\TransportException Cannot delete job N: NOT_FOUND\nagain held\n", heldByTheDead},
	{"redis", "restart by force, a worker with --tries=5 --sleep=0.2 runs a job\n", doneTwice, heldByTheDead},
	{"redis", "restart by force, a worker with --sleep=0.2 runs a job\n", doneTwice, heldByTheDead},
}

const (
	heldByTheDead = "Pheanstalk 4 connects again and deletes the job at once; what a killed instance held can be deleted 3 to 4 s later"
	doneTwice     = `restart
the worker ends with code 0
["running 1","running done","running 1","running done"] logged ["Cannot delete job N: NOT_FOUND"]
left []
`
)

// TestFrameworks lets the PHP frameworks of each suite work on redstalkd and on the real beanstalkd, with
// and without restarts. Their transcripts must be the same.
func TestFrameworks(t *testing.T) {
	if *chroots == "" {
		t.Skip("wants -chroots")
	}
	for suite, root := range suites(t) {
		for _, program := range frameworkPrograms {
			t.Run(suite+"/"+program, func(t *testing.T) {
				t.Parallel()
				php := copyInto(t, root, "php/"+program)
				repeatIfStalled(t, func() error { return playAlike(t, "chroot", root, "php", php) })
			})
		}
	}
}

// suites returns the roots of Debian's suites by their names.
func suites(t *testing.T) map[string]string {
	t.Helper()
	if *chroots == "" {
		return nil
	}
	lists, err := filepath.Glob(*chroots + "/*/packages")
	if err != nil || len(lists) == 0 {
		t.Fatalf("no suites in %s; tools/chroots.sh makes them (%v)", *chroots, err)
	}
	roots := make(map[string]string)
	for _, list := range lists {
		roots[filepath.Base(filepath.Dir(list))] = filepath.Dir(list)
	}
	return roots
}

// copyInto copies the programs into the suite at root, and returns where one of them is then, as seen from there.
func copyInto(t *testing.T, root, program string) string {
	t.Helper()
	folder, err := os.MkdirTemp(filepath.Join(root, "tmp"), "redstalk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, name := range []string{"php", "ruby"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join(clientsFolder, name))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join("/tmp", filepath.Base(folder), program)
}

// TestNodeClients does the same with clients in Node.
func TestNodeClients(t *testing.T) {
	if !*withClients {
		t.Skip("wants -clients")
	}
	for _, client := range nodeClients {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			repeatIfStalled(t, func() error {
				return playAlike(t, "node", "--no-deprecation", clientsFolder+"/node/calls.js", client)
			})
		})
	}
}

// playAlike plays a program on each server, all at the same time, and returns an error if a transcript
// differs from beanstalkd's.
func playAlike(t *testing.T, program ...string) error {
	t.Helper()
	transcripts, lock := map[string]string{}, sync.Mutex{}
	t.Run("plays", func(t *testing.T) {
		on := func(name, durability string, server func(t *testing.T) func(string) *exec.Cmd) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				transcript := transcriptOf(t, server(t), append(slices.Clip(program), durability))
				lock.Lock()
				defer lock.Unlock()
				transcripts[name] = transcript
			})
		}
		for name, server := range durableServers {
			on(name, "durable", server)
		}
		on("memory", "volatile", func(*testing.T) func(string) *exec.Cmd {
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
		if parts := differingParts(t, name, got, want); parts != "" {
			differences = errors.Join(differences, fmt.Errorf("%s differs from beanstalkd: %w\n%s", name, errTimed, parts))
		}
	}
	return differences
}

// transcriptOf returns the transcript of a program on an empty server.
func transcriptOf(t *testing.T, server func(port string) *exec.Cmd, program []string) string {
	t.Helper()
	s := &restartable{command: server, port: child.FreePort()}
	s.start(t)
	defer func() { s.running.Cmd.Process.Kill() }()
	said, err := runClient(t, s, program)
	if err != nil {
		return fmt.Sprint(said, err, "\n")
	}
	return said.String()
}

// differingParts returns the parts of the transcript got from a server that differ from want.
func differingParts(t *testing.T, server, got, want string) string {
	const part = "--- "
	gotParts, wantParts := strings.Split(got, part), strings.Split(want, part)
	var b strings.Builder
	for i := range max(len(gotParts), len(wantParts)) {
		g, w := partAt(gotParts, i), partAt(wantParts, i)
		if g != w && !isException(t, server, g) {
			fmt.Fprintf(&b, "%s:\n%s%sbeanstalkd:\n%s%s", server, part, g, part, w)
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

func isException(t *testing.T, server, part string) bool {
	for _, e := range alikeExceptions {
		if e.server == server && e.part+e.lines == part {
			t.Logf("%s differs in the part %s%s", server, e.part, e.reason)
			return true
		}
	}
	return false
}
