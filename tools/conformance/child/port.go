package child

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// locks are the sockets that keep the ports given out by this process.
var locks struct {
	sync.Mutex
	held []net.PacketConn
}

// FreePort returns a loopback port on which nobody listens. It belongs to the caller until this
// process ends, also while its server is down: the system gives higher ports to clients, and
// FreePort gives it to nobody else, in this process or another one. So it is with the port of the
// bus of a Redis node, which is 10,000 higher. The UDP port, which no server here uses, is the lock.
// FreePort panics if no port is free.
func FreePort() string {
	for range 1000 {
		port := strconv.Itoa(12_000 + rand.IntN(10_000))
		at := net.JoinHostPort("127.0.0.1", port)
		lock, err := net.ListenPacket("udp", at)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			lock.Close()
			continue
		}
		l.Close()
		locks.Lock()
		locks.held = append(locks.held, lock) // or the garbage collector would close it
		locks.Unlock()
		return port
	}
	panic("child: no port is free")
}
