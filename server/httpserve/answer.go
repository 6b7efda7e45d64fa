package httpserve

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"redstalk/server/limits"
)

// answer is a handler's way to its client. What net/http offers beside it is there by Unwrap.
type answer struct {
	http.ResponseWriter
	door      *Door
	conn      *conn // nil: not known
	operation string
	status    int // 0 until it is said
	whole     bool
	began     time.Time

	mu      sync.Mutex   // guards writing
	writing bool         // a large part is on its way
	unread  atomic.Int64 // bytes of it that the client has not taken
	read    atomic.Uint64
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Flush implements http.Flusher, for handlers that know no http.ResponseController.
func (a *answer) Flush() { http.NewResponseController(a.ResponseWriter).Flush() }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// smallPart is what need not be bounded: net/http keeps about as much for each connection.
const smallPart = 8 << 10

// Write implements http.ResponseWriter. It fails if it is known that the client is gone.
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
	a.door.slow.add(a)
	defer a.door.slow.remove(a)
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

// GiveWay implements limits.Reader: the write that is under way fails.
func (a *answer) GiveWay() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.writing {
		a.door.unread.Warn(a.door.log, "clients were cut off whose answers take memory that others need; they read too slowly")
		http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}

// slowAnswers are the answers of a Door of which large parts are on their way.
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
