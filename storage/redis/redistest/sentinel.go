package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// MasterName is what sentinels call their primary.
const MasterName = "jobs"

// Sentinels are a primary, its replicas, and three sentinels that watch them.
// Two sentinels that miss the primary for half a second decide that a replica
// takes over.
type Sentinels struct {
	Servers   []*Server // the first began as the primary
	Sentinels []*Server
}

// StartSentinels starts them, with so many replicas. They end with the test.
func StartSentinels(tb testing.TB, replicas int) *Sentinels {
	tb.Helper()
	return startSentinels(tb, nil, replicas)
}

func startSentinels(tb testing.TB, lock *Lock, replicas int) *Sentinels {
	tb.Helper()
	s := &Sentinels{Servers: []*Server{start(tb, lock, "--repl-diskless-sync-delay", "0")}}
	host, port, _ := net.SplitHostPort(s.Servers[0].Addr)
	for range replicas {
		s.Servers = append(s.Servers, start(tb, lock, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0"))
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(tb, lock, host, port, 2))
	}
	primary := s.Servers[0].Client(tb)
	await(tb, "the replicas to be there", func(ctx context.Context) bool {
		info, _ := primary.Info(ctx, "replication").Result()
		return strings.Count(info, "state=online") == replicas
	})
	for _, its := range s.Sentinels {
		client := goredis.NewSentinelClient(its.options())
		tb.Cleanup(func() { client.Close() })
		await(tb, "the sentinels to know each other and the replicas", func(ctx context.Context) bool {
			m, _ := client.Master(ctx, MasterName).Result()
			return m["num-other-sentinels"] == "2" && m["num-slaves"] == fmt.Sprint(replicas)
		})
	}
	return s
}

// StartLocked starts a primary, and a sentinel that watches it, both of which want
// this password. They end with the test.
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
	dir := tb.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // which it writes to
	text := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s %[4]d\nsentinel down-after-milliseconds %[1]s 500\n"+
		"sentinel failover-timeout %[1]s 3000\nsentinel parallel-syncs %[1]s 2\n", MasterName, host, port, majority) + strings.Join(more, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	own := freePort(tb)
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", own), Dir: dir, lock: lock}
	s.args = append([]string{file, "--sentinel", "--bind", "127.0.0.1", "--dir", dir, "--daemonize", "no"}, lock.listen(own)...)
	s.args = append(s.args, lock.admitToSentinel()...)
	tb.Cleanup(s.Kill)
	if err := s.Restart(); err != nil {
		tb.Fatal(err)
	}
	return s
}

// URL is how an engine reaches the primary, whichever it is.
func (s *Sentinels) URL() string {
	var hosts []string
	for _, its := range s.Sentinels {
		hosts = append(hosts, its.Addr)
	}
	return s.Servers[0].lock.url("redis", "+sentinel://"+strings.Join(hosts, ",")+"/"+MasterName+"/0")
}

// AwaitPrimary waits until the sentinels name another primary than that, and it
// is one, and returns it.
func (s *Sentinels) AwaitPrimary(tb testing.TB, not *Server) *Server {
	tb.Helper()
	client := goredis.NewSentinelClient(s.Sentinels[0].options())
	defer client.Close()
	var is *Server
	await(tb, "a replica to take over", func(ctx context.Context) bool {
		at, err := client.GetMasterAddrByName(ctx, MasterName).Result()
		if err != nil || len(at) != 2 {
			return false
		}
		for _, server := range s.Servers {
			if server != not && server.Addr == net.JoinHostPort(at[0], at[1]) {
				is = server
			}
		}
		return is != nil
	})
	return is
}

// AwaitReplica waits until a server follows another one.
func (s *Sentinels) AwaitReplica(tb testing.TB, server *Server) {
	tb.Helper()
	client := server.Client(tb)
	await(tb, "the old primary to be a replica", func(ctx context.Context) bool {
		info, _ := client.Info(ctx, "replication").Result()
		return strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
	})
}

// await waits until something is so.
func await(tb testing.TB, what string, is func(context.Context) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for !is(ctx) {
		select {
		case <-ctx.Done():
			tb.Fatalf("it took too long for %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
