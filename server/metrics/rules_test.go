package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"

	"redstalk/server/metrics"
	"redstalk/server/queue"
)

const (
	alerts    = "../../docs/alerts.yml"
	dashboard = "../../docs/grafana.json"
	runbook   = "../../docs/troubleshooting.md"
)

// rules is a file of Prometheus rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record      string
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// TestAlerts checks the rules without Prometheus: their format, and that their metrics and
// labels exist.
func TestAlerts(t *testing.T) {
	file, err := os.Open(alerts)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r rules
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	known, seen := newKnownMetrics(t), map[string]bool{}
	for _, g := range r.Groups {
		for _, rule := range g.Rules {
			if rule.Record != "" {
				for _, problem := range known.check(rule.Expr) {
					t.Errorf("%s: %s", rule.Record, problem)
				}
				known[rule.Record] = []string{"tube"} // for the rules after it
				continue
			}
			if rule.Alert == "" || seen[rule.Alert] || rule.Labels["severity"] == "" ||
				rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s: %+v is incomplete, or its name is not unique", g.Name, rule)
			}
			seen[rule.Alert] = true
			if _, err := time.ParseDuration(rule.For); rule.For != "" && err != nil {
				t.Error(err)
			}
			for _, problem := range append(known.check(rule.Expr), checkRunbook(readAll(t, runbook), rule.Annotations["runbook_url"])...) {
				t.Errorf("%s: %s", rule.Alert, problem)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d alerts", len(seen))
	}
}

var punctuation = regexp.MustCompile(`[^a-z0-9_ -]`)

// checkRunbook returns what is wrong with the address of a heading in a page: each must say causes, and what to do about them.
func checkRunbook(page, url string) []string {
	anchor, ok := strings.CutPrefix(url, filepath.Base(runbook)+"#")
	if !ok {
		return []string{fmt.Sprintf("its runbook_url is %q", url)}
	}
	for _, section := range strings.Split(page, "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		if strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(heading), ""), " ", "-") != anchor {
			continue
		}
		if !regexp.MustCompile(`\n\| (cause \| check|reply \| cause) \| fix \|\n`).MatchString(text) {
			return []string{heading + " has no table of causes, checks and fixes"}
		}
		return nil
	}
	return []string{"there is no heading " + anchor}
}

// TestAlertsByPromtool checks the rules with promtool, and what some of them do, where it is installed.
func TestAlertsByPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	path, err := filepath.Abs(alerts)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(promtool, "test", "rules", "testdata/alerts_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAlertsWithoutFigures: every alert on a gauge of tubes uses its last figures while no instance shows
// them. What that does is tested by testdata/alerts_test.yml.
func TestAlertsWithoutFigures(t *testing.T) {
	gauges := regexp.MustCompile(`redstalk_tube_(jobs|oldest_ready_seconds|waiting_reserves|paused|for_dead_letters)\b({[^}]*})?`)
	lasting := regexp.MustCompile(`\((redstalk_tube_\w+(?:{[^}]*})?) or last_over_time\((redstalk_tube_\w+(?:{[^}]*})?)\[15m\]\) unless on \(\) redstalk_tubes\)`)
	text, found := readAll(t, alerts), 0
	for _, m := range lasting.FindAllStringSubmatch(text, -1) {
		if found++; m[1] != m[2] {
			t.Errorf("%s and %s are not the same", m[1], m[2])
		}
	}
	if n := len(gauges.FindAllString(text, -1)); n != 2*found || n == 0 {
		t.Errorf("%d mentions of gauges of tubes, but %d times two with the last figures", n, found)
	}
}

// TestDashboard checks the queries of the dashboard, and that panels do not overlap.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID          int
			Title       string
			Description string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	known, occupied := newKnownMetrics(t), map[string]string{}
	queries := 0
	for _, p := range d.Panels {
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := fmt.Sprint(p.GridPos.X+x, p.GridPos.Y+y)
				if occupied[cell] != "" {
					t.Fatalf("%s and %s overlap", p.Title, occupied[cell])
				}
				occupied[cell] = p.Title
			}
		}
		for _, target := range p.Targets {
			queries++
			if strings.Contains(target.Expr, "unless on (instance) redstalk_store_silence_seconds") && strings.Contains(p.Description, "Redis") {
				t.Errorf("%s shows engines without Redis, and says %q", p.Title, p.Description)
			}
			for _, problem := range known.check(target.Expr) {
				t.Errorf("%s: %s", p.Title, problem)
			}
		}
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`label_values\((\w+), (\w+)\)`).FindStringSubmatch(v.Definition); m != nil && !known.has(m[1]) {
			t.Errorf("%s: there is no %s", v.Name, m[1])
		}
	}
	if queries < 30 {
		t.Errorf("only %d queries", queries)
	}
	for _, m := range metrics.Definitions() { // a metric that nobody looks at is not worth its lines
		used := strings.Contains(string(text), m.Name) || strings.Contains(readAll(t, alerts), m.Name)
		if !used && !slices.Contains(notShown, m.Name) {
			t.Errorf("neither the dashboard nor an alert shows %s", m.Name)
		}
	}
}

