package redis

import (
	"context"
	"strings"
	"testing"
	"time"

	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
)

// TestTopology: the topology has the instances with their heartbeats, and the server with its
// replica.
func TestTopology(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := redistest.Start(t)
	o := Options{URL: server.URL(), Partitions: 4}
	var stores []*Store
	ctx := context.Background()
	versions := server.Client(t)
	for _, o.Version = range []string{"1.0", "2.0"} {
		versions.HSet(ctx, schema.KeyPrefix("redstalk", 0)+"versions", "LONGGONE", "0.9")
		s, err := Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		do(s, put("x"))
		stores = append(stores, s)
	}
	if known, err := versions.HLen(ctx, schema.KeyPrefix("redstalk", 0)+"versions").Result(); known != 2 || err != nil {
		t.Errorf("the versions of %d instances are kept, %v", known, err)
	}
	host, port, _ := strings.Cut(server.Addr, ":")
	if err := replica.Client(t).ReplicaOf(ctx, host, port).Err(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		topology, err := stores[0].Topology(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(topology.Nodes) == 1 && len(topology.Nodes[0].Replicas) == 1 && topology.Nodes[0].Replicas[0].State == "online" || time.Now().After(limit) {
			own := 0
			for _, i := range topology.Instances {
				if i.Own {
					own++
				}
				if len(i.Name) != 8 || i.SinceContact > time.Minute || i.Version != map[bool]string{true: "1.0", false: "2.0"}[i.Own] {
					t.Errorf("an instance is %+v", i)
				}
			}
			n := topology.Nodes[0]
			if len(topology.Instances) != 2 || own != 1 || n.Partitions != 4 || n.Err != nil || n.Role != "master" || n.Version == "" || n.Memory == 0 || n.RoundTrip <= 0 || len(n.Replicas) != 1 {
				t.Errorf("%+v", topology)
			}
			return
		}
	}
}
