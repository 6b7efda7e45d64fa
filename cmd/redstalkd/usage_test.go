package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// usage is the resource use of the process.
type usage struct {
	files int
	rss   int // KiB
	cpu   time.Duration
}

func (p *process) usage(t *testing.T) usage {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", p.Pid())
	files, err := os.ReadDir(dir + "fd")
	if err != nil {
		t.Skip("this needs /proc: ", err)
	}
	u := usage{files: len(files)}
	status := must(os.ReadFile(dir + "status"))(t)
	u.rss = must(strconv.Atoi(string(regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(status)[1])))(t)
	stat := strings.Fields(string(must(os.ReadFile(dir + "stat"))(t)))
	for _, ticks := range stat[13:15] {
		u.cpu += time.Duration(must(strconv.Atoi(ticks))(t)) * 10 * time.Millisecond
	}
	return u
}

// awaitFiles waits until the process has no more descriptors than that.
func (p *process) awaitFiles(t *testing.T, most int) {
	t.Helper()
	for limit := time.Now().Add(patience); p.usage(t).files > most; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d descriptors are open, want %d", p.usage(t).files, most)
		}
	}
}
