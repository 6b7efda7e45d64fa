package webhook

import (
	"context"
	"net"
	"net/http"
)

// Do sends a request for a gateway, if that is allowed, and follows redirects. The context
// of the request must have a deadline. The body of the answer is dropped.
func (d *Dispatcher) Do(req *http.Request) (*http.Response, error) { return d.client.follow(req) }

// Dial connects to "host:port" for a gateway, if that is allowed.
func (d *Dispatcher) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.client.dial(ctx, network, address)
}

// ResultOf classifies an error of Do or Dial, or of a context.
func ResultOf(err error) Result { return resultOf(err) }
