package httpapi

import (
	"context"
	"runtime/metrics"
	"time"

	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// This file shows how the store is: what this instance has counted of it, and the processes
// that share or keep it.

// surveyLimit is how long those processes may take to answer.
const surveyLimit = 2 * time.Second

// storeInfo is what is known of the store and its surroundings.
type storeInfo struct {
	Kind string `json:"kind" enum:"memory,embedded,redis"`
	Away string `json:"away,omitempty" doc:"why the store cannot be used at present"`

	Calls      uint64  `json:"calls" doc:"of the store, by this instance"`
	Operations float64 `json:"operations_per_call" doc:"on average"`
	CallP95    float64 `json:"call_p95_ms" doc:"within which 95 of 100 calls were answered; 0 if there were none"`
	Syncs      uint64  `json:"syncs" doc:"of the disk"`
	SyncP95    float64 `json:"sync_p95_ms" doc:"within which 95 of 100 syncs were done; 0 if there were none"`
	Retries    uint64  `json:"retries" doc:"calls that were sent again"`
	Replays    uint64  `json:"replays" doc:"of these, those that had been carried out before"`
	Silence    int64   `json:"silence_ms" doc:"since Redis last answered; -1 if there is none"`

	LogBytes        uint64 `json:"log_bytes" doc:"size of the log on the disk; 0 if there is none"`
	FreeBytes       uint64 `json:"free_bytes" doc:"free on the disk of the store; 0 if that is not known"`
	RecordsWritten  uint64 `json:"records_written" doc:"to the log"`
	RecordsMigrated uint64 `json:"records_migrated" doc:"from the log to the tables"`

	TimerLag    int64   `json:"timer_lag_ms" doc:"how late things happen that are due by time"`
	MemoryBytes uint64  `json:"memory_bytes" doc:"that this process has of the system"`
	HeapBytes   uint64  `json:"heap_bytes" doc:"of these, what is in use"`
	Goroutines  uint64  `json:"goroutines"`
	CPU         float64 `json:"cpu_seconds" doc:"of the processor, since the process began"`

	Instances []instanceInfo `json:"instances" nullable:"false" doc:"that share the store; for users who may look at all tubes"`
	Nodes     []nodeInfo     `json:"nodes" nullable:"false" doc:"that keep the store; for users who may look at all tubes"`
}

// instanceInfo is a server that shares the store.
type instanceInfo struct {
	Name    string `json:"name" doc:"under which the store knows it"`
	Own     bool   `json:"own" doc:"it is the one that answers"`
	Silence int64  `json:"silence_ms" doc:"since its last heartbeat"`
	Version string `json:"version,omitempty" doc:"of its program; missing if it has not said"`
}

// nodeInfo is a process that keeps the store.
type nodeInfo struct {
	Addr       string        `json:"addr"`
	Partitions int           `json:"partitions"`
	Problem    string        `json:"problem,omitempty" doc:"why it could not be asked"`
	Role       string        `json:"role,omitempty"`
	Version    string        `json:"version,omitempty"`
	Memory     uint64        `json:"memory_bytes"`
	Clients    uint64        `json:"clients"`
	RoundTrip  float64       `json:"round_trip_ms"`
	Replicas   []replicaInfo `json:"replicas" nullable:"false"`
}

// replicaInfo is a process that follows a node.
type replicaInfo struct {
	Addr   string `json:"addr"`
	State  string `json:"state"`
	Lag    int64  `json:"lag_ms" doc:"since it last said how far it is"`
	Behind uint64 `json:"behind_bytes" doc:"of changes that it has not confirmed"`
}

type storeOutput struct{ Body storeInfo }

func (d *Door) store(ctx context.Context, _ *struct{}) (*storeOutput, error) {
	report := d.queue.Report()
	info := storeInfo{
		Kind: kindOf(&report), Retries: report.Retries, Replays: report.Replays, Silence: -1, TimerLag: d.queue.TimerLag().Milliseconds(),
		Instances: []instanceInfo{}, Nodes: []nodeInfo{},
	}
	if report.Away != nil {
		info.Away = report.Away.Error()
	}
	if report.Silence >= 0 {
		info.Silence = report.Silence.Milliseconds()
	}
	info.addCounts(&report)
	info.addProcess()
	if info.Away == "" {
		s, err := d.queue.Stats(ctx)
		if err != nil {
			return nil, err
		}
		info.RecordsWritten, info.RecordsMigrated = s.Log.RecordsWritten, s.Log.RecordsMigrated
		info.CPU = (s.Process.UserTime + s.Process.SystemTime).Seconds()
	}
	if u := access.UserIn(ctx); u == nil || u.Everywhere()&access.Read != 0 {
		d.addSurvey(ctx, &info)
	}
	return &storeOutput{info}, nil
}

// kindOf tells engines apart by what they count.
func kindOf(r *storage.Report) string {
	switch {
	case r.Silence >= 0:
		return "redis"
	case r.Disk != nil:
		return "embedded"
	}
	return "memory"
}

func (i *storeInfo) addCounts(r *storage.Report) {
	if r.Calls != nil {
		i.Calls, i.CallP95 = r.Calls.Count(), milliseconds(r.Calls)
	}
	if r.Operations != nil && i.Calls > 0 {
		i.Operations = float64(r.Operations.Sum) / float64(i.Calls)
	}
	if r.Syncs != nil {
		i.Syncs, i.SyncP95 = r.Syncs.Count(), milliseconds(r.Syncs)
	}
	if r.Disk != nil {
		i.LogBytes, i.FreeBytes = r.Disk.Log, r.Disk.Free
	}
}

// milliseconds returns within how many of them 95 of 100 values in nanoseconds are: the bound
// of the bucket.
func milliseconds(r *telemetry.Reading) float64 {
	n, sum := r.Count(), uint64(0)
	if n == 0 {
		return 0
	}
	for i, bound := range r.Bounds {
		if sum += r.Counts[i]; sum*100 >= n*95 {
			return float64(bound) / 1e6
		}
	}
	return float64(r.Bounds[len(r.Bounds)-1]) / 1e6
}

// addProcess asks the runtime.
func (i *storeInfo) addProcess() {
	all := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(all)
	i.MemoryBytes, i.HeapBytes, i.Goroutines = all[0].Value.Uint64()-all[1].Value.Uint64(), all[2].Value.Uint64(), all[3].Value.Uint64()
}

// addSurvey asks the processes around the store. If they do not answer, what is known without
// them is shown all the same.
func (d *Door) addSurvey(ctx context.Context, info *storeInfo) {
	ctx, cancel := context.WithTimeout(ctx, surveyLimit)
	defer cancel()
	survey, err := d.queue.Topology(ctx)
	if err != nil && info.Away == "" {
		info.Away = err.Error()
	}
	if survey == nil {
		return
	}
	for _, s := range survey.Instances {
		info.Instances = append(info.Instances, instanceInfo{Name: s.Name, Own: s.Own, Silence: s.Silence.Milliseconds(), Version: s.Version})
	}
	for i := range survey.Nodes {
		info.Nodes = append(info.Nodes, nodeInfoOf(&survey.Nodes[i]))
	}
}

func nodeInfoOf(n *storage.Node) nodeInfo {
	info := nodeInfo{
		Addr: n.Addr, Partitions: n.Partitions, Role: n.Role, Version: n.Version, Memory: n.Memory, Clients: n.Clients,
		RoundTrip: float64(n.RoundTrip.Microseconds()) / 1000, Replicas: []replicaInfo{},
	}
	if n.Err != nil {
		info.Problem = n.Err.Error()
	}
	for _, r := range n.Replicas {
		info.Replicas = append(info.Replicas, replicaInfo{Addr: r.Addr, State: r.State, Lag: r.Lag.Milliseconds(), Behind: r.Behind})
	}
	return info
}
