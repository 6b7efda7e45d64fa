package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redstalk/protocol"
	"redstalk/server/aio"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// oneTurn is a loop without a goroutine, whose wires were all woken in turn 1.
type oneTurn struct {
	*loop
	wires   []*epollWire
	clients []net.Conn
}

func newOneTurn(t *testing.T, n int) *oneTurn {
	t.Helper()
	a, err := aio.NewSender()
	if err != nil {
		t.Skip("no asynchronous I/O here: ", err)
	}
	g := &oneTurn{loop: &loop{sends: sends{aio: a}}}
	t.Cleanup(a.Close)
	for range n {
		client, conn := connected(t, "tcp")
		fd, err := duplicate(conn.(syscall.Conn))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		w := &epollWire{loop: g.loop, fd: fd, turn: 1}
		t.Cleanup(w.Close)
		g.wires, g.clients = append(g.wires, w), append(g.clients, client)
	}
	return g
}

// expect fails if what comes to a client next is not want.
func (g *oneTurn) expect(t *testing.T, i int, want string) {
	t.Helper()
	got := make([]byte, len(want))
	g.clients[i].SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := io.ReadFull(g.clients[i], got); string(got) != want {
		t.Fatalf("client %d has %.40q, %d bytes of %d, %v", i, got[:n], n, len(want), err)
	}
}

// expectNothing fails if something comes to a client.
func expectNothing(t *testing.T, client net.Conn) {
	t.Helper()
	var got [9]byte
	client.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, _ := client.Read(got[:]); n != 0 {
		t.Fatalf("%q has come", got[:n])
	}
}

func write(t *testing.T, w *epollWire, what string) {
	t.Helper()
	if n, err := w.Write([]byte(what)); n != len(what) || err != nil {
		t.Fatalf("%d bytes of %d, %v", n, len(what), err)
	}
}

// TestSentTogether: what is said to more wires than one system call serves waits until it is
// sent, in the order in which it was said.
func TestSentTogether(t *testing.T) {
	g := newOneTurn(t, aio.MaxWrites+3)
	g.sends.begin(1)
	for range 2 {
		for _, w := range g.wires {
			write(t, w, "INSERTED 1\r\n")
		}
		for _, i := range []int{0, aio.MaxWrites, len(g.wires) - 1} {
			expectNothing(t, g.clients[i])
		}
		g.sends.send()
		for i := range g.wires {
			g.expect(t, i, "INSERTED 1\r\n")
		}
	}
	g.sends.end()
	write(t, g.wires[0], "DELETED\r\n")
	g.expect(t, 0, "DELETED\r\n")
}

// TestSaysMore: whoever has more to say while something waits says both, in order.
func TestSaysMore(t *testing.T) {
	g := newOneTurn(t, 4)
	g.sends.begin(1)
	large := strings.Repeat("x", mostCopied+1)
	for _, w := range g.wires {
		write(t, w, "1")
	}
	write(t, g.wires[0], "2")
	write(t, g.wires[0], "3") // waits again
	write(t, g.wires[1], large)
	var its releases
	pieces := []protocol.Piece{{Bytes: []byte("a")}, {Bytes: []byte("body"), Body: true, Users: &its}, {Bytes: []byte("z")}}
	if err := g.wires[2].WriteVec(pieces); err != nil || its.released != 1 {
		t.Errorf("%v, released %d times", err, its.released)
	}
	g.wires[3].Delivered()
	for i, want := range []string{"12", "1" + large, "1abodyz", "1"} {
		g.expect(t, i, want)
		expectNothing(t, g.clients[i])
	}
	g.sends.send()
	g.expect(t, 0, "3")
}

// TestOnlyOfTheTurn: a wire that was not woken in the turn does not wait for it.
func TestOnlyOfTheTurn(t *testing.T) {
	g := newOneTurn(t, 1)
	g.sends.begin(2)
	write(t, g.wires[0], "TIMED_OUT\r\n")
	g.expect(t, 0, "TIMED_OUT\r\n")
}

type releases struct{ released int }

func (r *releases) Release() { r.released++ }

// TestBodiesWait: bodies wait too, and are not released before they are sent; large ones do
// not wait.
func TestBodiesWait(t *testing.T) {
	g := newOneTurn(t, 2)
	g.sends.begin(1)
	its := make([]releases, 2)
	line := []byte("RESERVED 1 8192\r\n")
	send := func(i, size int) {
		body := bytes.Repeat([]byte{'b'}, size)
		pieces := []protocol.Piece{{Bytes: line}, {Bytes: body, Body: true, Users: &its[i]}, {Bytes: []byte("\r\n")}}
		if err := g.wires[i].WriteVec(pieces); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 8192)
	send(1, mostBodies+1)
	line[0] = '?' // the Writer's memory, which is used again
	if its[0].released != 0 || its[1].released != 1 {
		t.Errorf("released %v times", its)
	}
	g.sends.send()
	if its[0].released != 1 {
		t.Errorf("released %d times", its[0].released)
	}
	g.expect(t, 0, "RESERVED 1 8192\r\n"+strings.Repeat("b", 8192)+"\r\n")
}

