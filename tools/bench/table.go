package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A row sums up the rounds of one load on one server: medians, and the
// extremes of throughput. The ratio is the median of the ratios of the rounds, since other
// work on the machine changes more between rounds than within one.
type row struct {
	load, server   string
	ops, min, max  float64 // per second
	ratio          float64 // to the first server under this load; 0 if there is none
	cpu            float64 // µs per operation
	helper         float64 // µs per operation, or below zero if there is no helper
	generator      float64 // µs per operation
	rss            float64 // bytes
	p50, p99, p999 float64 // µs, see result.spread
}

// median returns the median of f over results.
func median(results []*result, f func(*result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = f(r)
	}
	return middle(values)
}

// middle returns the median of values, which it sorts; 0 if there are none.
func middle(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// ratio returns the median of the throughput ratios of results to base, in the same
// round.
func ratio(results, base []*result) float64 {
	var ratios []float64
	for round, r := range results {
		if of := base[round]; r != nil && of != nil && of.OpsPerSec > 0 {
			ratios = append(ratios, r.OpsPerSec/of.OpsPerSec)
		}
	}
	return middle(ratios)
}

// rows sums up the results, load by load; servers without results have no row.
func (c *comparison) rows() []row {
	var rows []row
	for li, l := range c.loads {
		for si := range c.servers {
			all := c.results[cell{si, li}]
			results := slices.DeleteFunc(slices.Clone(all), func(r *result) bool { return r == nil })
			if len(results) == 0 {
				continue
			}
			r := summarize(results, c.servers[si].helper != nil)
			r.load, r.server, r.ratio = l.Name, c.servers[si].name, ratio(all, c.results[cell{0, li}])
			rows = append(rows, r)
		}
	}
	return rows
}

// summarize takes the medians. The processes of a result are the server, its helper
// if there is one, and the generator.
func summarize(results []*result, helped bool) row {
	r := row{
		ops:       median(results, func(r *result) float64 { return r.OpsPerSec }),
		cpu:       median(results, func(r *result) float64 { return r.Procs[0].PerOp }),
		rss:       median(results, func(r *result) float64 { return float64(r.Procs[0].RSS) }),
		generator: median(results, func(r *result) float64 { return r.Procs[len(r.Procs)-1].PerOp }),
		p50:       median(results, func(r *result) float64 { return r.spread().P50 }),
		p99:       median(results, func(r *result) float64 { return r.spread().P99 }),
		p999:      median(results, func(r *result) float64 { return r.spread().P999 }),
		helper:    -1,
		min:       results[0].OpsPerSec,
	}
	if helped {
		r.helper = median(results, func(r *result) float64 { return r.Procs[1].PerOp })
	}
	for _, res := range results {
		r.min, r.max = min(r.min, res.OpsPerSec), max(r.max, res.OpsPerSec)
	}
	return r
}

// columns are the headings of the table; cells returns the cells of a row.
var columns = []string{"load", "server", "ops/s", "min..max", "ratio",
	"CPU µs/op", "helper µs/op", "generator µs/op", "RSS MiB", "p50", "p99", "p99.9"}

func (r *row) cells() []string {
	ratio, helper := "–", "–"
	if r.ratio > 0 {
		ratio = fmt.Sprintf("%.2f", r.ratio)
	}
	if r.helper >= 0 {
		helper = fmt.Sprintf("%.2f", r.helper)
	}
	return []string{
		r.load, r.server, fmt.Sprintf("%.0f", r.ops), fmt.Sprintf("%.0f..%.0f", r.min, r.max), ratio,
		fmt.Sprintf("%.2f", r.cpu), helper, fmt.Sprintf("%.2f", r.generator),
		fmt.Sprintf("%.1f", r.rss/(1<<20)), span(r.p50), span(r.p99), span(r.p999),
	}
}

// writeTable writes the rows for a terminal.
func writeTable(w io.Writer, rows []row) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, strings.Join(columns, "\t")+"\t")
	for i := range rows {
		fmt.Fprintln(tw, strings.Join(rows[i].cells(), "\t")+"\t")
	}
	tw.Flush()
}

// writeMarkdown writes the rows, the loads, the servers and the machine.
func writeMarkdown(w io.Writer, c *comparison, rows []row) {
	fmt.Fprintf(w, "| %s |\n|:--|:--|%s\n", strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)-2))
	for i := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(rows[i].cells(), " | "))
	}
	fmt.Fprintf(w, "\nMedians of %d rounds of %v; the servers took turns, each started anew for every load.\n",
		c.rounds, c.loads[0].Duration)
	fmt.Fprint(w, "One operation is one command. Latency is that of a command or, pipelined, of a\n"+
		"stage. The ratio is to the first server. Helper and generator ran on the same\n"+
		"machine as the server.\n\nLoads:\n\n")
	for i := range c.loads {
		fmt.Fprintf(w, "- `%s`: %s\n", c.loads[i].Name, &c.loads[i])
	}
	fmt.Fprint(w, "\nServers:\n\n")
	for i := range c.servers {
		c.servers[i].describe(w)
	}
	fmt.Fprint(w, "\nMachine:\n\n")
	for _, line := range machineMetadata() {
		fmt.Fprintf(w, "- %s\n", line)
	}
}

// describe writes a server's command and version as a list item.
func (s *server) describe(w io.Writer) {
	fmt.Fprintf(w, "- `%s`: `%s`", s.name, quoteWords(s.argv))
	if v := versionOf(s.argv[0]); v != "" {
		fmt.Fprintf(w, " (%s)", v)
	}
	if s.helper != nil {
		fmt.Fprintf(w, ", beside `%s`", quoteWords(s.helper))
		if v := versionOf(s.helper[0]); v != "" {
			fmt.Fprintf(w, " (%s)", v)
		}
	}
	fmt.Fprintln(w)
}

// quoteWords joins words to a command line that splitWords splits again.
func quoteWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if word == "" || strings.ContainsAny(word, " \t\n\"") {
			quoted[i] = "'" + word + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// machineMetadata returns the processor, cores, kernel, Go version and date.
func machineMetadata() []string {
	metadata := []string{
		fmt.Sprintf("processor: %s, %d cores", cpuModel(), runtime.NumCPU()),
		"system: " + runtime.GOOS + "/" + runtime.GOARCH,
		"generator: stalkbench, " + runtime.Version(),
		"date: " + time.Now().Format(time.DateOnly),
	}
	if out, err := exec.Command("uname", "-sr").Output(); err == nil {
		metadata[1] = "system: " + strings.TrimSpace(string(out)) + " " + runtime.GOARCH
	}
	return metadata
}

// cpuModel reads the processor's name from /proc/cpuinfo.
func cpuModel() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
