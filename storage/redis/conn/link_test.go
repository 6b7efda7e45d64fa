package conn

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// poolOn returns a pool of connections to a server, and its only node.
func poolOn(t testing.TB, url string) (*Pool, Node) {
	t.Helper()
	a, err := Parse(url, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(a, 0)
	t.Cleanup(func() { p.Close() })
	node, err := p.Node(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return p, node
}

// exchange sends commands and returns the replies to all of them.
func exchange(t testing.TB, l Link, node Node, commands ...[]any) (replies []any) {
	t.Helper()
	if _, err := l.Connect(node); err != nil {
		t.Fatal(err)
	}
	if err := l.Send(node, commands...); err != nil {
		t.Fatal(err)
	}
	for range commands {
		reply, err := l.Receive()
		if err != nil {
			t.Fatal(err)
		}
		replies = append(replies, reply)
	}
	return replies
}

// TestLinks: both kinds of links send and receive the same.
func TestLinks(t *testing.T) {
	p, node := poolOn(t, redistest.Start(t).URL())
	for name, l := range map[string]Link{"own": p.NewLink(), "shared": p.NewSharedLink()} {
		record := Pieces{Head: []byte("a"), Body: []byte(strings.Repeat("b", 2*ownPiece)), Rest: []byte("c")}
		got := exchange(t, l, node, []any{"set", "k", record}, []any{"get", "none"}, []any{"strlen", "k"})
		if got[0] != "OK" || got[1] != nil || got[2] != int64(2*ownPiece+2) {
			t.Errorf("%s: %v", name, got)
		}
		if err := l.Send(node, []any{"nonsense"}); err != nil {
			t.Error(err)
		}
		if _, err := l.Receive(); !Forbids(err, "nonsense") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLinkReopens: a connection that Redis has closed while it was idle is replaced before the
// next command, and nothing is left of the old ones.
func TestLinkReopens(t *testing.T) {
	server := redistest.Start(t)
	p, node := poolOn(t, server.URL())
	l := &ownLink{pool: p}
	for range 10 {
		exchange(t, l, node, []any{"ping"})
		if err := server.Client(t).Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	exchange(t, l, node, []any{"ping"})
	if n := len(l.dialer.fresh.conns); n != 0 {
		t.Errorf("%d connections have no owner", n)
	}
	if n := l.dialer.client.PoolStats().TotalConns; n != 1 {
		t.Errorf("there are %d connections", n)
	}
}

// BenchmarkLink measures what a link with a socket saves: one script call after the other, with
// so many arguments of 16 bytes, and the processor time of this process per call.
//
//	go test ./storage/redis/conn -run '^$' -bench Link -benchtime 20000x -count 9
func BenchmarkLink(b *testing.B) {
	p, node := poolOn(b, redistest.Start(b).URL())
	for _, args := range []struct {
		name string
		n    int
	}{{"10", 10}, {"500", 500}} {
		command := []any{"eval", "return {#ARGV, ARGV[1]}", 0}
		for range args.n {
			command = append(command, "sixteen bytes ok")
		}
		for name, l := range map[string]Link{"own": p.NewLink(), "goredis": p.NewSharedLink()} {
			b.Run(name+"/"+args.name, func(b *testing.B) {
				exchange(b, l, node, command)
				before := ownCPU()
				for b.Loop() {
					exchange(b, l, node, command)
				}
				b.ReportMetric(float64(ownCPU()-before)/1e3/float64(b.N), "own-µs/op")
			})
		}
	}
}

// ownCPU returns the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestOpensNoLaterProcess: a call whose caller has not heard of another process opens no
// connection to it.
func TestOpensNoLaterProcess(t *testing.T) {
	p, node := poolOn(t, redistest.Start(t).URL())
	stale := withChanges(t.Context(), p.servers.seen()+1)
	if err := node.Do(stale, "ping").Err; !errors.Is(err, ErrOtherServer) {
		t.Errorf("refused with %v", err)
	}
	if err := node.Do(withChanges(t.Context(), p.servers.seen()), "ping").Err; err != nil {
		t.Error(err)
	}
}
