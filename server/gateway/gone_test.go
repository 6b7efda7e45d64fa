package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"redstalk/server/gateway"
	"redstalk/server/httpserve"
)

// TestGoneWithBody: a wait ends when the client leaves, even if nobody has read the body.
func TestGoneWithBody(t *testing.T) {
	t.Parallel()
	waits, ended := make(chan struct{}), make(chan struct{})
	d := httpserve.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctx, cancel := gateway.UntilEnding(r)
		defer cancel()
		close(waits)
		<-ctx.Done()
		close(ended)
	}), httpserve.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go d.Serve(l)
	defer d.Shutdown(context.Background())
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	<-waits
	c.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
}
