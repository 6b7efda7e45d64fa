package redstalk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// atLength is a command of make test-long: the tests that it runs of some packages.
type atLength struct {
	pkgs []string // as in ./server
	run  *regexp.Regexp
}

// TestWhatIsLeftOutIsRunAtLength: make test tells tests to be short, and what they leave out
// make test-long runs.
func TestWhatIsLeftOutIsRunAtLength(t *testing.T) {
	commands, found := testLong(t), 0
	for _, path := range tracked(t, "*_test.go") {
		for _, name := range shortened(t, path) {
			found++
			pkg := "./" + filepath.Dir(path)
			if !slices.ContainsFunc(commands, func(c atLength) bool { return slices.Contains(c.pkgs, pkg) && c.run.MatchString(name) }) {
				t.Errorf("%s: make test leaves out all of %s, or a part of it, and make test-long does not run it", path, name)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d tests were found that leave something out", found)
	}
}

// testLong returns the commands of make test-long.
func testLong(t *testing.T) (commands []atLength) {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, recipe, _ := strings.Cut(string(text), "\ntest-long:")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	command := regexp.MustCompile(`-run '([^']*)'((?: \./\S+)+)`)
	for _, match := range command.FindAllStringSubmatch(recipe, -1) {
		commands = append(commands, atLength{strings.Fields(match[2]), regexp.MustCompile(strings.ReplaceAll(match[1], "$$", "$"))})
	}
	return commands
}

// shortened returns the tests of a file that ask whether they are to be short.
func shortened(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && asksForShort(f) {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// asksForShort reports whether a function calls testing.Short, or atLength, which skips a test
// if that is true.
func asksForShort(f *ast.FuncDecl) (asks bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch called := call.Fun.(type) {
		case *ast.Ident:
			asks = asks || called.Name == "atLength"
		case *ast.SelectorExpr:
			asks = asks || called.Sel.Name == "Short"
		}
		return true
	})
	return asks
}
