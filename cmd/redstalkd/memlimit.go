package main

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory makes most of what the control groups of this process allow the soft limit of the Go runtime, unless
// GOMEMLIMIT is set: the garbage collector then works harder before the kernel ends the process. extra is memory that
// the runtime counts and the kernel does not.
func limitMemory(env func(string) (string, bool), extra int64) {
	if _, set := env("GOMEMLIMIT"); set {
		return
	}
	if limit := groupLimit(os.ReadFile); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit/10*9 + extra)
	}
}

// groupLimit returns the lowest limit of memory of the control groups of this process, of version 1 or 2, in
// bytes; math.MaxInt64 if there is none.
func groupLimit(read func(path string) ([]byte, error)) int64 {
	const root = "/sys/fs/cgroup"
	limit := int64(math.MaxInt64)
	own, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		base, name := root, "memory.max"
		if fields[1] != "" {
			if base, name = root+"/memory", "memory.limit_in_bytes"; !strings.Contains(","+fields[1]+",", ",memory,") {
				continue
			}
		}
		// In a container the path can be that of the host; the root is then the container's own group.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, err := read(path.Join(base, group, name))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 && n < unlimitedGroup {
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}

// unlimitedGroup is less than what version 1 says if there is no limit.
const unlimitedGroup = 1 << 60