// notShown are metrics for rare questions.
var notShown = []string{
	"redstalk_spans_dropped_total", // the log says it, too
	"redstalk_tube_urgent_jobs", "redstalk_urgent_jobs", "redstalk_instances", "redstalk_ended_records", "redstalk_ended_bytes", "redstalk_hung_jobs", "redstalk_jobs_on_disk", "redstalk_held_keys", "redstalk_checkpoints", "redstalk_checkpoint_bytes", "redstalk_connections_accepted_total",
	"redstalk_producer_connections", "redstalk_worker_connections", "redstalk_store_records_written_total",
	"redstalk_store_records_migrated_total", "redstalk_snapshot_age_seconds",
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// knownMetrics are all metrics, with their labels.
type knownMetrics map[string][]string

func newKnownMetrics(t *testing.T) knownMetrics {
	t.Helper()
	k := knownMetrics{"up": {"instance", "job"}}
	add := func(name string, kind dto.MetricType, labels []string) {
		labels = append(slices.Clone(labels), "instance", "job")
		if kind != dto.MetricType_HISTOGRAM {
			k[name] = labels
			return
		}
		k[name+"_sum"], k[name+"_count"], k[name+"_bucket"] = labels, labels, append(labels, "le")
	}
	for _, d := range metrics.Definitions() {
		add(d.Name, d.Kind, d.Labels)
	}
	for _, f := range scrape(t, metrics.New(metrics.Config{})) { // with those of the Go runtime and of the process
		if k[f.GetName()] == nil {
			add(f.GetName(), f.GetType(), nil)
		}
	}
	return k
}

func (k knownMetrics) has(name string) bool { return k[name] != nil }

var (
	texts     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	selectors = regexp.MustCompile(`\b([a-z_][a-z0-9_:]*)(?:\{([^}]*)\})?`)
	grouping  = regexp.MustCompile(`\b(by|without|on|ignoring) ?\(([^)]*)\)`)
	windows   = regexp.MustCompile(`\[[^\]]*\]`)
	matcher   = regexp.MustCompile(`^\s*([a-z_]+)\s*(?:=~|!~|!=|=)`)
	values    = regexp.MustCompile(`(state|result)(?:=~|!~|!=|=)"([^"]*)"`)
	words     = []string{
		"sum", "max", "min", "count", "rate", "increase", "histogram_quantile", "time", "last_over_time", "min_over_time", "and", "or", "unless", "by", "on", "without", "offset", "e", "h",
	}
)

// check returns the errors in an expression: metrics that do not exist, labels that a metric
// does not have, and unbalanced parentheses.
func (k knownMetrics) check(expr string) (problems []string) {
	problem := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...)+" in "+expr)
	}
	for _, m := range values.FindAllStringSubmatch(expr, -1) {
		for value := range strings.SplitSeq(m[2], "|") {
			if !slices.Contains(labelValues(m[1]), value) {
				problem("%s is never %s", m[1], value)
			}
		}
	}
	bare := windows.ReplaceAllString(texts.ReplaceAllString(expr, `""`), "")
	var labels []string
	for _, m := range grouping.FindAllStringSubmatch(bare, -1) {
		labels = append(labels, strings.Split(strings.ReplaceAll(m[2], " ", ""), ",")...)
	}
	var has []string // labels of any of the metrics
	for _, m := range selectors.FindAllStringSubmatch(grouping.ReplaceAllString(bare, ""), -1) {
		names := k[m[1]]
		if names == nil {
			if !slices.Contains(words, m[1]) {
				problem("there is no %s", m[1])
			}
			continue
		}
		has = append(has, names...)
		for part := range strings.SplitSeq(m[2], ",") {
			if l := matcher.FindStringSubmatch(part); part != "" && (l == nil || !slices.Contains(names, l[1])) {
				problem("%s has no label as in %q", m[1], part)
			}
		}
	}
	for _, l := range labels {
		if l != "" && !slices.Contains(has, l) {
			problem("no metric has the label %s", l)
		}
	}
	if len(has) == 0 || strings.Count(bare, "(") != strings.Count(bare, ")") || strings.Count(bare, "{") != strings.Count(bare, "}") {
		problem("something is missing")
	}
	return problems
}

func labelValues(label string) (all []string) {
	if label == "state" {
		return []string{"ready", "reserved", "delayed", "buried", "closed", "open", "half-open", "failed", "unsealed", "cyclic"}
	}
	all = []string{"overlapped", "missed"} // of schedules
	for r := range queue.NumResults {
		all = append(all, r.String())
	}
	return all
}

// TestCheck: check finds errors in expressions.
func TestCheck(t *testing.T) {
	k := newKnownMetrics(t)
	for expr, want := range map[string]string{
		`rate(redstalk_puts_total[5m])`:                     "there is no redstalk_puts_total",
		`redstalk_tube_jobs{stat="ready"}`:                  "has no label",
		`redstalk_tube_jobs{state="red"}`:                   "is never red",
		`sum by (tubes) (redstalk_tube_jobs)`:               "no metric has the label tubes",
		`sum(redstalk_tube_jobs`:                            "something is missing",
		`avg(redstalk_tube_jobs)`:                           "there is no avg",
		`redstalk_tube_wait_seconds > 1`:                    "there is no redstalk_tube_wait_seconds",
		`sum by (tube) (redstalk_tube_wait_seconds_bucket)`: "",
	} {
		got := strings.Join(k.check(expr), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", expr, got)
		}
	}
}
