// Package compile builds the programs of this module for tests that run them.
//
// # Contents
//
// Program, which makes a program as the packages have it: without cgo, and without what
// only a debugger needs. So what is tested is what people install, and the C code of
// libraries is not compiled, which would take a new machine half a minute.
//
// # Not here
//
// How a program is started, and what is asked of it: the tests of each package know.
package compile

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Program compiles packages with these build tags into a file, or into a folder if its
// path ends with a slash. A package is named by its import path, or by a pattern or path
// that is relative to the working directory. The error has what the compiler said.
func Program(into, packages string, tags ...string) error {
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-tags", strings.Join(tags, ","), "-o", into, packages)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", packages, err, out)
	}
	return nil
}
