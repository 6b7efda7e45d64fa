// Package compile builds the programs of this module for tests that run them.
//
// Program builds them as in the packages: without cgo, and without debug information. So the
// tests run what people install, and the C code of libraries is not compiled, which takes half
// a minute on a new machine.
package compile

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Program compiles packages with these build tags into a file, or into a folder if the
// path ends with a slash. packages is an import path, or a pattern or path
// relative to the working directory. The error contains the compiler's output.
func Program(into, packages string, tags ...string) error {
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-tags", strings.Join(tags, ","), "-o", into, packages)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", packages, err, out)
	}
	return nil
}
