package redis

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
)

// Topology implements storage.Surveyor. Instances are those of the first partition, as each
// instance serves all partitions. For a server that cannot be asked, the topology has the
// error.
func (s *Store) Topology(ctx context.Context) (*storage.Topology, error) {
	topology, at := new(storage.Topology), make(map[conn.Node]int)
	for _, p := range s.parts {
		node, err := s.pool.Node(ctx, p.prefix)
		if err != nil {
			return nil, fmt.Errorf("looking for the server of the partition %d: %w", p.number, err)
		}
		if i, known := at[node]; known {
			topology.Nodes[i].Partitions++
			continue
		}
		at[node] = len(topology.Nodes)
		topology.Nodes = append(topology.Nodes, s.readNode(ctx, node))
	}
	var err error
	topology.Instances, err = s.readInstances(ctx)
	return topology, err
}

// readInstances reads the heartbeats and versions.
func (s *Store) readInstances(ctx context.Context) (all []storage.Instance, err error) {
	p := s.parts[0]
	node, err := s.pool.Node(ctx, p.prefix)
	if err != nil {
		return nil, fmt.Errorf("looking for the server of the first partition: %w", err)
	}
	now, err := node.Time(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the time: %w", s.pool.Redact(err))
	}
	beats, err := node.Do(ctx, "zrange", p.prefix+"instances", 0, -1, "withscores").Scored()
	if err != nil {
		return nil, fmt.Errorf("reading the heartbeats: %w", s.pool.Redact(err))
	}
	versions, err := node.Do(ctx, "hgetall", p.prefix+"versions").Pairs()
	if err != nil {
		return nil, fmt.Errorf("reading the versions of instances: %w", s.pool.Redact(err))
	}
	own := p.instance.name()
	for _, beat := range beats {
		name := beat.Member
		since := now.Sub(time.UnixMilli(int64(beat.Score)))
		all = append(all, storage.Instance{Name: name, Own: name == own, SinceContact: max(since, 0), Version: versions[name]})
	}
	return all, nil
}

// readNode asks one server about itself.
func (s *Store) readNode(ctx context.Context, node conn.Node) storage.Node {
	n := storage.Node{Addr: s.pool.NameOf(node), Partitions: 1}
	began := time.Now()
	info, err := node.Do(ctx, "info").Text()
	if err != nil {
		n.Err = s.pool.Redact(err)
		return n
	}
	n.RoundTrip = time.Since(began)
	metadata := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			metadata[name] = value
		}
	}
	n.Role, n.Version = metadata["role"], metadata["redis_version"]
	if valkey := metadata["valkey_version"]; valkey != "" {
		n.Version = "Valkey " + valkey
	}
	n.Memory, n.Clients = number(metadata["used_memory"]), number(metadata["connected_clients"])
	offset := number(metadata["master_repl_offset"])
	for name, value := range metadata {
		if replicaName.MatchString(name) {
			n.Replicas = append(n.Replicas, replicaOf(value, offset))
		}
	}
	return n
}

var replicaName = regexp.MustCompile(`^slave\d+$`)

// replicaOf parses the line of INFO about a replica. The primary has sent so many bytes.
func replicaOf(text string, sent uint64) storage.Replica {
	metadata := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		metadata[name] = value
	}
	r := storage.Replica{
		Addr: net.JoinHostPort(metadata["ip"], metadata["port"]), State: metadata["state"],
		Lag: time.Duration(number(metadata["lag"])) * time.Second,
	}
	if has := number(metadata["offset"]); has < sent {
		r.LagBytes = sent - has
	}
	return r
}

// number parses a number; 0 if it is malformed.
func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}
