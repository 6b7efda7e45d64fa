package redstalktest

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Program returns the path of redstalkd, which it builds if the test is in redstalk's source
// tree.
var Program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("REDSTALKD"); path != "" {
		return path, nil
	}
	if root := sourceTree(); root != "" {
		return build(root)
	}
	path, err := exec.LookPath("redstalkd")
	if err != nil {
		return "", errors.New("there is no redstalkd in PATH: install it, or set REDSTALKD to its path")
	}
	return path, nil
})

// sourceTree returns the directory above the working directory that has redstalk's source, or
// nothing.
func sourceTree() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		text, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
		if bytes.HasPrefix(text, []byte("module redstalk\n")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ""
}

// build builds redstalkd into the cache of the user. That takes seconds only after a change.
func build(root string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	h.Write([]byte(root))
	path := filepath.Join(cache, "redstalktest", fmt.Sprintf("%x", h.Sum64()), "redstalkd")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "./cmd/redstalkd")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building redstalkd: %w\n%s", err, out)
	}
	return path, nil
}
