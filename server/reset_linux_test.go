package server

import (
	"io"
	"net"
	"syscall"
	"testing"
)

// TestDeliveredAfterReset: what is sent to a client that has closed its connection is
// not waited for, though the kernel never stops counting it.
func TestDeliveredAfterReset(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client.Close()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("%v, want the end of the stream", err)
	}
	fd, err := duplicate(conn.(syscall.Conn))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	w := &epollWire{fd: fd, loop: &loop{}}
	if _, err := w.Write([]byte("DELETED\r\n")); err != nil {
		t.Fatal(err)
	}
	awaitReset(t, fd)
	if !w.Delivered() {
		t.Errorf("it waits for a client that is gone: %d bytes are not confirmed", unsent(fd))
	}
}

// awaitReset waits until the kernel knows that the other side refuses what was sent.
func awaitReset(t *testing.T, fd int) {
	t.Helper()
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(epoll)
	hangUp := syscall.EpollEvent{Fd: int32(fd)} // which is told unasked
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
