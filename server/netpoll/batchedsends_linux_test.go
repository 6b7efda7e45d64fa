package netpoll

import (
	"bytes"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/protocol"
)

// idleLoop is a loop without a goroutine, whose wires were all ready in iteration 1.
type idleLoop struct {
	*loop
	wires   []*epollWire
	clients []net.Conn
}

func newIdleLoop(t *testing.T, n int) *idleLoop {
	t.Helper()
	sender, err := NewSender()
	if err != nil {
		t.Skip("asynchronous I/O does not work: ", err)
	}
	l := &idleLoop{loop: &loop{sends: batchedSends{sender: sender}}}
	t.Cleanup(sender.Close)
	for range n {
		client, conn := connected(t)
		fd, err := duplicate(conn.(syscall.Conn))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		w := &epollWire{loop: l.loop, fd: fd, iteration: 1}
		t.Cleanup(w.Close)
		l.wires, l.clients = append(l.wires, w), append(l.clients, client)
	}
	return l
}

// expect fails if the next bytes that client i gets are not want.
func (l *idleLoop) expect(t *testing.T, i int, want string) {
	t.Helper()
	expect(t, l.clients[i], want)
}

// TestSentTogether: replies on more wires than one system call serves are deferred until they
// are flushed, and come in the order in which they were written.
func TestSentTogether(t *testing.T) {
	l := newIdleLoop(t, MaxWrites+3)
	l.sends.begin(1)
	for range 2 {
		for _, w := range l.wires {
			write(t, w, "INSERTED 1\r\n")
		}
		for _, i := range []int{0, MaxWrites, len(l.wires) - 1} {
			expectNothing(t, l.clients[i])
		}
		l.sends.flush()
		for i := range l.wires {
			l.expect(t, i, "INSERTED 1\r\n")
		}
	}
	l.sends.end()
	write(t, l.wires[0], "DELETED\r\n")
	l.expect(t, 0, "DELETED\r\n")
}

// TestSecondReply: if a second reply is written while the first one is deferred, both are sent
// in order.
func TestSecondReply(t *testing.T) {
	l := newIdleLoop(t, 4)
	l.sends.begin(1)
	large := strings.Repeat("x", maxDeferredCopy+1)
	for _, w := range l.wires {
		write(t, w, "1")
	}
	write(t, l.wires[0], "2")
	write(t, l.wires[0], "3") // deferred again
	write(t, l.wires[1], large)
	var body releaseCounter
	pieces := []protocol.Piece{{Bytes: []byte("a")}, {Bytes: []byte("body"), Body: true, Buffer: &body}, {Bytes: []byte("z")}}
	if err := l.wires[2].WriteVec(pieces); err != nil || body.released != 1 {
		t.Errorf("%v, released %d times", err, body.released)
	}
	l.wires[3].Delivered()
	for i, want := range []string{"12", "1" + large, "1abodyz", "1"} {
		l.expect(t, i, want)
		expectNothing(t, l.clients[i])
	}
	l.sends.flush()
	l.expect(t, 0, "3")
}

// TestOnlyReadyWires: a reply on a wire that was not ready in the iteration is not deferred.
func TestOnlyReadyWires(t *testing.T) {
	l := newIdleLoop(t, 1)
	l.sends.begin(2)
	write(t, l.wires[0], "TIMED_OUT\r\n")
	l.expect(t, 0, "TIMED_OUT\r\n")
}

// releaseCounter counts how many times a body was released.
type releaseCounter struct{ released int }

func (r *releaseCounter) Release() { r.released++ }

// TestDeferredBodies: bodies are deferred too, and not released before they are sent. Large ones
// are not deferred.
func TestDeferredBodies(t *testing.T) {
	l := newIdleLoop(t, 2)
	l.sends.begin(1)
	bodies := make([]releaseCounter, 2)
	line := []byte("RESERVED 1 8192\r\n")
	send := func(i, size int) {
		body := bytes.Repeat([]byte{'b'}, size)
		pieces := []protocol.Piece{{Bytes: line}, {Bytes: body, Body: true, Buffer: &bodies[i]}, {Bytes: []byte("\r\n")}}
		if err := l.wires[i].WriteVec(pieces); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 8192)
	send(1, maxDeferredBodies+1)
	line[0] = '?' // the memory belongs to the Writer, which reuses it
	if bodies[0].released != 0 || bodies[1].released != 1 {
		t.Errorf("released %v times", bodies)
	}
	l.sends.flush()
	if bodies[0].released != 1 {
		t.Errorf("released %d times", bodies[0].released)
	}
	l.expect(t, 0, "RESERVED 1 8192\r\n"+strings.Repeat("b", 8192)+"\r\n")
}

