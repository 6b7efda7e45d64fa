package redis

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// stickyProxy is a proxy that keeps existing connections on the old primary when a standby
// takes over.
type stickyProxy struct {
	net.Listener
	to string

	mu  sync.Mutex
	old map[net.Conn]bool // by connection of a client: whether it was there before the takeover
}

func newStickyProxy(t *testing.T, server *redistest.Server) *stickyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &stickyProxy{Listener: l, to: server.Addr, old: make(map[net.Conn]bool)}
	t.Cleanup(func() { l.Close() })
	go k.serve()
	return k
}

func (k *stickyProxy) serve() {
	for {
		client, err := k.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", k.to)
		if err != nil {
			client.Close()
			continue
		}
		k.mu.Lock()
		k.old[client] = false
		k.mu.Unlock()
		go func() {
			io.Copy(client, server)
			client.Close()
		}()
		go k.copyBytes(client, server)
	}
}

// copyBytes passes requests on, or refuses them as the proxy of a managed Redis does.
func (k *stickyProxy) copyBytes(client, server net.Conn) {
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		k.mu.Lock()
		old := k.old[client]
		k.mu.Unlock()
		if old {
			io.WriteString(client, "-ERR READONLY You can't write against a read only instance\r\n")
		} else if _, err = server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// failOver makes all existing connections old ones.
func (k *stickyProxy) failOver() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.old {
		k.old[c] = true
	}
}

// TestOldConnections: connections to a server that is no longer the primary are retired,
// whatever a proxy writes before its READONLY: those of calls, and those of wake-ups.
func TestOldConnections(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 2} {
		server := redistest.Start(t)
		before := newStickyProxy(t, server)
		o := Options{Log: slog.New(slog.DiscardHandler), URL: "redis://" + before.Addr().String() + "/0", Partitions: partitions, Timeout: patient}
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		reported := make(chan string, 1)
		s.Listen(chanWaiter(reported))
		other := openWith(t, Options{URL: server.URL(), Partitions: partitions, Timeout: patient})
		if a := do(s, put("x")); a.Err != nil {
			t.Fatal(a.Err)
		}
		before.failOver()
		if a := do(s, put("y")); a.Err != nil {
			t.Errorf("%d partitions: %v", partitions, a.Err)
		}
		name := s.parts[0].instance.name()
		key := s.parts[0].prefix + "wakeups:" + name
		if err := server.Client(t).RPush(t.Context(), key, "waking").Err(); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-reported:
			if got != "waking" {
				t.Errorf("%d partitions: woken for %q", partitions, got)
			}
		case <-time.After(patient):
			t.Errorf("%d partitions: not woken", partitions)
		}
		if a := do(other, storage.Op{Kind: storage.TubeStats, Tube: "t"}); a.Err != nil || a.TubeStats.Ready != 2 {
			t.Errorf("%d partitions: %s", partitions, show(&a))
		}
	}
}

// chanWaiter is a listener that sends the tubes for which it is woken.
type chanWaiter chan string

func (n chanWaiter) WakeUp(name string) bool {
	select {
	case n <- name:
	default:
	}
	return true
}
func (chanWaiter) Waiting(string) int         { return 0 }
func (chanWaiter) RecordsDue(tube.RecordKind) {}
func (chanWaiter) Due(time.Duration)          {}

func (chanWaiter) JobEnded(uint64)            {}
func (chanWaiter) ClockSetBack(time.Duration) {}
