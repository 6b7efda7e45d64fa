package gateway

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"redstalk/server/access"
	"redstalk/server/httpserve"
)

// bodyOverhead is the allowed size of a request in addition to the body of its job, in
// bytes.
const bodyOverhead = 64 << 10

// MaxBody returns the largest body of a request whose job can have jobSize bytes: each of
// them may be written as six characters, such as \u0007.
func MaxBody(jobSize int) int64 { return 6*int64(jobSize) + bodyOverhead }

// ReadBody reads the whole body of a request, of at most limit bytes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

// UntilEnding returns a context that ends with the request, when the client leaves, when the
// server shuts down, and when the file of users changes: a waiting request is then answered
// as if its time were over. The returned function must be called at the end.
func UntilEnding(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := httpserve.UntilEnding(r)
	if changed := access.ChangedIn(ctx); changed != nil {
		go func() {
			select {
			case <-changed:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// Answer writes an answer with status 200. It returns an error if the client is known not to
// receive it.
func Answer(w http.ResponseWriter, r *http.Request, contentType string, body []byte) error {
	if err := r.Context().Err(); err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
