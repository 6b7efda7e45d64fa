package testserver

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreeAddr returns an address of the loopback interface at which nobody listens. Its port is the test's until it ends, also
// while its server is down: the system gives higher ports to outgoing connections, and the tests of this project take a UDP
// port, which no server here uses, as the lock of the TCP port with the same number.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(12_000+rand.IntN(10_000)))
		lock, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			lock.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { lock.Close() })
		return addr
	}
	t.Fatal("no port is free")
	return ""
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
