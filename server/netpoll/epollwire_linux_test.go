package netpoll

import (
	"io"
	"syscall"
	"testing"
)

// TestDeliveredAfterReset: a wire does not wait for the delivery of bytes to a client that has
// closed its connection, although the kernel never stops counting them as unsent.
func TestDeliveredAfterReset(t *testing.T) {
	client, conn := connected(t)
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
		t.Errorf("it waits for a client that is gone: %d bytes are not acknowledged", unsent(fd))
	}
}
