package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/compile"
	"redstalk/tools/redistest"
)

var growth = flag.Duration("growth", 0, "how long each load of TestGrowth lasts; 0: it is not run")

// TestGrowth measures the cost of an operation on the nodes of a cluster, each of them
// and all together. The throughput of the cluster is limited by
// its busiest node, if each has a processor of its own, which they
// do not have here. stalkbench loads one instance, and reads processor
// times from /proc.
func TestGrowth(t *testing.T) {
	if *growth == 0 {
		t.Skip("measures; -growth 5s runs it")
	}
	bench := filepath.Join(t.TempDir(), "stalkbench")
	if err := compile.Program(bench, "../stalkbench"); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, one := range []struct{ nodes, partitions int }{{1, 16}, {2, 16}, {3, 16}, {6, 16}, {6, 64}} {
		t.Run(fmt.Sprintf("%d nodes, %d partitions", one.nodes, one.partitions), func(t *testing.T) {
			rows.WriteString(measureGrowth(t, bench, one.nodes, one.partitions))
		})
	}
	t.Logf("processor time in µs for an operation, of which put, reserve and delete are three; shares of the operations\n\n"+
		"| nodes | partitions | redstalk | all nodes | the busiest node | ops/s, if each node has a processor | node: its share, and time for one of its operations |\n"+
		"|--:|--:|--:|--:|--:|--:|---|\n%s", rows.String())
}

// measureGrowth returns a row of the table.
func measureGrowth(t *testing.T, bench string, nodes, partitions int) string {
	redis := redistest.StartCluster(t, nodes, 0)
	p, addr := serve(t, "-p0", "--store", redis.URL(), "--partitions", strconv.Itoa(partitions))
	args := []string{"run", "--addr", addr, "--conns", "128", "--tubes", "128", "--pipeline", "16",
		"--duration", growth.String(), "--json", "--pid", strconv.Itoa(p.Pid())}
	for _, node := range redis.Primaries {
		args = append(args, "--pid", strconv.Itoa(node.Pid()))
	}
	out, err := exec.Command(bench, args...).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var own struct {
		OpsPerSec float64 `json:"ops_per_s"`
		Procs     []struct {
			PerOp float64 `json:"cpu_us_per_op"`
		}
	}
	if err := json.Unmarshal(out, &own); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all, busiest, each := 0.0, 0.0, ""
	for i, share := range sharesOf(t, redis, partitions) {
		used := own.Procs[1+i].PerOp
		all, busiest = all+used, max(busiest, used)
		if share > 0 {
			each += fmt.Sprintf(" %d: %.0f %%, %.2f;", i+1, 100*share, used/share)
		}
	}
	t.Logf("%.0f ops/s, all on one machine", own.OpsPerSec)
	return fmt.Sprintf("| %d | %d | %.2f | %.2f | %.2f | %s |%s |\n", nodes, partitions, own.Procs[0].PerOp, all, busiest, thousands(int(1e6/busiest)),
		strings.TrimSuffix(each, ";"))
}

// sharesOf returns what part of all jobs each primary was given.
func sharesOf(t *testing.T, redis *redistest.Cluster, partitions int) []float64 {
	shares, all := make([]float64, len(redis.Primaries)), 0.0
	for i, node := range redis.Primaries {
		client := node.Client(t)
		for number := range partitions {
			prefix := fmt.Sprintf("redstalk:{%d}:", number)
			if redis.Owner(t, prefix, node) != node {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			counts := must(client.HGetAll(ctx, prefix+"counts").Result())(t)
			cancel()
			given, _ := strconv.ParseFloat(counts["ids"], 64)
			skipped, _ := strconv.ParseFloat(counts["skipped"], 64)
			shares[i] += given - skipped
		}
		all += shares[i]
	}
	for i := range shares {
		shares[i] /= all
	}
	return shares
}
