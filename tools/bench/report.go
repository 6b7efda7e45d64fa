package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// A result is the result of one run of a load.
type result struct {
	Load      load             `json:"load"`
	Addr      string           `json:"addr"`
	Seconds   float64          `json:"seconds"`
	Ops       int64            `json:"ops"`
	OpsPerSec float64          `json:"ops_per_s"`
	Latency   percentiles      `json:"latency"`            // of a command, or of a pipelined stage
	Delivery  *percentiles     `json:"delivery,omitempty"` // pc: put sent to job received
	Lateness  *percentiles     `json:"lateness,omitempty"` // delayed, expire: job received after it was due
	Procs     []procUse        `json:"procs"`              // those asked for, then the generator
	Jobs      jobs             `json:"jobs"`
	Errors    int64            `json:"errors"`
	Samples   map[string]int64 `json:"error_samples,omitempty"`
}

// jobs is a run's account of jobs. Lost is negative if the server delivered jobs
// more than once.
type jobs struct {
	Put      int64 `json:"put"`
	Reserved int64 `json:"reserved"`
	Deleted  int64 `json:"deleted"`
	Cleaned  int64 `json:"cleaned"`
	Lost     int64 `json:"lost"`
}

// newResult makes the result of run r from its counters and the processes' use.
func newResult(r *run, t *counters, uses []procUse) *result {
	seconds := time.Duration(r.deadline.Load()).Seconds()
	res := &result{
		Load: r.load, Addr: r.addr, Seconds: seconds,
		Ops: t.ops, OpsPerSec: float64(t.ops) / seconds,
		Latency: t.latency.percentiles(),
		Procs:   uses,
		Jobs:    jobs{Put: t.puts + r.fixture.put, Reserved: t.reserves, Deleted: t.deletes},
		Errors:  t.errors, Samples: t.samples,
	}
	journey := t.journey.percentiles()
	switch r.load.Mode {
	case modePC:
		res.Delivery = &journey
	case modeDelayed, modeExpire:
		res.Lateness = &journey
	}
	for i := range uses {
		uses[i].PerOp = uses[i].CPU * 1e6 / float64(max(t.ops, 1))
	}
	return res
}

// spread returns the percentiles that the load is about: of deliveries if jobs are due at set
// times, otherwise of replies.
func (res *result) spread() *percentiles {
	if res.Lateness != nil {
		return res.Lateness
	}
	return &res.Latency
}

// account completes the account of jobs with the number that was cleaned up.
func (res *result) account(cleaned int64) {
	j := &res.Jobs
	j.Cleaned = cleaned
	j.Lost = j.Put - j.Deleted - j.Cleaned
}

// verdict returns an error if the server did anything wrong.
func (res *result) verdict() error {
	if res.Errors == 0 && res.Jobs.Lost == 0 {
		return nil
	}
	return fmt.Errorf("%d errors and %d jobs lost", res.Errors, res.Jobs.Lost)
}

// writeJSON writes the result as one indented JSON object.
func (res *result) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(res)
}

// writeText writes the result for a reader.
func (res *result) writeText(w io.Writer) {
	fmt.Fprintf(w, "%s; %.1f s at %s\n", &res.Load, res.Seconds, res.Addr)
	fmt.Fprintf(w, "  ops/s      %.0f   (%d commands)\n", res.OpsPerSec, res.Ops)
	of := "command"
	if res.Load.Pipeline > 1 {
		of = fmt.Sprintf("stage of %d", res.Load.Pipeline)
	}
	writeSpread(w, "latency", of, &res.Latency)
	if res.Delivery != nil {
		writeSpread(w, "delivery", "job", res.Delivery)
	}
	if res.Lateness != nil {
		writeSpread(w, "lateness", "job", res.Lateness)
	}
	for _, p := range res.Procs {
		name := p.Name
		if p.PID != 0 {
			name = fmt.Sprintf("%s (%d)", p.Name, p.PID)
		}
		fmt.Fprintf(w, "  cpu        %.2f µs/op, %.2f s, %.1f MiB resident: %s\n",
			p.PerOp, p.CPU, float64(p.RSS)/(1<<20), name)
	}
	j := &res.Jobs
	fmt.Fprintf(w, "  jobs       %d put, %d reserved, %d deleted, %d cleaned away, %d lost\n",
		j.Put, j.Reserved, j.Deleted, j.Cleaned, j.Lost)
	fmt.Fprintf(w, "  errors     %d\n", res.Errors)
	for _, what := range slices.Sorted(maps.Keys(res.Samples)) {
		fmt.Fprintf(w, "    %d× %s\n", res.Samples[what], what)
	}
}

// writeSpread writes one line of percentiles.
func writeSpread(w io.Writer, what, of string, p *percentiles) {
	fmt.Fprintf(w, "  %-10s p50 %s, p99 %s, p99.9 %s, max %s per %s\n",
		what, span(p.P50), span(p.P99), span(p.P999), span(p.Max), of)
}

// span formats microseconds in a suitable unit.
func span(us float64) string {
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.2f s", us/1e6)
	case us >= 1e3:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.0f µs", us)
}
