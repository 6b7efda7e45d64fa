package webhook

import (
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// route sends requests, directly or through a proxy.
type route struct {
	kept  http.RoundTripper // uses connections again
	fresh http.RoundTripper // opens a connection for each request
}

func newRoute(kept *http.Transport) *route {
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	return &route{kept, fresh}
}

// send sends a request. If a connection that was used before ends without a byte of an
// answer, the receiver has probably closed it before it saw the request, so the request is
// sent once more, on a new connection.
func (r *route) send(req *http.Request) (*http.Response, error) {
	var reused, answered atomic.Bool
	trace := &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { reused.Store(c.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}
	answer, err := r.kept.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err == nil || !reused.Load() || answered.Load() || isReset(err) || req.Context().Err() != nil {
		return answer, err
	}
	again, ok := rewound(req)
	if !ok {
		return nil, err
	}
	return r.fresh.RoundTrip(again)
}

// rewound returns a request whose body is read from its beginning; false if that cannot be.
func rewound(req *http.Request) (*http.Request, bool) {
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	again.Body = body
	return again, err == nil
}

// streamReset has the fields of the error with which net/http reports that an HTTP/2 server has
// refused one request: net/http matches errors by that.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamReset) Error() string { return "the stream was reset" }

// isReset reports whether the server has ended the request, not its connection.
func isReset(err error) bool { return errors.As(err, new(streamReset)) }
