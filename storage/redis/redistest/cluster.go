package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// slots is how many a cluster has.
const slots = 16384

// Cluster is a Redis Cluster. A node that others miss for a second is replaced
// by its replica.
type Cluster struct {
	Primaries []*Server // which had the slots at the beginning, in equal parts
	Replicas  []*Server // the first one of the first primary, and so on
	ids       map[*Server]string
}

// StartCluster starts a cluster of so many primaries, each with so many
// replicas. It ends with the test.
func StartCluster(tb testing.TB, primaries, replicas int) *Cluster {
	tb.Helper()
	return startCluster(tb, nil, primaries, replicas)
}

func startCluster(tb testing.TB, lock *Lock, primaries, replicas int) *Cluster {
	tb.Helper()
	c := &Cluster{ids: make(map[*Server]string)}
	for i := range primaries * (1 + replicas) {
		node := startNode(tb, lock)
		if i < primaries {
			c.Primaries = append(c.Primaries, node)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
		c.ids[node] = c.tell(tb, node, "cluster", "myid")
		c.tell(tb, node, "cluster", "set-config-epoch", i+1)
		first := c.Primaries[0]
		host, port, _ := net.SplitHostPort(first.Addr)
		if node != first {
			c.tell(tb, node, "cluster", "meet", host, port, first.bus)
		}
	}
	for i, node := range c.Primaries {
		c.tell(tb, node, "cluster", "addslotsrange", slots*i/primaries, slots*(i+1)/primaries-1)
	}
	c.awaitKnown(tb)
	for i, node := range c.Replicas {
		c.tell(tb, node, "cluster", "replicate", c.ids[c.Primaries[i%primaries]])
	}
	c.awaitReady(tb)
	return c
}

func startNode(tb testing.TB, lock *Lock) *Server {
	tb.Helper()
	bus := freePort(tb)
	s := start(tb, lock, "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
	s.bus = bus
	return s
}

// Nodes are all servers of the cluster.
func (c *Cluster) Nodes() []*Server {
	return append(append([]*Server{}, c.Primaries...), c.Replicas...)
}

// URL is how an engine reaches the cluster.
func (c *Cluster) URL() string {
	var hosts []string
	for _, node := range c.Nodes() {
		hosts = append(hosts, node.Addr)
	}
	return c.Primaries[0].lock.url("redis", "+cluster://"+strings.Join(hosts, ","))
}

// tell has a node carry out a command.
func (c *Cluster) tell(tb testing.TB, node *Server, words ...any) string {
	tb.Helper()
	client := goredis.NewClient(node.options())
	defer client.Close()
	answer, err := client.Do(context.Background(), words...).Result()
	if err != nil {
		tb.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(answer)
}

// awaitKnown waits until every node has heard of all.
func (c *Cluster) awaitKnown(tb testing.TB) {
	tb.Helper()
	for _, node := range c.Nodes() {
		await(tb, "the nodes to meet", func(context.Context) bool {
			return strings.Count(c.tell(tb, node, "cluster", "nodes"), " connected") == len(c.ids)
		})
	}
}

// awaitReady waits until every node finds the cluster in order, and every
// replica follows.
func (c *Cluster) awaitReady(tb testing.TB) {
	tb.Helper()
	for _, node := range c.Nodes() {
		await(tb, "the cluster to be in order", func(context.Context) bool {
			nodes := c.tell(tb, node, "cluster", "nodes")
			return strings.Contains(c.tell(tb, node, "cluster", "info"), "cluster_state:ok") &&
				strings.Count(nodes, "slave ") == len(c.Replicas) && !strings.Contains(nodes, "fail")
		})
	}
	for _, node := range c.Replicas {
		await(tb, "the replicas to follow", func(context.Context) bool {
			return strings.Contains(c.tell(tb, node, "info", "replication"), "master_link_status:up")
		})
	}
}

// AwaitListed waits until nodes tell clients of all replicas, which they do some
// time after there was something to replicate in each primary.
func (c *Cluster) AwaitListed(tb testing.TB) {
	tb.Helper()
	for _, node := range c.Nodes() {
		await(tb, "the replicas to be listed", func(context.Context) bool {
			list := c.tell(tb, node, "cluster", "slots")
			for _, replica := range c.Replicas {
				if !strings.Contains(list, c.ids[replica]) {
					return false
				}
			}
			return true
		})
	}
}

// Owner returns the node that has a key, as that one says.
func (c *Cluster) Owner(tb testing.TB, key string, asked *Server) *Server {
	tb.Helper()
	slot := c.tell(tb, asked, "cluster", "keyslot", key)
	for _, node := range c.Nodes() {
		if has(c.tell(tb, asked, "cluster", "nodes"), c.ids[node], slot) {
			return node
		}
	}
	return nil
}

// has returns whether the node has a slot, by the answer of CLUSTER NODES.
func has(nodes, id, slot string) bool {
	var want, from, to int
	fmt.Sscan(slot, &want)
	for _, line := range strings.Split(nodes, "\n") {
		words := strings.Fields(line)
		if len(words) < 8 || words[0] != id {
			continue
		}
		for _, part := range words[8:] {
			if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			if from <= want && want <= to {
				return true
			}
		}
	}
	return false
}

// AwaitTakeover waits until a node other than that has the key and the cluster
// is in order again, as the survivors see it.
func (c *Cluster) AwaitTakeover(tb testing.TB, key string, not *Server) *Server {
	tb.Helper()
	var owner *Server
	for _, node := range c.Nodes() {
		if node == not {
			continue
		}
		await(tb, "a replica to take over", func(context.Context) bool {
			owner = c.Owner(tb, key, node)
			return owner != nil && owner != not
		})
	}
	return owner
}

// Migrate moves the slot of a key, with all that is in it, from one node to
// another, few keys at a time, as redis-cli does. each, if not nil, is called
// before every step.
func (c *Cluster) Migrate(tb testing.TB, key string, from, to *Server, each func()) {
	tb.Helper()
	if from == to {
		return
	}
	slot := c.tell(tb, from, "cluster", "keyslot", key)
	c.tell(tb, to, "cluster", "setslot", slot, "importing", c.ids[from])
	c.tell(tb, from, "cluster", "setslot", slot, "migrating", c.ids[to])
	host, port, _ := net.SplitHostPort(to.Addr)
	client := from.Client(tb)
	for {
		if each != nil {
			each()
		}
		keys, err := client.Do(context.Background(), "cluster", "getkeysinslot", slot, 100).StringSlice()
		if err != nil {
			tb.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		words := []any{"migrate", host, port, "", 0, 5000, "keys"}
		for _, k := range keys {
			words = append(words, k)
		}
		c.tell(tb, from, words...)
	}
	for _, node := range []*Server{to, from} {
		c.tell(tb, node, "cluster", "setslot", slot, "node", c.ids[to])
	}
	for _, node := range c.Primaries {
		if node != to && node != from {
			c.tell(tb, node, "cluster", "setslot", slot, "node", c.ids[to])
		}
	}
}
