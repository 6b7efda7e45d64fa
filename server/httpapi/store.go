package httpapi

import (
	"context"
	"runtime/metrics"
	"time"

	"redstalk/server/access"
	"redstalk/storage"
	"redstalk/storage/telemetry"
)

// This file reports on the store: the counters of this instance, and the processes that share
// or keep its data.

// topologyTimeout is how long those processes can take to answer.
const topologyTimeout = 2 * time.Second

// storeInfo describes the store and the processes around it.
type storeInfo struct {
	Kind        string `json:"kind" enum:"memory,embedded,redis"`
	Unreachable string `json:"unreachable,omitempty" doc:"why the store cannot be reached; missing if it can"`

	Calls      uint64  `json:"calls" doc:"calls of the store by this instance"`
	Operations float64 `json:"operations_per_call" doc:"on average"`
	CallP95    float64 `json:"call_p95_ms" doc:"95th percentile of the call duration; 0 if there were no calls"`
	Syncs      uint64  `json:"syncs" doc:"syncs of the log to the disk"`
	SyncP95    float64 `json:"sync_p95_ms" doc:"95th percentile of the sync duration; 0 if there were no syncs"`
	Retries    uint64  `json:"retries" doc:"calls that were sent more than once"`
	Replays    uint64  `json:"replays" doc:"retried calls that had already taken effect"`
	SinceReply int64   `json:"since_reply_ms" doc:"time since Redis last answered; -1 without Redis"`

	LogBytes        uint64 `json:"log_bytes" doc:"size of the log on disk; 0 if there is none"`
	FreeBytes       uint64 `json:"free_bytes" doc:"free space on the disk of the store; 0 if unknown"`
	PutsRefused     string `json:"puts_refused,omitempty" doc:"why puts are refused for lack of room; missing if they are not"`
	RecordsWritten  uint64 `json:"records_written" doc:"records written to the log"`
	RecordsMigrated uint64 `json:"records_migrated" doc:"records moved from the log to the tables"`

	TimerLag    int64   `json:"timer_lag_ms" doc:"how late timed transitions happen"`
	MemoryBytes uint64  `json:"memory_bytes" doc:"memory of this process"`
	HeapBytes   uint64  `json:"heap_bytes" doc:"the part of memory_bytes that is in use"`
	Goroutines  uint64  `json:"goroutines"`
	CPU         float64 `json:"cpu_seconds" doc:"CPU time since the process started"`

	Instances []instanceInfo `json:"instances" nullable:"false" doc:"instances that share the store; only for users who may list all tubes"`
	Nodes     []nodeInfo     `json:"nodes" nullable:"false" doc:"processes that keep the data; only for users who may list all tubes"`
}

// instanceInfo is an instance that shares the store.
type instanceInfo struct {
	Name           string `json:"name" doc:"name of the instance in the store"`
	Own            bool   `json:"own" doc:"whether it is the instance that answers"`
	SinceHeartbeat int64  `json:"since_heartbeat_ms" doc:"time since its last heartbeat"`
	Version        string `json:"version,omitempty" doc:"version of redstalkd; missing if unknown"`
}

// nodeInfo is a process that keeps the data of the store.
type nodeInfo struct {
	Addr       string        `json:"addr"`
	Partitions int           `json:"partitions"`
	Problem    string        `json:"problem,omitempty" doc:"why it could not be queried"`
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
	Lag    int64  `json:"lag_ms" doc:"time since its last acknowledgment"`
	Behind uint64 `json:"behind_bytes" doc:"bytes of changes that it has not acknowledged"`
}

type storeOutput struct{ Body storeInfo }

func (svc *service) store(ctx context.Context, _ *struct{}) (*storeOutput, error) {
	report := svc.queue.Report()
	info := storeInfo{
		Kind: kindOf(&report), Retries: report.Retries, Replays: report.Replays, SinceReply: -1, TimerLag: svc.queue.TimerLag().Milliseconds(),
		Instances: []instanceInfo{}, Nodes: []nodeInfo{},
	}
	if report.Unavailable != nil {
		info.Unreachable = report.Unavailable.Error()
	}
	if report.SinceContact >= 0 {
		info.SinceReply = report.SinceContact.Milliseconds()
	}
	info.addCounts(&report)
	info.addProcess()
	if info.Unreachable == "" {
		s, err := svc.queue.Stats(ctx)
		if err != nil {
			return nil, err
		}
		info.RecordsWritten, info.RecordsMigrated = s.Log.RecordsWritten, s.Log.RecordsMigrated
		info.CPU = (s.Process.UserTime + s.Process.SystemTime).Seconds()
	}
	if u := access.UserIn(ctx); u == nil || u.Everywhere()&access.List != 0 {
		svc.addTopology(ctx, &info)
	}
	return &storeOutput{info}, nil
}

// kindOf returns the kind of the engine, which follows from what it counts.
func kindOf(r *storage.Report) string {
	switch {
	case r.SinceContact >= 0:
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
		i.LogBytes, i.FreeBytes, i.PutsRefused = r.Disk.Log, r.Disk.Free, r.Disk.Refusing
	}
}

// milliseconds returns the 95th percentile of values in nanoseconds, in milliseconds: the upper
// bound of its bucket.
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

// addProcess adds figures of the Go runtime.
func (i *storeInfo) addProcess() {
	all := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(all)
	i.MemoryBytes, i.HeapBytes, i.Goroutines = all[0].Value.Uint64()-all[1].Value.Uint64(), all[2].Value.Uint64(), all[3].Value.Uint64()
}

// addTopology queries the processes around the store. If they do not answer, the rest of the
// answer is unaffected.
func (svc *service) addTopology(ctx context.Context, info *storeInfo) {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	topology, err := svc.queue.Topology(ctx)
	if err != nil && info.Unreachable == "" {
		info.Unreachable = err.Error()
	}
	if topology == nil {
		return
	}
	for _, s := range topology.Instances {
		info.Instances = append(info.Instances, instanceInfo{Name: s.Name, Own: s.Own, SinceHeartbeat: s.SinceContact.Milliseconds(), Version: s.Version})
	}
	for i := range topology.Nodes {
		info.Nodes = append(info.Nodes, nodeInfoOf(&topology.Nodes[i]))
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
		info.Replicas = append(info.Replicas, replicaInfo{Addr: r.Addr, State: r.State, Lag: r.Lag.Milliseconds(), Behind: r.LagBytes})
	}
	return info
}
