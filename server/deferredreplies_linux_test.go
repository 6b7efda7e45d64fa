package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/server/netpoll"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// These tests show when the deferred replies of a loop iteration are sent.

// deferredBodies is the largest size of the bodies of a reply that netpoll defers.
const deferredBodies = 256 << 10

// steppedStore is a memory engine that waits for the test at certain steps while it is armed.
type steppedStore struct {
	*embedded.Engine
	armed                       atomic.Bool
	inDo, goDo, inPolling, goOn chan struct{}
}

func (s *steppedStore) Do(batches ...*storage.Batch) {
	if s.armed.Load() {
		s.inDo <- struct{}{}
		<-s.goDo
	}
	s.Engine.Do(batches...)
}

func (s *steppedStore) DoPolling(pollAgain func(poll bool) int, batches ...*storage.Batch) {
	s.Engine.Do(batches...)
	if s.armed.Load() {
		s.inPolling <- struct{}{}
		<-s.goOn
		pollAgain(true)
		<-s.goOn
	}
}

// loopClients are clients whose connections belong to the same loop.
type loopClients []net.Conn

// expect fails if the next bytes that client i gets are not want.
func (clients loopClients) expect(t *testing.T, i int, want string) {
	t.Helper()
	got := make([]byte, len(want))
	clients[i].SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadFull(clients[i], got); string(got) != want {
		t.Fatalf("client %d has %.40q, %d bytes of %d, %v", i, got[:n], n, len(want), err)
	}
}

// expectNothing fails if the client gets something.
func expectNothing(t *testing.T, client net.Conn) {
	t.Helper()
	var got [9]byte
	client.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, _ := client.Read(got[:]); n != 0 {
		t.Fatalf("got %q", got[:n])
	}
}

// newSteppedStore serves n connections of one loop on a store that is armed.
func newSteppedStore(t *testing.T, network string, n int) (*steppedStore, loopClients) {
	t.Helper()
	sender, err := netpoll.NewSender()
	if err != nil {
		t.Skip("asynchronous I/O does not work: ", err)
	}
	sender.Close()
	step := func() chan struct{} { return make(chan struct{}) }
	store := &steppedStore{Engine: embedded.NewMemory(), inDo: step(), goDo: step(), inPolling: step(), goOn: step()}
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{Log: log, MaxJobSize: deferredBodies})
	t.Cleanup(func() { q.Close(context.Background()) })
	s, clients := New(q, Config{Log: log}), loopClients(nil)
	l, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/socket"}[network])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range (n-1)*Loops() + 1 { // connections go to the loops in rotation
		client, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go s.ServeConn(conn)
		io.WriteString(client, "list-tube-used\r\n")
		if i%Loops() == 0 {
			clients = append(clients, client)
			clients.expect(t, len(clients)-1, "USING default\r\n")
		} else {
			client.Read(make([]byte, 1))
		}
	}
	store.armed.Store(true)
	return store, clients
}

// inOneIteration makes the first client keep the loop busy until send has been called, so that one
// iteration serves what send sends. It returns when the Dones of that iteration have been called and
// the store waits before something slow.
func (clients loopClients) inOneIteration(store *steppedStore, send func()) {
	io.WriteString(clients[0], "put 0 0 9 0\r\n\r\n")
	<-store.inDo
	send()
	store.goDo <- struct{}{}
	<-store.inPolling
}

// TestRepliesBeforeSlowStore: the replies of an iteration are sent when the store says that
// something slow begins, and not one by one before that. Replies that need no store do not wait for
// the store.
func TestRepliesBeforeSlowStore(t *testing.T) {
	store, clients := newSteppedStore(t, "tcp", 5)
	clients.inOneIteration(store, func() {
		io.WriteString(clients[1], "put 0 0 9 0\r\n\r\n")
		io.WriteString(clients[2], "put 0 0 9 0\r\n\r\n")
		io.WriteString(clients[3], "list-tube-used\r\n")
	})
	clients.expect(t, 3, "USING default\r\n")
	expectNothing(t, clients[1])
	expectNothing(t, clients[2])
	io.WriteString(clients[4], "list-tube-used\r\n") // found when the loop polls again
	store.goOn <- struct{}{}
	clients.expect(t, 1, "INSERTED 2\r\n")
	clients.expect(t, 2, "INSERTED 3\r\n")
	clients.expect(t, 4, "USING default\r\n")
	store.armed.Store(false)
	store.goOn <- struct{}{}
	clients.expect(t, 0, "INSERTED 1\r\n")
}

// TestLastRepliesAreRead: a client that sends quit, or closes its half of the connection, before it
// reads gets its last reply whole, even if the reply does not fit into the socket.
func TestLastRepliesAreRead(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"quit":        func(client net.Conn) { io.WriteString(client, "quit\r\n") },
		"half closed": func(client net.Conn) { client.(*net.UnixConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			store, clients := newSteppedStore(t, "unix", 4)
			store.armed.Store(false)
			large := strings.Repeat("b", deferredBodies-1) + "\r\n" // more than a socket has room for
			for i := range 3 {
				io.WriteString(clients[3], fmt.Sprintf("put 0 0 9 %d\r\n", deferredBodies-1)+large)
				clients.expect(t, 3, fmt.Sprintf("INSERTED %d\r\n", i+1))
			}
			store.armed.Store(true)
			clients.inOneIteration(store, func() {
				for _, client := range clients[1:3] {
					io.WriteString(client, "reserve-with-timeout 0\r\n")
					end(client)
				}
			})
			store.armed.Store(false)
			store.goOn <- struct{}{}
			store.goOn <- struct{}{}
			clients.expect(t, 0, "INSERTED 4\r\n") // the iteration is over
			for i := range 2 {
				want := fmt.Sprintf("RESERVED %d %d\r\n", i+1, deferredBodies-1) + large
				clients[i+1].SetReadDeadline(time.Now().Add(time.Minute))
				if got, err := io.ReadAll(clients[i+1]); string(got) != want {
					t.Errorf("client %d has %d bytes of %d, %v", i+1, len(got), len(want), err)
				}
			}
		})
	}
}
