package goclient_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/redstalktest"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// blocks returns the Go code of the README: programs, and pieces of them.
func blocks(t *testing.T) (programs, pieces []string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range goBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "package main") {
			programs = append(programs, m[1])
		} else {
			pieces = append(pieces, m[1])
		}
	}
	return programs, pieces
}

// module writes files into a module that uses this one, and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files["go.mod"] = "module example\n\ngo 1.26.0\n\nrequire redstalk/clients/go v0.0.0\n\nreplace redstalk/clients/go => " + here + "\n"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}

// TestReadmeProgram: the program of the README is short. It runs, does its job, and ends cleanly.
func TestReadmeProgram(t *testing.T) {
	programs, _ := blocks(t)
	if len(programs) != 1 {
		t.Fatalf("%d programs", len(programs))
	}
	if n := linesOfCode(programs[0]); n >= 12 {
		t.Errorf("the quick start has %d lines of code", n)
	}
	addr := redstalktest.Start(t).Addr
	dir := module(t, map[string]string{"main.go": strings.Replace(programs[0], "127.0.0.1:11300", addr, 1)})
	goTool(t, dir, "build", "-ldflags", "-s -w", "-o", "program", ".")
	runProgram(t, filepath.Join(dir, "program"), addr)
}

// linesOfCode counts the lines after the imports that have more than closing brackets.
func linesOfCode(program string) (n int) {
	_, code, _ := strings.Cut(program, "\n)\n")
	for line := range strings.Lines(code) {
		if strings.Trim(line, " \t\n(){}") != "" {
			n++
		}
	}
	return n
}

// runProgram runs a program until it has handled its job, then ends it by a signal.
func runProgram(t *testing.T, path, addr string) {
	cmd := exec.Command(path)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	c := client.New(addr)
	defer c.Close()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		stats, err := c.Exec(t.Context(), client.Command{Line: "stats", Repeat: true})
		if err == nil && strings.Contains(string(stats.Body), "total-jobs: 1\n") && strings.Contains(string(stats.Body), "current-jobs-reserved: 0\n") &&
			strings.Contains(string(stats.Body), "current-jobs-ready: 0\n") {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("the job was not handled: %s, %v", stats.Body, err)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(last, "shutting down") {
		t.Errorf("%v; last line %q", err, last)
	}
}

// TestReadmePieces: the other code of the README compiles.
func TestReadmePieces(t *testing.T) {
	_, pieces := blocks(t)
	text := `package example

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/inspect"
	"redstalk/clients/go/redstalktest"
	"redstalk/clients/go/worker"
)

type Welcome struct{ Email string }

var _ = []any{context.Background, fmt.Sprint, slog.Info, testing.Short, time.Now, client.New, inspect.New, redstalktest.Run, worker.New}

`
	for i, piece := range pieces {
		if strings.HasPrefix(piece, "func ") {
			text += piece
			continue
		}
		text += fmt.Sprintf("func _(ctx context.Context, c *client.Client, mux *worker.Mux, body []byte) any {\n%s\nvar all [%d]any\n", piece, i+1)
		for _, name := range []string{"err", "receipt"} {
			if strings.Contains(piece, name+",") && strings.Contains(piece, ":=") && strings.HasPrefix(piece, name) || strings.HasPrefix(piece, "err :=") && name == "err" ||
				strings.HasPrefix(piece, "receipt, err") && name == "err" {
				text += "all[0] = " + name + "\n"
			}
		}
		text += "return all\n}\n\n"
	}
	dir := module(t, map[string]string{"pieces_test.go": text})
	goTool(t, dir, "vet", ".")
}
