package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"redstalk/tools/conformance/child"
)

// A server is a server that compare starts, from the command line.
type server struct {
	name   string
	argv   []string
	helper []string // started before the server; may be nil
}

// helperMark and helperEnd separate a helper's command line from the server's.
const (
	helperMark = "pre:"
	helperEnd  = ";;"
)

// parseServer reads "name=command" or "name=pre: helper command ;; command".
func parseServer(spec string) (server, error) {
	name, rest, found := strings.Cut(spec, "=")
	if !found || name == "" || strings.ContainsAny(name, " /|") {
		return server{}, fmt.Errorf("server %q: want name=command", spec)
	}
	s := server{name: name}
	rest = strings.TrimSpace(rest)
	if after, ok := strings.CutPrefix(rest, helperMark); ok {
		helper, main, found := strings.Cut(after, helperEnd)
		if !found {
			return server{}, fmt.Errorf("server %s: want %q between its helper and itself", name, helperEnd)
		}
		var err error
		if s.helper, err = splitWords(helper); err != nil || len(s.helper) == 0 {
			return server{}, fmt.Errorf("server %s: reading its helper's command %q: %w", name, helper, orEmpty(err))
		}
		rest = main
	}
	var err error
	if s.argv, err = splitWords(rest); err != nil || len(s.argv) == 0 {
		return server{}, fmt.Errorf("server %s: reading its command %q: %w", name, rest, orEmpty(err))
	}
	return s, nil
}

// orEmpty returns err, or that the command is empty if it is nil.
func orEmpty(err error) error {
	if err == nil {
		return errors.New("it is empty")
	}
	return err
}

// splitWords splits a command line at blanks. Single and double quotes keep
// blanks and make empty words; nothing else is special.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inWord = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c is not closed", quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// A running is a server that was started, with its helper.
type running struct {
	target
	server *child.Process
	helper *child.Process // or nil
	dir    string         // removed when it is stopped
}

// acceptTimeout is how long a server may take until it accepts, and
// termTimeout how long it may take to end after SIGTERM.
const (
	acceptTimeout = 10 * time.Second
	termTimeout   = 3 * time.Second
)

// start starts the helper, and when that accepts, the server.
func (s *server) start(ctx context.Context) (_ *running, err error) {
	dir, err := os.MkdirTemp("", "stalkbench-"+s.name+"-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for %s: %w", s.name, err)
	}
	r := &running{dir: dir}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	ports := []string{child.FreePort(), child.FreePort()}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for %s: %w", s.name, err)
	}
	pairs := []string{"{port}", ports[0], "{port2}", ports[1], "{dir}", data}
	if pairs, err = r.prepare(s, net.JoinHostPort(loopback, ports[0]), pairs); err != nil {
		return nil, err
	}
	fill := strings.NewReplacer(pairs...)
	if s.helper != nil {
		if r.helper, err = spawn(s.helper, fill); err != nil {
			return nil, err
		}
		if strings.Contains(strings.Join(s.helper, " "), "{port2}") {
			if err := (target{addr: net.JoinHostPort(loopback, ports[1])}).await(ctx, r.helper); err != nil {
				return nil, err
			}
		}
	}
	if r.server, err = spawn(s.argv, fill); err != nil {
		return nil, err
	}
	return r, r.target.await(ctx, r.server)
}

// pids are the processes to measure: the server, then its helper.
func (r *running) pids() []int {
	pids := []int{r.server.Pid()}
	if r.helper != nil {
		pids = append(pids, r.helper.Pid())
	}
	return pids
}

// stop ends what was started and removes its directory.
func (r *running) stop() {
	for _, p := range []*child.Process{r.server, r.helper} {
		if p != nil {
			p.Stop(termTimeout)
		}
	}
	os.RemoveAll(r.dir)
}

// spawn starts a command, with placeholders replaced by fill.
func spawn(argv []string, fill *strings.Replacer) (*child.Process, error) {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = fill.Replace(w)
	}
	cmd := exec.Command(words[0], words[1:]...)
	// Ctrl-C reaches only this process, which then stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return child.Start(cmd)
}

// await waits until the process accepts clients.
func (t target) await(ctx context.Context, p *child.Process) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	return p.Await(ctx, func() error {
		conn, err := t.dial()
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// versionOf runs a program with -v and returns its version; "" if it prints none.
func versionOf(program string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-v")
	cmd.WaitDelay = 100 * time.Millisecond
	out, err := cmd.CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(line)
}
