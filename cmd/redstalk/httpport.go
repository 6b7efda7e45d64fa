package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"redstalk/protocol/client"
)

// firstReply is a connection whose first reply shows whether --server is an HTTP port by mistake. Such a server can wait
// for more of what it takes for a request, so after a moment another connection asks it.
type firstReply struct {
	net.Conn
	dialer *dialer
	came   bool // only for the goroutine that reads
	isHTTP atomic.Bool
}

// httpPatience is how long the first reply can take before another connection asks.
const httpPatience = 300 * time.Millisecond

var httpWord = []byte("HTTP/")

func (f *firstReply) Read(p []byte) (int, error) {
	if f.came {
		return f.Conn.Read(p)
	}
	timer := time.AfterFunc(httpPatience, func() {
		if f.dialer.speaksHTTP() {
			f.isHTTP.Store(true)
			f.Conn.Close()
		}
	})
	n, err := f.Conn.Read(p)
	timer.Stop()
	f.came = true
	if f.isHTTP.Load() || bytes.HasPrefix(p[:n], httpWord) {
		return 0, failure{exitServer, fmt.Errorf("%s is an HTTP port: --server is that of the beanstalk protocol, by default 11300", f.dialer.addr)}
	}
	return n, err
}

// CloseWrite closes the connection for sending.
func (f *firstReply) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return f.Conn.Close()
}

// speaksHTTP sends two lines that end any request, and reports whether the answer is one of HTTP. A beanstalkd answers
// UNKNOWN_COMMAND. The lines are longer than what HTTP/2 begins with, for which a server waits.
func (l *dialer) speaksHTTP() bool {
	conn, err := client.DialTLS(l.addr, l.tls, l.limit)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(l.limit))
	if conn.Send([]byte("is-this-a-beanstalk-server-or-an-http-port\r\n\r\n")) != nil {
		return false
	}
	begin := make([]byte, len(httpWord))
	_, err = io.ReadFull(conn, begin)
	return err == nil && bytes.Equal(begin, httpWord)
}