// TestNoRoom: what a socket does not take is kept, goes out in order when there is room, and
// the session gets to know of it.
func TestNoRoom(t *testing.T) {
	g := newOneTurn(t, 2)
	w := g.wires[0]
	if err := syscall.SetsockoptInt(w.fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4096); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for i := byte(0); w.PendingBytes() == 0; i++ {
		g.sends.begin(1)
		if len(g.again) > 0 {
			t.Fatal("the session was woken for nothing")
		}
		write(t, w, strings.Repeat(string('a'+i%26), mostCopied))
		write(t, g.wires[1], "DELETED\r\n")
		sent += mostCopied
		g.sends.end()
	}
	if len(g.again) != 1 || g.again[0] != w {
		t.Errorf("%d sessions are woken", len(g.again))
	}
	got := make([]byte, sent)
	for n := 0; n < sent; {
		g.clients[0].SetReadDeadline(time.Now().Add(10 * time.Second))
		m, err := g.clients[0].Read(got[n:])
		if n += m; err != nil {
			t.Fatalf("%v after %d bytes of %d", err, n, sent)
		}
		w.note(syscall.EPOLLOUT, 2)
	}
	for i, c := range got {
		if want := 'a' + byte(i/mostCopied)%26; c != want {
			t.Fatalf("byte %d is %q, want %q", i, c, want)
		}
	}
}

// TestEndsWhileWaiting: a wire that is closed sends first, one that is cut does not; neither
// sends to who gets its descriptor next, and bodies are released.
func TestEndsWhileWaiting(t *testing.T) {
	g := newOneTurn(t, 3)
	g.sends.begin(1)
	its := make([]releases, 3)
	for i, w := range g.wires {
		pieces := []protocol.Piece{{Bytes: []byte("1")}, {Bytes: []byte("2"), Body: true, Users: &its[i]}, {Bytes: []byte("3")}}
		if err := w.WriteVec(pieces); err != nil {
			t.Fatal(err)
		}
	}
	g.wires[0].Close()
	g.wires[1].wake = func(submitter) {}
	g.wires[1].Cut()
	next, other := connected(t, "tcp")
	fd, err := duplicate(other.(syscall.Conn))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if fd != g.wires[0].fd {
		t.Logf("descriptor %d, and not %d, is given out again", fd, g.wires[0].fd)
	}
	g.sends.end()
	for i, want := range []string{"123", "", "123"} {
		g.expect(t, i, want)
		if its[i].released != 1 {
			t.Errorf("the body for client %d was released %d times", i, its[i].released)
		}
	}
	expectNothing(t, g.clients[1])
	expectNothing(t, next)
}

// TestClientGone: an error shows at the next write, and the session is woken.
func TestClientGone(t *testing.T) {
	g := newOneTurn(t, 2)
	w := g.wires[0]
	g.clients[0].(*net.TCPConn).SetLinger(0)
	g.clients[0].Close()
	awaitReset(t, w.fd)
	g.sends.begin(1)
	its := new(releases)
	if err := w.WriteVec([]protocol.Piece{{Bytes: []byte("1")}, {Bytes: []byte("2"), Body: true, Users: its}}); err != nil {
		t.Fatal(err)
	}
	write(t, g.wires[1], "DELETED\r\n")
	g.sends.end()
	if _, err := w.Write([]byte("3")); err == nil || its.released != 1 || len(g.again) != 1 {
		t.Errorf("%v; released %d times; %d sessions are woken", err, its.released, len(g.again))
	}
	g.expect(t, 1, "DELETED\r\n")
}

// TestKernelTakesNone: what the kernel does not take for asynchronous I/O is sent anyway.
func TestKernelTakesNone(t *testing.T) {
	g := newOneTurn(t, 3)
	g.sends.aio.Close()
	g.sends.begin(1)
	for _, w := range g.wires {
		write(t, w, "DELETED\r\n")
	}
	g.sends.end()
	for i := range g.wires {
		g.expect(t, i, "DELETED\r\n")
	}
}

// TestNoAIO: without asynchronous I/O nothing waits.
func TestNoAIO(t *testing.T) {
	g := newOneTurn(t, 1)
	g.sends.aio = nil
	g.sends.begin(1)
	write(t, g.wires[0], "DELETED\r\n")
	g.expect(t, 0, "DELETED\r\n")
}

// slowly is a memory engine that waits where the test tells it to, once it is armed.
type slowly struct {
	*embedded.Engine
	armed                 atomic.Bool
	doing, do, told, goOn chan struct{}
}

