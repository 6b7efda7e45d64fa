package httpserve

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/server/limits"
)

// answer is the response writer that handlers get. Unwrap gives access to what net/http
// offers in addition.
type answer struct {
	http.ResponseWriter
	srv       *Server
	conn      *conn // nil: unknown
	operation string
	status    int // 0 until it is written
	whole     bool
	began     time.Time

	mu      sync.Mutex   // guards writing
	writing bool         // a large part is being written
	unread  atomic.Int64 // bytes of it that the client has not received
	read    atomic.Uint64
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements http.Flusher, for handlers that do not know http.ResponseController.
func (a *answer) Flush() { http.NewResponseController(a.ResponseWriter).Flush() }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// smallPart is the size up to which writes are not limited: net/http buffers about as much
// for each connection.
const smallPart = 8 << 10

// Write implements http.ResponseWriter. It fails if the client is known to have left.
func (a *answer) Write(p []byte) (int, error) {
	if a.conn != nil && a.conn.gone.Load() {
		return 0, net.ErrClosed
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if len(p) <= smallPart {
		return a.ResponseWriter.Write(p)
	}
	a.unread.Store(int64(len(p)))
	a.srv.slowAnswers.add(a)
	defer a.srv.slowAnswers.remove(a)
	for n := 0; ; {
		m, err := a.ResponseWriter.Write(p[n:min(len(p), n+writePart)])
		n += m
		a.unread.Add(-int64(m))
		a.read.Add(uint64(m))
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// Unread implements limits.Reader.
func (a *answer) Unread() (bytes int64, read uint64) { return a.unread.Load(), a.read.Load() }

// GiveWay implements limits.Reader: the current write fails.
func (a *answer) GiveWay() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writing {
		a.srv.unread.Warn(a.srv.log, "clients that read too slowly were cut off, because others need the memory of their answers")
		http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}

// slowAnswers are the answers of a Server of which large parts are being written.
type slowAnswers struct {
	mu  sync.Mutex
	all map[*answer]struct{}
}

func (s *slowAnswers) add(a *answer) {
	a.mu.Lock()
	a.writing = true
	a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*answer]struct{})
	}
	s.all[a] = struct{}{}
}

func (s *slowAnswers) remove(a *answer) {
	s.mu.Lock()
	delete(s.all, a)
	s.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writing = false
}

func (s *slowAnswers) readers() (all []limits.Reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.all {
		all = append(all, a)
	}
	return all
}
