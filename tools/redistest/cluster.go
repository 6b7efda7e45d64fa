package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/tools/conformance/child"
)

// slots is the number of slots of a cluster.
const slots = 16384

// Cluster is a Redis Cluster. A replica takes over from a node that the others miss for a
// second.
type Cluster struct {
	Primaries []*Server // which had the slots at the beginning, in equal parts
	Replicas  []*Server // the first one of the first primary, and so on
	ids       map[*Server]string
	buses     map[*Server]string // the ports at which they are announced to each other
}

// StartCluster starts a cluster of primaries with that many replicas each; the arguments are
// for all nodes. It ends with the test.
func StartCluster(tb testing.TB, primaries, replicas int, args ...string) *Cluster {
	tb.Helper()
	return startCluster(tb, terms{}, primaries, replicas, args...)
}

// StartClusterWithProxies is StartCluster with each node behind proxies, one for
// clients and replicas, and one for other nodes.
func StartClusterWithProxies(tb testing.TB, primaries, replicas int, args ...string) *Cluster {
	tb.Helper()
	return startCluster(tb, terms{behind: true}, primaries, replicas, args...)
}

func startCluster(tb testing.TB, on terms, primaries, replicas int, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{ids: make(map[*Server]string), buses: make(map[*Server]string)}
	for i := range primaries * (1 + replicas) {
		node, bus := startNode(tb, on, args)
		if i < primaries {
			c.Primaries = append(c.Primaries, node)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
		c.ids[node], c.buses[node] = c.run(tb, node, "cluster", "myid"), bus
		c.run(tb, node, "cluster", "set-config-epoch", i+1)
	}
	c.introduce(tb)
	for i, node := range c.Primaries {
		c.run(tb, node, "cluster", "addslotsrange", slots*i/primaries, slots*(i+1)/primaries-1)
	}
	c.awaitKnown(tb)
	for i, node := range c.Replicas {
		c.run(tb, node, "cluster", "replicate", c.ids[c.Primaries[i%primaries]])
	}
	c.AwaitHealthy(tb)
	return c
}

// startNode starts one, and returns the port at which it is announced to others.
func startNode(tb testing.TB, on terms, args []string) (s *Server, bus string) {
	tb.Helper()
	bus = child.FreePort()
	s = newServer(tb, on)
	s.args = append([]string{"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"}, args...)
	if on.behind {
		s.Bus = NewProxyTo(tb, net.JoinHostPort("127.0.0.1", bus))
		bus = portOf(s.Bus.Addr)
		s.args = append(s.args, "--cluster-announce-port", portOf(s.Front.Addr), "--cluster-announce-bus-port", bus)
	}
	s.serve(tb)
	return s, bus
}

// Nodes are all servers of the cluster.
func (c *Cluster) Nodes() []*Server {
	return append(append([]*Server{}, c.Primaries...), c.Replicas...)
}

// URL is how an engine reaches the cluster.
func (c *Cluster) URL() string {
	var hosts []string
	for _, node := range c.Nodes() {
		hosts = append(hosts, node.Announced())
	}
	return c.Primaries[0].lock.url("redis", "+cluster://"+strings.Join(hosts, ","))
}

// run makes a node carry out a command.
func (c *Cluster) run(tb testing.TB, node *Server, words ...any) string {
	tb.Helper()
	client := goredis.NewClient(node.options())
	defer client.Close()
	answer, err := client.Do(context.Background(), words...).Result()
	if err != nil {
		tb.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(answer)
}

// NeverFailOver keeps the cluster from declaring a silent node dead, for tests in which none
// dies, on busy machines.
func (c *Cluster) NeverFailOver(tb testing.TB) {
	tb.Helper()
	for _, node := range c.Nodes() {
		c.run(tb, node, "config", "set", "cluster-node-timeout", "600000")
	}
}

// introduce makes the first node meet those that it does not know.
func (c *Cluster) introduce(tb testing.TB) {
	tb.Helper()
	first := c.Primaries[0]
	known := c.run(tb, first, "cluster", "nodes")
	for _, node := range c.Nodes() {
		if !strings.Contains(known, c.ids[node]) {
			host, port, _ := net.SplitHostPort(node.Announced())
			c.run(tb, first, "cluster", "meet", host, port, c.buses[node])
		}
	}
}

// meetAgain is longer than the node timeout, during which Redis keeps trying to meet a node. On
// a busy machine a meeting can fail within it.
const meetAgain = 1500 * time.Millisecond

// awaitKnown waits until every node knows all others.
func (c *Cluster) awaitKnown(tb testing.TB) {
	tb.Helper()
	last := time.Now()
	for _, node := range c.Nodes() {
		await(tb, "the nodes to meet", func(context.Context) bool {
			if time.Since(last) > meetAgain {
				c.introduce(tb)
				last = time.Now()
			}
			return strings.Count(c.run(tb, node, "cluster", "nodes"), " connected") == len(c.ids)
		})
	}
}

// AwaitHealthy waits until every node finds the cluster in order, and every
// replica follows.
func (c *Cluster) AwaitHealthy(tb testing.TB) {
	tb.Helper()
	for _, node := range c.Nodes() {
		await(tb, "the cluster to be in order", func(ctx context.Context) bool {
			nodes := c.tryRun(ctx, node, "cluster", "nodes")
			return strings.Contains(c.tryRun(ctx, node, "cluster", "info"), "cluster_state:ok") &&
				strings.Count(nodes, "slave ") == len(c.Replicas) && !strings.Contains(nodes, "fail") &&
				!strings.Contains(node.info(ctx, "replication"), "master_link_status:down")
		})
	}
}

// tryRun is run for a node that may not answer: then it returns "".
func (c *Cluster) tryRun(ctx context.Context, node *Server, words ...any) string {
	options := node.options()
	options.MaxRetries = -1
	client := goredis.NewClient(options)
	defer client.Close()
	answer, err := client.Do(ctx, words...).Text()
	if err != nil {
		return ""
	}
	return answer
}

// Now returns which nodes are primaries and which are replicas, as the first of
// them says. That is for when the cluster is whole.
func (c *Cluster) Now(tb testing.TB) (primaries, replicas []*Server) {
	tb.Helper()
	role := make(map[string]string) // by id, among other flags
	for _, line := range strings.Split(c.run(tb, c.Primaries[0], "cluster", "nodes"), "\n") {
		if words := strings.Fields(line); len(words) > 2 {
			role[words[0]] = words[2]
		}
	}
	for _, node := range c.Nodes() {
		if strings.Contains(role[c.ids[node]], "slave") {
			replicas = append(replicas, node)
		} else {
			primaries = append(primaries, node)
		}
	}
	return primaries, replicas
}

// PrimaryOf returns the node whose replica that one is, as it says.
func (c *Cluster) PrimaryOf(tb testing.TB, replica *Server) *Server {
	tb.Helper()
	info := replica.info(context.Background(), "replication")
	for _, node := range c.Nodes() {
		if strings.Contains(info, "master_port:"+portOf(node.Announced())+"\r") {
			return node
		}
	}
	tb.Fatalf("a node is no replica of any:\n%s", info)
	return nil
}

// AwaitListed waits until nodes report all replicas to clients, which they do some
// time after there was something to replicate in each primary.
func (c *Cluster) AwaitListed(tb testing.TB) {
	tb.Helper()
	for _, node := range c.Nodes() {
		await(tb, "the replicas to be listed", func(context.Context) bool {
			list := c.run(tb, node, "cluster", "slots")
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
	slot := c.run(tb, asked, "cluster", "keyslot", key)
	for _, node := range c.Nodes() {
		if has(c.run(tb, asked, "cluster", "nodes"), c.ids[node], slot) {
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

// AwaitReplaced waits until all other nodes know that another one has the slots
// of a primary that has failed.
func (c *Cluster) AwaitReplaced(tb testing.TB, failed *Server) {
	tb.Helper()
	for _, node := range c.Nodes() {
		if node == failed {
			continue
		}
		await(tb, "a replica to take over", func(ctx context.Context) bool {
			nodes := c.tryRun(ctx, node, "cluster", "nodes")
			return nodes != "" && slotsOf(nodes, c.ids[failed]) == 0
		})
	}
}

// FailOver has a replica take over from its primary by agreement, and waits until
// all nodes know. An attempt for which the nodes had no time comes to nothing, so
// there may be several.
func (c *Cluster) FailOver(tb testing.TB, replica *Server) {
	tb.Helper()
	const attempt = 6 * time.Second
	var begun time.Time
	for _, node := range c.Nodes() {
		await(tb, "a replica to be promoted", func(ctx context.Context) bool {
			if slotsOf(c.tryRun(ctx, node, "cluster", "nodes"), c.ids[replica]) > 0 {
				return true
			}
			if time.Since(begun) > attempt {
				begun = time.Now()
				c.tryRun(ctx, replica, "cluster", "failover")
			}
			return false
		})
	}
}

// slotsOf returns how many ranges of slots a node has, by the answer of CLUSTER
// NODES.
func slotsOf(nodes, id string) int {
	for _, line := range strings.Split(nodes, "\n") {
		if words := strings.Fields(line); len(words) >= 8 && words[0] == id {
			return len(words) - 8
		}
	}
	return 0
}

// Migrate moves the slot of a key, with all that is in it, from one node to
// another, few keys at a time, as redis-cli does. each, if not nil, is called
// before every step.
func (c *Cluster) Migrate(tb testing.TB, key string, from, to *Server, each func()) {
	tb.Helper()
	if from == to {
		return
	}
	slot := c.run(tb, from, "cluster", "keyslot", key)
	c.run(tb, to, "cluster", "setslot", slot, "importing", c.ids[from])
	c.run(tb, from, "cluster", "setslot", slot, "migrating", c.ids[to])
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
		c.run(tb, from, words...)
	}
	for _, node := range []*Server{to, from} {
		c.run(tb, node, "cluster", "setslot", slot, "node", c.ids[to])
	}
	primaries, _ := c.Now(tb)
	for _, node := range primaries {
		if node != to && node != from {
			c.run(tb, node, "cluster", "setslot", slot, "node", c.ids[to])
		}
	}
}
