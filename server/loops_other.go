//go:build !linux

package server

import (
	"log/slog"
	"net"

	"redstalk/server/queue"
)

// loops are nothing where there is no epoll: every connection is a pump.
type loops struct {
	queue *queue.Queue
	log   *slog.Logger
}

func (*loops) adopt(net.Conn, func(submitter)) wire { return nil }

func (*loops) adoptSecure(*secureConn, func(submitter)) wire { return nil }

func (*loops) stop() {}

// Loops returns how many goroutines of a server watch all its connections: none
// here.
func Loops() int { return 0 }