// TestNoRoom: bytes that a socket does not accept are buffered and sent in order when there is
// room, and the session is woken.
func TestNoRoom(t *testing.T) {
	l := newIdleLoop(t, 2)
	w := l.wires[0]
	if err := syscall.SetsockoptInt(w.fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4096); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for i := byte(0); w.PendingBytes() == 0; i++ {
		l.sends.begin(1)
		if len(l.wakeNext) > 0 {
			t.Fatal("the session was woken for nothing")
		}
		write(t, w, strings.Repeat(string('a'+i%26), maxDeferredCopy))
		write(t, l.wires[1], "DELETED\r\n")
		sent += maxDeferredCopy
		l.sends.end()
	}
	if len(l.wakeNext) != 1 || l.wakeNext[0] != w {
		t.Errorf("%d sessions are woken", len(l.wakeNext))
	}
	got := make([]byte, sent)
	for n := 0; n < sent; {
		l.clients[0].SetReadDeadline(time.Now().Add(time.Minute))
		m, err := l.clients[0].Read(got[n:])
		if n += m; err != nil {
			t.Fatalf("%v after %d bytes of %d", err, n, sent)
		}
		w.handleEvents(syscall.EPOLLOUT, 2)
	}
	for i, c := range got {
		if want := 'a' + byte(i/maxDeferredCopy)%26; c != want {
			t.Fatalf("byte %d is %q, want %q", i, c, want)
		}
	}
}

// TestEndsWhileDeferred: a wire that is closed sends its deferred reply first, one that is
// aborted does not. Neither sends to the next connection that gets its descriptor, and bodies are
// released.
func TestEndsWhileDeferred(t *testing.T) {
	l := newIdleLoop(t, 3)
	l.sends.begin(1)
	bodies := make([]releaseCounter, 3)
	for i, w := range l.wires {
		pieces := []protocol.Piece{{Bytes: []byte("1")}, {Bytes: []byte("2"), Body: true, Buffer: &bodies[i]}, {Bytes: []byte("3")}}
		if err := w.WriteVec(pieces); err != nil {
			t.Fatal(err)
		}
	}
	l.wires[0].Close()
	l.wires[1].wake = func(Submitter) {}
	l.wires[1].Abort()
	next, other := connected(t)
	fd, err := duplicate(other.(syscall.Conn))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if fd != l.wires[0].fd {
		t.Logf("descriptor %d, and not %d, is reused", fd, l.wires[0].fd)
	}
	l.sends.end()
	for i, want := range []string{"123", "", "123"} {
		l.expect(t, i, want)
		if bodies[i].released != 1 {
			t.Errorf("the body for client %d was released %d times", i, bodies[i].released)
		}
	}
	expectNothing(t, l.clients[1])
	expectNothing(t, next)
}

// TestClientGone: the next write returns the error of a deferred one, and the session is woken.
func TestClientGone(t *testing.T) {
	l := newIdleLoop(t, 2)
	w := l.wires[0]
	l.clients[0].(*net.TCPConn).SetLinger(0)
	l.clients[0].Close()
	awaitReset(t, w.fd)
	l.sends.begin(1)
	body := new(releaseCounter)
	if err := w.WriteVec([]protocol.Piece{{Bytes: []byte("1")}, {Bytes: []byte("2"), Body: true, Buffer: body}}); err != nil {
		t.Fatal(err)
	}
	write(t, l.wires[1], "DELETED\r\n")
	l.sends.end()
	if _, err := w.Write([]byte("3")); err == nil || body.released != 1 || len(l.wakeNext) != 1 {
		t.Errorf("%v; released %d times; %d sessions are woken", err, body.released, len(l.wakeNext))
	}
	l.expect(t, 1, "DELETED\r\n")
}

// TestKernelAcceptsNone: writes that the kernel does not accept for asynchronous I/O are sent
// anyway.
func TestKernelAcceptsNone(t *testing.T) {
	l := newIdleLoop(t, 3)
	l.sends.sender.Close()
	l.sends.begin(1)
	for _, w := range l.wires {
		write(t, w, "DELETED\r\n")
	}
	l.sends.end()
	for i := range l.wires {
		l.expect(t, i, "DELETED\r\n")
	}
}

// TestNoAIO: without asynchronous I/O no reply is deferred.
func TestNoAIO(t *testing.T) {
	l := newIdleLoop(t, 1)
	l.sends.sender = nil
	l.sends.begin(1)
	write(t, l.wires[0], "DELETED\r\n")
	l.expect(t, 0, "DELETED\r\n")
}
