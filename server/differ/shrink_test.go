package differ

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestShrink: of a long script those commands are left that make it fail,
// each in a packet of its own.
func TestShrink(t *testing.T) {
	var script []step
	for i := range 100 {
		s := step{conn: i%4 + 1, cuts: []int{3}, fin: i == 99}
		for j := range i%5 + 1 {
			s.commands = append(s.commands, command{line: fmt.Sprintf("%d.%d", i, j)})
		}
		script = append(script, s)
	}
	needed := []string{"7.1", "48.0", "48.3", "91.1"}
	s := shrinker{parallel: 3, deadline: time.Now().Add(time.Minute), fails: func(script []step) bool {
		lines := " " + strings.Join(linesOf(script), " ") + " "
		return !slices.ContainsFunc(needed, func(n string) bool { return !strings.Contains(lines, " "+n+" ") })
	}}
	small := s.shrink(script)
	if got := linesOf(small); !slices.Equal(got, needed) || len(small) != 4 {
		t.Errorf("%d packets with %q, want 4 with %q", len(small), got, needed)
	}
	for _, st := range small {
		if len(st.cuts) > 0 || st.fin {
			t.Errorf("%+v could be simpler", st)
		}
	}
}

func linesOf(script []step) (lines []string) {
	for _, s := range script {
		for _, c := range s.commands {
			lines = append(lines, c.line)
		}
	}
	return lines
}
