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

// TestShrinkJoins: what two connections each needed to be ready is left out once if
// one can do what both did.
func TestShrinkJoins(t *testing.T) {
	var script []step
	for conn := range 3 {
		script = append(script, step{conn: conn, commands: []command{{line: "use"}}}, step{conn: conn, commands: []command{{line: fmt.Sprint("put ", conn)}}})
	}
	s := shrinker{parallel: 1, deadline: time.Now().Add(time.Minute), fails: func(script []step) bool {
		ready, puts := make(map[int]bool), 0
		for _, st := range script {
			switch {
			case st.commands[0].line == "use":
				ready[st.conn] = true
			case ready[st.conn]:
				puts++
			}
		}
		return puts == 3
	}}
	if got, want := linesOf(s.shrink(script)), []string{"use", "put 0", "put 1", "put 2"}; !slices.Equal(got, want) {
		t.Errorf("%q is left, want %q", got, want)
	}
}
