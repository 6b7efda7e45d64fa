package netpoll

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// connected returns both ends of a TCP connection.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// expect fails if the next bytes that the client gets are not want.
func expect(t *testing.T, client net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	client.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := io.ReadFull(client, got); string(got) != want {
		t.Fatalf("got %.40q, %d bytes of %d, %v", got[:n], n, len(want), err)
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

func write(t *testing.T, w *epollWire, text string) {
	t.Helper()
	if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("%d bytes of %d, %v", n, len(text), err)
	}
}

// awaitReset waits until the kernel knows that the peer refuses what was sent.
func awaitReset(t *testing.T, fd int) {
	t.Helper()
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(epoll)
	hangUp := syscall.EpollEvent{Fd: int32(fd)} // reported even if not asked for
	if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd, &hangUp); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := syscall.EpollWait(epoll, make([]syscall.EpollEvent, 1), 5000)
		if err == syscall.EINTR {
			continue
		}
		if n != 1 {
			t.Fatalf("no reset in 5 s: %v", err)
		}
		return
	}
}
