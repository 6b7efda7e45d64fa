//go:build !linux

package netpoll

import (
	"log/slog"
	"net"

	"redstalk/server/queue"
)

// Poller makes wires of connections. Without epoll each of them is a pump.
type Poller struct {
	queue *queue.Queue
}

// NewPoller returns a Poller for sessions of this queue.
func NewPoller(q *queue.Queue, _ *slog.Logger) *Poller { return &Poller{queue: q} }

func (*Poller) adopt(net.Conn, func(Submitter)) Wire { return nil }

func (*Poller) adoptTLS(*TLSConn, func(Submitter)) Wire { return nil }

// Stop does nothing: there are no loops.
func (*Poller) Stop() {}

// Loops returns 0: no loop watches connections.
func Loops() int { return 0 }
