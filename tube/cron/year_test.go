package cron

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestYear compares a year of 200 expressions in six zones with an independent
// implementation: see testdata/year.py.
func TestYear(t *testing.T) {
	text, err := os.ReadFile("testdata/year.txt")
	if err != nil {
		t.Fatal(err)
	}
	var zones []string
	expressions, times := 0, 0
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSpace(line), "\t")
		switch {
		case columns[0] == "# expression":
			zones = columns[1:]
		case strings.HasPrefix(line, "#"):
		case len(zones) != 6 || len(columns) != 7:
			t.Fatalf("line %q", line)
		default:
			expressions++
			s := parse(t, columns[0])
			for i, want := range columns[1:] {
				name, year, _ := strings.Cut(zones[i], " ")
				got, n := digest(t, s, name, year)
				times += n
				if got != want {
					t.Errorf("%s, %q in %s: %s, want %s", name, columns[0], year, got, want)
				}
			}
		}
	}
	if expressions != 200 || times < 300_000 {
		t.Errorf("%d expressions with %d times", expressions, times)
	}
}

// digest returns the number of times of a schedule in a year, and the number with the
// beginning of the SHA-256 of them, as year.py writes it.
func digest(t *testing.T, s Schedule, name, year string) (string, int) {
	y, err := strconv.Atoi(year)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	times := all(s, y, zone(t, name))
	for _, at := range times {
		fmt.Fprintf(sum, "%d\n", at.Unix())
	}
	return fmt.Sprintf("%d:%.16x", len(times), sum.Sum(nil)[:8]), len(times)
}