func (s *slowly) Do(batches ...*storage.Batch) {
	if s.armed.Load() {
		s.doing <- struct{}{}
		<-s.do
	}
	s.Engine.Do(batches...)
}

func (s *slowly) DoPolling(more func(look bool) int, batches ...*storage.Batch) {
	s.Engine.Do(batches...)
	if s.armed.Load() {
		s.told <- struct{}{}
		<-s.goOn
		more(true)
		<-s.goOn
	}
}

// newSlowly serves n connections of one loop on a store that is armed.
func newSlowly(t *testing.T, network string, n int) (*slowly, *oneTurn) {
	t.Helper()
	a, err := aio.NewSender()
	if err != nil {
		t.Skip("no asynchronous I/O here: ", err)
	}
	a.Close()
	step := func() chan struct{} { return make(chan struct{}) }
	store := &slowly{Engine: embedded.NewMemory(), doing: step(), do: step(), told: step(), goOn: step()}
	log := slog.New(slog.DiscardHandler)
	q := queue.New(store, queue.Config{Log: log, MaxJobSize: mostBodies})
	t.Cleanup(func() { q.Close(context.Background()) })
	s, g := New(q, Config{Log: log}), &oneTurn{}
	l, err := net.Listen(network, map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/socket"}[network])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range (n-1)*Loops() + 1 { // each loop gets a connection in turn
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
			g.clients = append(g.clients, client)
			g.expect(t, len(g.clients)-1, "USING default\r\n")
		} else {
			client.Read(make([]byte, 1))
		}
	}
	store.armed.Store(true)
	return store, g
}

// inOneTurn has the first client keep the loop busy until send has been called, so that what it
// sends is served in one turn. It returns when the Dones of that turn were called, and the store
// waits before something slow.
func (g *oneTurn) inOneTurn(store *slowly, send func()) {
	io.WriteString(g.clients[0], "put 0 0 9 0\r\n\r\n")
	<-store.doing
	send()
	store.do <- struct{}{}
	<-store.told
}

// TestRepliesBeforeWhatIsSlow: the replies of a turn are sent when the store says that something
// slow begins, and not one by one before that. Those that need no store do not wait for it.
func TestRepliesBeforeWhatIsSlow(t *testing.T) {
	store, g := newSlowly(t, "tcp", 5)
	g.inOneTurn(store, func() {
		io.WriteString(g.clients[1], "put 0 0 9 0\r\n\r\n")
		io.WriteString(g.clients[2], "put 0 0 9 0\r\n\r\n")
		io.WriteString(g.clients[3], "list-tube-used\r\n")
	})
	g.expect(t, 3, "USING default\r\n")
	expectNothing(t, g.clients[1])
	expectNothing(t, g.clients[2])
	io.WriteString(g.clients[4], "list-tube-used\r\n") // is found by the look for more
	store.goOn <- struct{}{}
	g.expect(t, 1, "INSERTED 2\r\n")
	g.expect(t, 2, "INSERTED 3\r\n")
	g.expect(t, 4, "USING default\r\n")
	store.armed.Store(false)
	store.goOn <- struct{}{}
	g.expect(t, 0, "INSERTED 1\r\n")
}

// TestLastRepliesAreRead: a client that has said quit, or closed its half, before it reads gets
// its last reply whole, also if that does not fit into its socket.
func TestLastRepliesAreRead(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"quit":        func(client net.Conn) { io.WriteString(client, "quit\r\n") },
		"half closed": func(client net.Conn) { client.(*net.UnixConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			store, g := newSlowly(t, "unix", 4)
			store.armed.Store(false)
			large := strings.Repeat("b", mostBodies-1) + "\r\n" // more than a socket has room for
			for i := range 3 {
				io.WriteString(g.clients[3], fmt.Sprintf("put 0 0 9 %d\r\n", mostBodies-1)+large)
				g.expect(t, 3, fmt.Sprintf("INSERTED %d\r\n", i+1))
			}
			store.armed.Store(true)
			g.inOneTurn(store, func() {
				for _, client := range g.clients[1:3] {
					io.WriteString(client, "reserve-with-timeout 0\r\n")
					end(client)
				}
			})
			store.armed.Store(false)
			store.goOn <- struct{}{}
			store.goOn <- struct{}{}
			g.expect(t, 0, "INSERTED 4\r\n") // the turn is over
			for i := range 2 {
				want := fmt.Sprintf("RESERVED %d %d\r\n", i+1, mostBodies-1) + large
				g.clients[i+1].SetReadDeadline(time.Now().Add(10 * time.Second))
				if got, err := io.ReadAll(g.clients[i+1]); string(got) != want {
					t.Errorf("client %d has %d bytes of %d, %v", i+1, len(got), len(want), err)
				}
			}
		})
	}
}
