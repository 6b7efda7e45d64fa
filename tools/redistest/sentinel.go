package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// MasterName is what sentinels call their primary.
const MasterName = "jobs"

// Sentinels are a primary, its replicas, and three sentinels that watch them. If two sentinels
// miss the primary for half a second, a replica takes over.
type Sentinels struct {
	Servers   []*Server // the first began as the primary
	Sentinels []*Server
}

// StartSentinels starts them, with so many replicas; the arguments are for all
// but the sentinels. They end with the test.
func StartSentinels(tb testing.TB, replicas int, args ...string) *Sentinels {
	tb.Helper()
	return startSentinels(tb, terms{}, replicas, args...)
}

// StartSentinelsWithProxies is StartSentinels with each server, but no sentinel,
// behind a proxy.
func StartSentinelsWithProxies(tb testing.TB, replicas int, args ...string) *Sentinels {
	tb.Helper()
	return startSentinels(tb, terms{behind: true}, replicas, args...)
}

func startSentinels(tb testing.TB, on terms, replicas int, args ...string) *Sentinels {
	tb.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0", "--save", ""}, append(on.lock.admit(), args...)...)
	s := &Sentinels{Servers: []*Server{startByFile(tb, on, "", args...)}}
	host, port, _ := net.SplitHostPort(s.Servers[0].Announced())
	for range replicas {
		s.Servers = append(s.Servers, startByFile(tb, on, "replicaof "+host+" "+port+"\n", args...))
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(tb, on.lock, host, port, 2))
	}
	await(tb, "the replicas to be there", func(ctx context.Context) bool {
		return strings.Count(s.Servers[0].info(ctx, "replication"), "state=online") == replicas
	})
	await(tb, "the sentinels to know each other and the replicas", s.agree)
	return s
}

// NeverFailOver keeps the sentinels from declaring a silent server dead, for tests in which
// none dies, on busy machines.
func (s *Sentinels) NeverFailOver(tb testing.TB) {
	tb.Helper()
	for _, server := range s.Sentinels {
		client := server.sentinelClient()
		if err := client.Set(context.Background(), MasterName, "down-after-milliseconds", "600000").Err(); err != nil {
			tb.Fatal(err)
		}
		client.Close()
	}
}

// agree returns whether all sentinels are there, and name the same primary and
// as many replicas as there are.
func (s *Sentinels) agree(ctx context.Context) bool {
	port := ""
	for _, server := range s.Sentinels {
		client := server.sentinelClient()
		m, _ := client.Master(ctx, MasterName).Result()
		client.Close()
		if port == "" {
			port = m["port"]
		}
		if port == "" || m["port"] != port || m["flags"] != "master" ||
			m["num-other-sentinels"] != fmt.Sprint(len(s.Sentinels)-1) || m["num-slaves"] != fmt.Sprint(len(s.Servers)-1) {
			return false
		}
	}
	return true
}

// AwaitHealthy waits until the sentinels agree on the primary, all others are
// replicas of it, and it has all that they have; and returns it.
func (s *Sentinels) AwaitHealthy(tb testing.TB) *Server {
	tb.Helper()
	var primary *Server
	await(tb, "the replicas to follow the primary that all sentinels name", func(ctx context.Context) bool {
		if primary = s.named(ctx); primary == nil || !s.agree(ctx) {
			return false
		}
		for _, server := range s.Servers {
			if server != primary && !server.follows(ctx, primary) {
				return false
			}
		}
		info := primary.info(ctx, "replication")
		return strings.Contains(info, "role:master") && strings.Count(info, "state=online") == len(s.Servers)-1
	})
	return primary
}

// named returns the server that is the primary, by the first sentinel that
// answers; nil if there is none.
func (s *Sentinels) named(ctx context.Context) *Server {
	for _, server := range s.Sentinels {
		client := server.sentinelClient()
		at, err := client.GetMasterAddrByName(ctx, MasterName).Result()
		client.Close()
		if err != nil || len(at) != 2 {
			continue
		}
		for _, server := range s.Servers {
			if server.Announced() == net.JoinHostPort(at[0], at[1]) {
				return server
			}
		}
	}
	return nil
}

// StartLocked starts a primary, and a sentinel that watches it, both with this password. They
// end with the test.
func StartLocked(tb testing.TB, password string) *Sentinels {
	tb.Helper()
	s := &Sentinels{Servers: []*Server{Start(tb, "--requirepass", password)}}
	host, port, _ := net.SplitHostPort(s.Servers[0].Addr)
	s.Sentinels = []*Server{startSentinel(tb, nil, host, port, 1,
		"sentinel auth-pass "+MasterName+" "+password, "requirepass "+password)}
	return s
}

