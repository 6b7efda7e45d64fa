package checks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
)

// follow_test.go does what the reader of a page does, one block after the other, in one
// directory and with one server. The second word of a block's info string is the name
// of a file to write, or of a terminal whose command goes on.

// languages are the sections of a page of which a reader follows one, and what they need.
var languages = map[string]string{"Go": "go", "PHP": "php", "Python": "python3", "Node": "node"}

// testFollow follows a page, once for each language if it has sections for some.
func (p *page) testFollow(t *testing.T, dir string) {
	var has []string
	for _, b := range p.blocks {
		if languages[b.section] != "" && !slices.Contains(has, b.section) {
			has = append(has, b.section)
		}
	}
	if has == nil {
		p.follow(t, dir, "")
	}
	for _, language := range has {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			look(t, languages[language])
			if _, err := os.Stat(at("clients/typescript/dist")); language == "Node" && err != nil {
				t.Skip(err)
			}
			p.follow(t, dir, language)
		})
	}
}

// follow follows a page in a new directory, as a reader of one language.
func (p *page) follow(t *testing.T, dir, language string) {
	r := newReader(t, dir)
	for i, b := range p.blocks {
		kind, name, _ := strings.Cut(b.language, " ")
		switch {
		case language != "" && languages[b.section] != "" && b.section != language:
		case kind == "console":
			r.enter(t, name, b)
		case kind == "output" && name != "":
			r.terminals[name].await(t, p, b)
		case name != "":
			r.write(t, name, p.blocks[i].text)
		}
	}
}

// A reader has a directory, a server and terminals.
type reader struct {
	dir       string
	env       []string
	here      *strings.Replacer // from the addresses in the pages to those of the server
	page      *strings.Replacer // and back
	terminals map[string]*terminal
}

// newReader starts a server, in a directory from which ../clients are the clients, installed
// without a network.
func newReader(t *testing.T, dir string) *reader {
	top := t.TempDir()
	r := &reader{dir: filepath.Join(top, "mails"), terminals: make(map[string]*terminal)}
	typescript := at("clients/typescript")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(r.dir, "node_modules"), 0o755),
		os.Symlink(at("clients"), filepath.Join(top, "clients")),
		os.Symlink(typescript, filepath.Join(r.dir, "node_modules/redstalk")),
		os.MkdirAll(filepath.Join(r.dir, "vendor"), 0o755),
		os.WriteFile(filepath.Join(r.dir, "vendor/autoload.php"), fmt.Appendf(nil, autoload, root), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	addr, http := serve(t, dir, "embedded:jobs", "--http", "127.0.0.1:0")
	_, port, _ := strings.Cut(addr, ":")
	second := child.FreePort() // of a server that the page starts itself
	r.here = strings.NewReplacer("127.0.0.1:11300", addr, "127.0.0.1 11300", "127.0.0.1 "+port, "127.0.0.1:11380", http, "11301", second)
	r.page = strings.NewReplacer(addr, "127.0.0.1:11300", http, "127.0.0.1:11380", "127.0.0.1:"+second, "127.0.0.1:11301")
	r.env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "REDSTALK_SERVER="+addr,
		"PYTHONPATH="+at("clients/python"), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	return r
}

// autoload stands for Composer's autoloader.
const autoload = `<?php
spl_autoload_register(function (string $class): void {
    $path = strtr($class, '\\', '/') . '.php';
    foreach (["%s/clients/php/src/" . preg_replace('~^Redstalk/~', '', $path), "/usr/share/php/$path"] as $file) {
        if (is_file($file)) {
            require $file;
            return;
        }
    }
});
`

// write writes a file that the page shows.
func (r *reader) write(t *testing.T, name, text string) {
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(r.here.Replace(text)), 0o755); err != nil {
		t.Fatal(err)
	}
}

// enter types the lines with "$ ". Without a terminal each command ends, and has exactly
// the output shown; in one, the last command goes on, and its output has the lines shown.
func (r *reader) enter(t *testing.T, name string, b block) {
	var command string
	var want []string
	run := func() {
		if command != "" {
			r.run(t, b.line, command, want)
		}
	}
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		typed, ok := strings.CutPrefix(line, "$ ")
		switch {
		case ok:
			run()
			command, want = typed, nil
		case strings.HasSuffix(command, "\\"):
			command += "\n" + line
		default:
			want = append(want, line)
		}
	}
	if name == "" {
		run()
		return
	}
	r.terminals[name] = r.open(t, command)
	r.terminals[name].expect(t, b.line, want)
}

// shows matches commands that change nothing. A reader who is too early for what a worker
// does, or for a server that has just been started, tries again.
var shows = regexp.MustCompile(`^redstalk (parked|tubes|stats|list|clients)\b`)

// run runs a command until it ends, and compares what it prints.
func (r *reader) run(t *testing.T, at int, command string, want []string) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "-c", r.here.Replace(command))
		cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.env, time.Second
		out, err := cmd.CombinedOutput()
		cancel()
		text := strings.ReplaceAll(r.page.Replace(string(out)), "\r", "") // which a terminal does not show
		got := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if slices.EqualFunc(want, got, matches) || len(want) == 0 && len(out) == 0 {
			return
		}
		if strings.Contains(string(out), "command not found") {
			t.Skipf("%s", out)
		}
		early := shows.MatchString(command) || strings.Contains(string(out), "connection refused")
		if !early || time.Now().After(deadline) {
			t.Errorf("line %d: %s (%v) printed\n%s", at, command, err, out)
			return
		}
	}
}

// matches reports whether a line is the expected one, in which … stands for anything.
func matches(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}

// A terminal has a command that goes on.
type terminal struct {
	lines chan string
	seen  []string
}

// open runs a command until the end of the test.
func (r *reader) open(t *testing.T, command string) *terminal {
	if program, _, _ := strings.Cut(command, " "); !strings.HasPrefix(program, "redstalk") {
		look(t, program)
	}
	cmd := exec.Command("bash", "-c", "exec "+r.here.Replace(command))
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{lines: make(chan string)}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case term.lines <- r.page.Replace(lines.Text()):
			case <-t.Context().Done():
			}
		}
	})
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // as Ctrl-C does
		gone := time.AfterFunc(30*time.Second, func() {
			t.Errorf("%s does not end at Ctrl-C", command)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		})
		cmd.Wait()
		gone.Stop()
		in.Close()
		reading.Wait()
	})
	return term
}

func (term *terminal) await(t *testing.T, p *page, b block) {
	if term == nil {
		t.Fatalf("%s:%d: there is no such terminal", p.path, b.line)
	}
	term.expect(t, b.line, strings.Split(strings.TrimSuffix(b.text, "\n"), "\n"))
}

// expect waits for lines, in their order.
func (term *terminal) expect(t *testing.T, at int, want []string) {
	deadline := time.After(2 * time.Minute)
	for len(want) > 0 {
		select {
		case line := <-term.lines:
			if term.seen = append(term.seen, line); matches(want[0], line) {
				want = want[1:]
			}
		case <-deadline:
			t.Fatalf("line %d: %q did not come after\n%s", at, want[0], strings.Join(term.seen, "\n"))
		}
	}
}
