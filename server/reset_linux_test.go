package server

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestSettledAfterReset: what is sent to a client that has closed its connection is
// not waited for, though the kernel never stops counting it.
func TestSettledAfterReset(t *testing.T) {
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
	w := &epollWire{fd: fd}
	if _, err := w.Write([]byte("DELETED\r\n")); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); !w.Settled(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 5*time.Second {
			t.Fatalf("it waits for a client that is gone: %d bytes are not confirmed", unsent(fd))
		}
	}
}