// startSentinel starts a sentinel, of which so many are a majority.
func startSentinel(tb testing.TB, lock *Lock, host, port string, majority int, more ...string) *Server {
	tb.Helper()
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s %[4]d\nsentinel down-after-milliseconds %[1]s 500\n"+
		"sentinel failover-timeout %[1]s 3000\nsentinel parallel-syncs %[1]s 2\n", MasterName, host, port, majority) + strings.Join(more, "\n") + "\n"
	return startByFile(tb, terms{lock: lock}, text, append([]string{"--sentinel"}, lock.admitToSentinel()...)...)
}

// URL is how an engine reaches the primary, whichever it is.
func (s *Sentinels) URL() string {
	var hosts []string
	for _, server := range s.Sentinels {
		hosts = append(hosts, server.Addr)
	}
	return s.Servers[0].lock.url("redis", "+sentinel://"+strings.Join(hosts, ",")+"/"+MasterName+"/0")
}

// sentinelClient returns a client of a sentinel that asks once.
func (s *Server) sentinelClient() *goredis.SentinelClient {
	options := s.options()
	options.MaxRetries = -1
	return goredis.NewSentinelClient(options)
}

// FailOver asks the sentinels to choose another primary, until one agrees to.
func (s *Sentinels) FailOver(tb testing.TB) {
	tb.Helper()
	await(tb, "a sentinel to begin a failover", func(ctx context.Context) bool {
		for _, server := range s.Sentinels {
			client := server.sentinelClient()
			err := client.Failover(ctx, MasterName).Err()
			client.Close()
			if err == nil {
				return true
			}
		}
		return false
	})
}

// CountSwitches returns what says how often the sentinels have replaced a primary
// since then: as often as any of them has noticed.
func (s *Sentinels) CountSwitches(tb testing.TB) (count func() int) {
	tb.Helper()
	noticed := make([]atomic.Int64, len(s.Sentinels))
	for i, server := range s.Sentinels {
		client := goredis.NewSentinelClient(server.options())
		switches := client.Subscribe(context.Background(), "+switch-master")
		if _, err := switches.Receive(context.Background()); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			switches.Close()
			client.Close()
		})
		go func() {
			for range switches.Channel() {
				noticed[i].Add(1)
			}
		}()
	}
	return func() int {
		most := 0
		for i := range noticed {
			most = max(most, int(noticed[i].Load()))
		}
		return most
	}
}

// AwaitPrimary waits until the sentinels name another primary than that, and it
// is one, and returns it.
func (s *Sentinels) AwaitPrimary(tb testing.TB, not *Server) *Server {
	tb.Helper()
	var server *Server
	await(tb, "a replica to take over", func(ctx context.Context) bool {
		server = s.named(ctx)
		return server != nil && server != not && strings.Contains(server.info(ctx, "replication"), "role:master")
	})
	return server
}

// Offsets returns how much each server, but one, has of what its primary has written,
// in bytes.
func (s *Sentinels) Offsets(not *Server) map[*Server]int64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	offsets := make(map[*Server]int64)
	for _, server := range s.Servers {
		if server == not {
			continue
		}
		for line := range strings.Lines(server.info(ctx, "replication")) {
			if text, ok := strings.CutPrefix(line, "slave_repl_offset:"); ok {
				offsets[server], _ = strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			}
		}
	}
	return offsets
}

// AwaitReplaced waits until another one is the primary, and all others follow it.
func (s *Sentinels) AwaitReplaced(tb testing.TB, old *Server) {
	tb.Helper()
	primary := s.AwaitPrimary(tb, old)
	await(tb, "the replicas to follow the new primary", func(ctx context.Context) bool {
		for _, server := range s.Servers {
			if server != old && server != primary && !server.follows(ctx, primary) {
				return false
			}
		}
		return true
	})
}

// follows returns whether a server is a replica of that one, and has all that it
// has.
func (s *Server) follows(ctx context.Context, primary *Server) bool {
	info := s.info(ctx, "replication")
	return strings.Contains(info, "role:slave") && strings.Contains(info, "master_port:"+portOf(primary.Announced())+"\r") &&
		strings.Contains(info, "master_link_status:up")
}

// AwaitFollowed waits until a primary has a replica.
func (s *Sentinels) AwaitFollowed(tb testing.TB, primary *Server) {
	tb.Helper()
	await(tb, "a replica of the new primary", func(ctx context.Context) bool {
		return strings.Contains(primary.info(ctx, "replication"), "state=online")
	})
}

// AwaitReplica waits until a server follows another one.
func (s *Sentinels) AwaitReplica(tb testing.TB, server *Server) {
	tb.Helper()
	await(tb, "the old primary to be a replica", func(ctx context.Context) bool {
		info := server.info(ctx, "replication")
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
	})
}

// await waits until a condition is true.
func await(tb testing.TB, what string, ok func(context.Context) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			tb.Fatalf("it took too long for %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
