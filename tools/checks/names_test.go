package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFile matches a name of a Go file, perhaps with its directory, or a pattern of such names.
var goFile = regexp.MustCompile(`[\w/*-]*[\w*]\.go\b`)

// forSystem matches the part of a file's name that says for which systems it is.
var forSystem = regexp.MustCompile(`_(linux|other|unix|on|off)$`)

// TestPackageFiles checks that each doc.go names all files of its package, and no file that is not there. A file that
// has to be found by chance is one that a newcomer does not find.
func TestPackageFiles(t *testing.T) {
	files := make(map[string][]string)
	for _, name := range tracked(t, "*.go") {
		if !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".pb.go") && !strings.HasPrefix(name, "clients/") {
			files[path.Dir(name)] = append(files[path.Dir(name)], path.Base(name))
		}
	}
	for dir, names := range files {
		text, err := os.ReadFile(at(filepath.Join(dir, "doc.go")))
		if err != nil {
			continue // a package of few files, whose comment is in one of them
		}
		for _, name := range names {
			if name != "doc.go" && !namesFile(string(text), name) {
				t.Errorf("%s/doc.go does not name %s", dir, name)
			}
		}
		for _, named := range goFile.FindAllString(string(text), -1) {
			if !exists(dir, named) {
				t.Errorf("%s/doc.go names %s, which does not exist", dir, named)
			}
		}
	}
}

// namesFile returns whether the comment of a package names a file: with its ending, by a pattern, or as a word of a list.
// What is said of a file is also said of those beside it for other systems.
func namesFile(comment, file string) bool {
	base := forSystem.ReplaceAllString(strings.TrimSuffix(file, ".go"), "")
	for _, named := range goFile.FindAllString(comment, -1) {
		named = forSystem.ReplaceAllString(strings.TrimSuffix(named, ".go"), "")
		if matched, _ := path.Match(named, base); matched {
			return true
		}
	}
	return regexp.MustCompile(`(?m)^//   (- |  ).*\b` + regexp.QuoteMeta(base) + `\b`).MatchString(comment)
}

// exists returns whether a file that a text in dir names is there, from dir or from the root.
func exists(dir, named string) bool {
	for _, from := range []string{dir, "."} {
		if found, _ := filepath.Glob(at(filepath.Join(from, named))); found != nil {
			return true
		}
	}
	return false
}

// quoted matches a name in backquotes: a file, or an identifier that begins with a capital letter.
var quoted = regexp.MustCompile("`([\\w/.]+\\.(?:go|lua)|[A-Z][a-z]\\w+(?:\\.[A-Z]\\w+)?)`")

// TestNamesInPages checks that the files and identifiers that the developers' pages name exist.
func TestNamesInPages(t *testing.T) {
	known := identifiers(t)
	all := tracked(t, "*.go", "*.lua")
	for _, page := range []string{"docs/architecture.md", "docs/CONTRIBUTING.md", "docs/testing.md"} {
		text, err := os.ReadFile(at(page))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range quoted.FindAllStringSubmatch(string(text), -1) {
			name := match[1]
			isThere := known[name[strings.LastIndexByte(name, '.')+1:]]
			if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".lua") {
				isThere = slices.ContainsFunc(all, func(file string) bool { return file == name || strings.HasSuffix(file, "/"+name) })
			}
			if !isThere {
				t.Errorf("%s names `%s`, which does not exist", page, name)
			}
		}
	}
}

// identifiers returns the identifiers of all Go files, without those of comments.
func identifiers(t *testing.T) map[string]bool {
	known := make(map[string]bool)
	for _, name := range tracked(t, "*.go") {
		file, err := parser.ParseFile(token.NewFileSet(), at(name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				known[id.Name] = true
			}
			return true
		})
	}
	return known
}

// TestCommentsBeginWithNames checks that the comment of a function begins with its name, as Go's documentation asks: a
// comment that does not was left behind by a renaming.
func TestCommentsBeginWithNames(t *testing.T) {
	for _, name := range tracked(t, "*.go") {
		file, err := parser.ParseFile(token.NewFileSet(), at(name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil || ast.IsGenerated(file) {
				continue
			}
			first, _, _ := strings.Cut(strings.TrimSpace(f.Doc.Text()), " ")
			first = strings.TrimRight(first, ":,.\n")
			isSentence := strings.HasSuffix(name, "_test.go") && !innerCapital.MatchString(first) // of a test, whose name says little
			if first != f.Name.Name && !isSentence {
				t.Errorf("%s: the comment of %s begins with %q", name, f.Name.Name, first)
			}
		}
	}
}

// innerCapital matches what is an identifier rather than a word.
var innerCapital = regexp.MustCompile(`^[A-Za-z]+[A-Z]`)

// pattern matches the tests that a line of the Makefile names.
var pattern = regexp.MustCompile(`run '\^\(?(Test[^']*?)\)?(?:\$\$)?'`)

// TestMakefileNamesTests checks that each name in the Makefile's lists of tests is that of a test. go test says nothing
// about one that is gone.
func TestMakefileNamesTests(t *testing.T) {
	text, err := os.ReadFile(at("Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := identifiers(t)
	lists := pattern.FindAllStringSubmatch(string(text), -1)
	if len(lists) < 10 {
		t.Fatalf("found only %d lists of tests", len(lists))
	}
	for _, list := range lists {
		for _, name := range alternative.FindAllString(list[1], -1) {
			matches := regexp.MustCompile("^(" + name + ")$").MatchString
			if !anyKey(known, matches) {
				t.Errorf("the Makefile names %s, which is no test", name)
			}
		}
	}
}

// alternative matches one name of a list, perhaps with alternatives of its own in parentheses.
var alternative = regexp.MustCompile(`Test(\([^)]*\)\??|[^|(])*`)

func anyKey(m map[string]bool, matches func(string) bool) bool {
	for key := range m {
		if matches(key) {
			return true
		}
	}
	return false
}
