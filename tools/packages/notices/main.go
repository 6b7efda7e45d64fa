// Notices prints the licenses of all third-party code in the programs: of the Go
// standard library, and of each module with a package in them. It reads them from the module
// cache, so the same source has the same notices. A module without a license is an error.
//
//	notices PACKAGE...
//
// The go command is $GO, or go. GOOS and GOARCH are the target of the programs.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "use: notices PACKAGE...")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// module is a module with packages in the programs.
type module struct {
	name, dir string
	packages  []string // their directories
}

func run(out io.Writer, packages []string) error {
	modules, err := modulesOf(packages)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "redstalk is under the license of the file LICENSE, or copyright. In its programs is also what follows.")
	for _, m := range modules {
		texts, err := m.texts()
		if err != nil {
			return fmt.Errorf("looking for the licenses of %s: %w", m.name, err)
		}
		for _, t := range texts {
			fmt.Fprintf(out, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), m.name, t.path, t.text)
		}
	}
	return nil
}

// modulesOf returns the modules of packages and of all that they import, the standard library
// first.
func modulesOf(packages []string) ([]*module, error) {
	listed, err := goCommand(append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, packages...)...)
	if err != nil {
		return nil, err
	}
	root, err := goCommand("env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	all := []*module{{name: "The Go standard library, " + version, dir: dir, packages: []string{dir}}}
	byName := make(map[string]*module)
	for d := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list says: %w", err)
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		name := p.Module.Path + " " + p.Module.Version
		if byName[name] == nil {
			byName[name] = &module{name: name, dir: p.Module.Dir}
			all = append(all, byName[name])
		}
		byName[name].packages = append(byName[name].packages, p.Dir)
	}
	slices.SortFunc(all[1:], func(a, b *module) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

func goCommand(args ...string) ([]byte, error) {
	c := exec.Command(cmp.Or(os.Getenv("GO"), "go"), args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}

// text is a license or another notice.
type text struct{ path, text string }

// noticeName matches the names of files with licenses and notices.
var noticeName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|copyright|authors)([-._].*)?$`)

// texts reads what is in the directories of the packages of a module, and in those above them.
func (m *module) texts() (texts []text, err error) {
	dirs := map[string]bool{m.dir: true}
	for _, dir := range m.packages {
		for ; !dirs[dir]; dir = filepath.Dir(dir) {
			if !strings.HasPrefix(dir, m.dir) {
				return nil, fmt.Errorf("the package in %s is not below %s", dir, m.dir)
			}
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() || !noticeName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			path, _ := filepath.Rel(m.dir, filepath.Join(dir, e.Name()))
			texts = append(texts, text{path, strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))})
		}
	}
	if !slices.ContainsFunc(texts, func(t text) bool { return filepath.Dir(t.path) == "." }) {
		return nil, errors.New("there is none")
	}
	slices.SortFunc(texts, func(a, b text) int { return cmp.Compare(a.path, b.path) })
	return texts, nil
}
