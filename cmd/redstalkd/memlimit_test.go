package main

import (
	"math"
	"os"
	"testing"
)

// TestGroupLimit: the lowest limit of the own control group and those above it counts.
func TestGroupLimit(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  int64
	}{
		{nil, math.MaxInt64},
		{map[string]string{"/proc/self/cgroup": "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "1000\n"}, 1000},
		{map[string]string{"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "7000\n"}, 7000},
		{map[string]string{"/proc/self/cgroup": "0::/../x\n", "/sys/fs/cgroup/memory.max": "500"}, 500},
		{map[string]string{"/proc/self/cgroup": "4:memory:/d\n0::/\n", "/sys/fs/cgroup/memory/d/memory.limit_in_bytes": "90\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 90},
		{map[string]string{"/proc/self/cgroup": "5:cpu,cpuacct:/d\n4:memory:/host\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "80\n"}, 80},
		{map[string]string{"/proc/self/cgroup": "nonsense"}, math.MaxInt64},
	} {
		got := groupLimit(func(path string) ([]byte, error) {
			if text, ok := c.files[path]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%v: %d, want %d", c.files, got, c.want)
		}
	}
}
