package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"redstalk/server/metrics"
)

var update = flag.Bool("update", false, "write the table of metrics into docs/metrics.md")

const (
	page  = "../../docs/metrics.md"
	begin = "<!-- made by TestDocumented -->\n"
	end   = "<!-- end -->\n"
)

// TestDocumented: docs/metrics.md has the table of all metrics. To update it:
//
//	go test ./server/metrics -run TestDocumented -update
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	want := before + begin + table() + end + after
	switch {
	case want == string(text):
	case *update:
		err = os.WriteFile(page, []byte(want), 0o644)
	default:
		t.Errorf("%s is not up to date: run this test with -update", page)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// table returns the definitions of all metrics as a Markdown table.
func table() string {
	var s strings.Builder
	s.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, d := range metrics.Definitions() {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&s, "| `%s` | %s | %s | %s |\n", d.Name, strings.ToLower(d.Kind.String()), labels, strings.TrimSuffix(d.Help, "."))
	}
	return s.String()
}
