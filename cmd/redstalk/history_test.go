package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestHistoryTable(t *testing.T) {
	t.Parallel()
	all := []tally{{Begin: 1_795_885_200, Put: 12_345, Started: 9, Done: 2, Failed: 3, Parked: 4, Expired: 5, First: 2, Wait: 3_100, Run: 180_200}, {Begin: 1_795_888_800}}
	for days, want := range map[bool]string{
		false: `2026-11-28 17:00 +12,345 +9 +2 +3 +4 +5 +1.6s +1m30s\n2026-11-28 18:00( +0){6} +- +-\n`,
		true:  `2026-11-28 +12,345 .*\n2026-11-28 .*\n`,
	} {
		var out strings.Builder
		if err := historyTable(all, days).print(&out); err != nil || !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%v: the table is\n%s", err, &out)
		}
	}
}
