package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"redstalk/protocol"
	"redstalk/tube"
)

const (
	// The body of an answer is read and dropped, so that the connection can be used again:
	// at most maxDropped bytes, for at most dropWithin. If the body is longer or slower,
	// the connection is closed. Its first maxHead bytes are kept.
	maxDropped = 64 << 10
	maxHead    = protocol.MaxReason
	dropWithin = time.Second

	maxHops        = 10        // requests for one call, redirects included, as in net/http
	maxAnswerHead  = 128 << 10 // a checkpoint in base64 fits in
	maxIdle        = 2048      // connections to all targets together
	idleTimeout    = 90 * time.Second
	connectTimeout = 10 * time.Second
	keepAlive      = 30 * time.Second

	// An HTTP/2 connection on which nothing has arrived for pingAfter is pinged, and closed if
	// no answer arrives within pingTimeout. Otherwise all calls would use a dead connection
	// until the kernel gives it up, after a quarter of an hour.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
)

// client sends all requests. It keeps no cookies, and connects only where that is allowed.
type client struct {
	allow    *Allow
	resolver *net.Resolver
	direct   *route
	proxied  *route // nil if proxies are not used
	proxy    func(*http.Request) (*url.URL, error)
}

func newClient(c *Config) *client {
	cl := &client{allow: c.Allow, resolver: c.Resolver, direct: &route{c.transport, c.transport}}
	if c.transport == nil {
		direct := newTransport(c.CAs, c.TargetConcurrency)
		direct.DialContext = cl.dial
		cl.direct = newRoute(direct)
	}
	if c.Proxy {
		cl.proxy = c.proxyOf
		if cl.proxy == nil {
			cl.proxy = http.ProxyFromEnvironment
		}
		proxied := newTransport(c.CAs, c.TargetConcurrency)
		proxied.Proxy = cl.proxy // dials only the proxy, which the operator has chosen
		cl.proxied = newRoute(proxied)
	}
	return cl
}

func newTransport(cas *x509.CertPool, perTarget int) *http.Transport {
	return &http.Transport{
		TLSClientConfig:        &tls.Config{RootCAs: cas, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    connectTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // the body is dropped
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    perTarget,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswerHead,
	}
}

// dial connects to an address if that is allowed. The check comes after name resolution, and
// checks the very address that is connected to.
func (c *client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || c.allow == nil || !c.allow.host(host, uint16(n)) {
		return nil, fmt.Errorf("%w: %s", ErrForbidden, address)
	}
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive, Resolver: c.resolver}
	d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return fmt.Errorf("%w: %s", ErrForbidden, resolved)
		}
		return c.allow.Address(host, to)
	}
	return d.DialContext(ctx, network, address)
}

// errRedirect is returned if a redirect cannot be followed. The error does not quote its
// location, which may contain secrets.
var errRedirect = errors.New("the answer is a redirect that cannot be followed")

// follow sends a request and follows redirects, as net/http does by default: after 307 and 308
// with the same method and body, after 301, 302 and 303 with GET. Each hop must be allowed. An
// answer with a status of 3xx that is not a redirect, such as 304, is returned.
func (c *client) follow(req *http.Request) (*http.Response, error) {
	redirecting := http.Client{Transport: hop(c.send), CheckRedirect: checkHop}
	answer, err := redirecting.Do(req)
	if whole, ok := err.(*url.Error); ok {
		err = whole.Err // the URL may contain secrets
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// checkHop implements http.Client.CheckRedirect. It removes the Referer header, so the next
// host does not see the URL of this one.
func checkHop(req *http.Request, via []*http.Request) error {
	if len(via) >= maxHops {
		return fmt.Errorf("%w: it is the %dth", errRedirect, len(via))
	}
	req.Header.Del("Referer")
	return nil
}

// hop is the http.RoundTripper of follow: it sends one request of a chain of redirects.
type hop func(*http.Request) (*http.Response, error)

// RoundTrip refuses a redirect whose location is missing or malformed: net/http would treat
// the first as an answer, and would quote the second in its error.
func (f hop) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := f(req)
	if err != nil {
		return nil, err
	}
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if to, err := answer.Location(); err != nil || to.Scheme != "http" && to.Scheme != "https" {
			return nil, errRedirect
		}
	}
	return answer, nil
}

// send sends a request and returns the answer with the beginning of its body. It does not follow redirects.
// The context of the request must have a deadline.
func (c *client) send(req *http.Request) (*http.Response, error) {
	answer, _, err := c.sendKeeping(req, false)
	return answer, err
}

// sendKeeping is send. With whole, the answer has its whole body, unless that is longer than a result or does not come in time: cut says that.
func (c *client) sendKeeping(req *http.Request, whole bool) (answer *http.Response, cut bool, err error) {
	by := c.direct
	if c.proxied != nil {
		proxy, err := c.proxy(req)
		if err != nil {
			return nil, false, fmt.Errorf("choosing a proxy: %w", err)
		}
		if proxy != nil {
			by = c.proxied
		}
	}
	if c.allow == nil || !c.allow.Target(req.URL) {
		return nil, false, fmt.Errorf("%w: %s", ErrForbidden, req.URL.Host)
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	if answer, err = by.send(req.WithContext(ctx)); err != nil {
		return nil, false, err
	}
	var head []byte
	if whole {
		head, cut = readWhole(answer.Body)
	} else {
		head = drop(answer.Body, cancel)
	}
	if len(head) > 0 {
		answer.Body = io.NopCloser(bytes.NewReader(head))
	} else {
		answer.Body = http.NoBody
	}
	return answer, cut, nil
}

// readWhole reads a body, as far as a result can be, and closes it. cut says that it is longer, or has not come in time.
func readWhole(body io.ReadCloser) (read []byte, cut bool) {
	defer body.Close()
	if _, upgraded := body.(io.Writer); upgraded {
		return nil, false
	}
	read, err := io.ReadAll(io.LimitReader(body, tube.MaxResult+1))
	return read, err != nil || len(read) > tube.MaxResult
}

// drop reads a little of a body, so that its connection can be used again, and closes it. It
// returns the beginning. Errors do not matter: the status has arrived.
func drop(body io.ReadCloser, cancel func()) (head []byte) {
	if body == http.NoBody {
		return nil
	}
	if _, upgraded := body.(io.Writer); upgraded { // 101: the body is the connection, which no context ends
		body.Close()
		return nil
	}
	late := time.AfterFunc(dropWithin, cancel)
	defer late.Stop()
	head, _ = io.ReadAll(io.LimitReader(body, maxHead))
	io.CopyN(io.Discard, body, maxDropped)
	body.Close()
	return head
}

// resultOf classifies the error of a call that has got no answer.
func resultOf(err error) Result {
	var timeout net.Error
	switch {
	case errors.Is(err, ErrForbidden):
		return Forbidden
	case errors.Is(err, errRedirect):
		return Failed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	}
	return Broken
}
