package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestStatusFits: however many tubes are in trouble, status prints at most a screen, the worst first, with counts.
func TestStatusFits(t *testing.T) {
	var all []tubeStats
	for i := range 100 {
		all = append(all, tubeStats{Name: fmt.Sprint("t", i), Buried: uint64(i), Ready: uint64(i % 2), Paused: uint64(i % 3)})
	}
	var out strings.Builder
	s := statusOf("", all, nil)
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := lines[len(lines)-1]
	if len(lines) > 22 || !strings.Contains(lines[4], "99 buried") || last != "and 167 more; of all, 66 are paused, 99 have buried jobs, 17 have no worker: --filter or --json shows them" || len(s.Trouble) != 182 {
		t.Errorf("%d lines, %d in trouble:\n%s", len(lines), len(s.Trouble), out.String())
	}
}
