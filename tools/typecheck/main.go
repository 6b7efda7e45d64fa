// Command typecheck finds what does not compile on other systems, without compiling: it checks the types of
// the packages of the module as they are on each system, and of what they import only the declarations. It
// takes seconds, where go build compiles the standard library and all modules once for each system.
//
//	go run ./tools/typecheck darwin freebsd
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	failed := false
	for _, system := range os.Args[1:] {
		if err := check(system); err != nil {
			fmt.Fprintf(os.Stderr, "on %s:\n%v\n", system, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check checks all packages as they are on a system. The error has a line for each mistake.
func check(system string) error {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,DepOnly,Module", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64", "GOOS="+system)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	if err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	w := world{files: token.NewFileSet(), packages: map[string]*types.Package{"unsafe": types.Unsafe}}
	for in := json.NewDecoder(out); ; { // imported packages come first
		var p listed
		if err := in.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("reading the list of packages: %w", err)
		}
		w.add(p)
	}
	return errors.Join(append(w.mistakes, list.Wait())...)
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string // from paths in the files to those of packages, where they differ
	DepOnly         bool              // it is not of this module
	Module          *struct{ GoVersion string }
}

// world has the packages of one system.
type world struct {
	files    *token.FileSet
	packages map[string]*types.Package
	mistakes []error
}

// add checks a package, all of whose imports have been added.
func (w *world) add(p listed) {
	if p.ImportPath == "unsafe" {
		return
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(w.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			w.mistakes = append(w.mistakes, err)
			return
		}
		files = append(files, file)
	}
	config := types.Config{
		Importer:         importer{w, p.ImportMap},
		IgnoreFuncBodies: p.DepOnly,
		Sizes:            types.SizesFor("gc", "amd64"),
		Error:            func(err error) { w.mistakes = append(w.mistakes, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	w.packages[p.ImportPath], _ = config.Check(p.ImportPath, w.files, files, nil) // Error has been told
}

// importer finds what the files of one package import.
type importer struct {
	*world
	paths map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if other := i.paths[path]; other != "" {
		path = other
	}
	if p := i.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}
