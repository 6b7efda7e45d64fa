package main

import (
	"context"
	"net"
	"os"
	"testing"
)

// inside runs Main in this process until the test ends.
type inProcess struct {
	signals chan os.Signal
	addr    chan net.Addr
	code    chan int
	stderr  output
	stop    context.CancelFunc
}

func runInside(t *testing.T, m *Main, args ...string) *inProcess {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	p := &inProcess{
		signals: make(chan os.Signal, 2), addr: make(chan net.Addr, 1), code: make(chan int, 1),
		stderr: newOutput(), stop: stop,
	}
	if m.LookupEnv == nil {
		env := map[string]string{"REDSTALK_STORE": "memory:"}
		m.LookupEnv = func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		}
	}
	m.Signals, m.Ready = p.signals, func(a net.Addr) { p.addr <- a }
	go func() { p.code <- m.Run(ctx, args, newOutput(), p.stderr) }()
	return p
}
