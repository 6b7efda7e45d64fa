package webhook

import (
	"context"
	"net"
	"net/http"
)

// Do sends a request of a gateway, whose context must have a deadline, where that is allowed,
// and follows redirects. The body of the answer is dropped.
func (d *Dispatcher) Do(req *http.Request) (*http.Response, error) { return d.client.follow(req) }

// Dial connects to "host:port" for a gateway, where that is allowed.
func (d *Dispatcher) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.client.dial(ctx, network, address)
}

// ResultOf says how a call has ended that has failed with an error of Do or Dial, or of a
// context.
func ResultOf(err error) Result { return resultOf(err) }
