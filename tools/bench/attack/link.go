package attack

import (
	"context"
	"fmt"
	"net"

	"golang.org/x/time/rate"
)

// linkRate is the bandwidth of a link in each direction, in bytes a second: 100 Mbit/s.
const linkRate = 12_500_000

// linkBurst is how many bytes a link passes on at once.
const linkBurst = 16 << 10

// A link is a proxy with the speed of a slow network: its connections share linkRate in each
// direction. It ends with its listener.
type link struct {
	net.Listener
	to      string
	out, in *rate.Limiter
}

// startLink makes a link to a port of this machine.
func startLink(port string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("making a link: %w", err)
	}
	k := &link{l, "127.0.0.1:" + port, rate.NewLimiter(linkRate, linkBurst), rate.NewLimiter(linkRate, linkBurst)}
	go k.serve()
	return k, nil
}

func (k *link) port() int { return k.Addr().(*net.TCPAddr).Port }

func (k *link) serve() {
	for {
		near, err := k.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", k.to)
		if err != nil {
			near.Close()
			continue
		}
		go pass(far, near, k.out)
		go pass(near, far, k.in)
	}
}

// pass copies from one connection to the other until one of them ends, and closes both.
func pass(to, from net.Conn, limit *rate.Limiter) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, linkBurst)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			limit.WaitN(context.Background(), n)
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
