package checks

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostLines is the largest length of a function, from its first line to its closing
// brace. Most are much shorter.
const mostLines = 60

// TestFunctionsAreShort checks all Go and Lua of the tree, including tests.
func TestFunctionsAreShort(t *testing.T) {
	for _, path := range tracked(t, "*.go") {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, at(path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				first, last := set.Position(f.Pos()), set.Position(f.End())
				wantShort(t, path, f.Name.Name, first.Line, last.Line)
			}
		}
	}
	for _, path := range tracked(t, "*.lua") {
		text, err := os.ReadFile(at(path))
		if err != nil {
			t.Fatal(err)
		}
		luaFunctions(string(text), func(head string, first, last int) { wantShort(t, path, head, first, last) })
	}
}

// tracked returns the files in git that match one of the patterns. It
// reads their directories so that `go test` does not use a cached result
// when files were added or removed.
func tracked(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"ls-files", "-z", "--"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("listing the files that git knows: %v", err)
	}
	there := make(map[string]bool) // directories read, and what is in them
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if dir := filepath.Dir(path); !there[dir] {
			there[dir] = true
			entries, _ := os.ReadDir(at(dir))
			for _, entry := range entries {
				there[filepath.Join(dir, entry.Name())] = !entry.IsDir()
			}
		}
		if there[path] { // else it was removed, which is not committed yet
			paths = append(paths, path)
		}
	}
	return paths
}

func wantShort(t *testing.T, path, name string, first, last int) {
	t.Helper()
	if n := last - first + 1; n > mostLines {
		t.Errorf("%s:%d: %s has %d lines; a function has at most %d", path, first, name, n, mostLines)
	}
}

// luaHead matches the first line of a function that begins at the left margin.
var luaHead = regexp.MustCompile(`^(local )?(function\b|[\w.]+ *= *function\b)`)

// luaFunctions calls report for each function that begins and ends at the left margin of a Lua
// file. The lines are counted from 1.
func luaFunctions(text string, report func(head string, first, last int)) {
	head, first, number := "", 0, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \n")
		switch {
		case first == 0 && luaHead.MatchString(line):
			if head, first = line, number; strings.HasSuffix(line, " end") {
				first = 0 // all of it in one line
			}
		case first > 0 && strings.HasPrefix(line, "end"):
			report(head, first, number)
			first = 0
		}
	}
}

// TestLuaFunctions: functions are found, with what is in them.
func TestLuaFunctions(t *testing.T) {
	const text = "local function a(b)\n  if b then\n    c()\n  end\nend\n\nlocal short = function() end\nOPS.d = function(e)\n  return e\nend\n"
	var got []string
	luaFunctions(text, func(head string, first, last int) { got = append(got, fmt.Sprint(head, " ", first, "-", last)) })
	want := []string{"local function a(b) 1-5", "OPS.d = function(e) 8-10"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
