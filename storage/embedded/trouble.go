package embedded

import (
	"log/slog"
	"sync"
	"time"
)

// complainEvery is how often the operator is told of what goes on failing.
const complainEvery = 10 * time.Second

// seldom tells when something may be said again that goes on for long.
type seldom struct {
	mu   sync.Mutex
	last time.Time
}

// now tells whether it may be said now, and takes it that it is.
func (s *seldom) now() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.last) < complainEvery {
		return false
	}
	s.last = now
	return true
}

// trouble tells the operator of tables that cannot be written, and when they can
// be again. It belongs to the checkpoint.
type trouble struct {
	log      *slog.Logger
	dir      string
	behind   seldom // said: the log keeps what they lack
	refusing seldom // said: puts are refused
	since    time.Time
	told     bool // and not that it is over
}

// tell tells of an error, and whether puts are refused for it. Its text is put in
// words here because it carries the stack, which a log handler would print.
func (t *trouble) tell(err error, refusing bool) {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	switch {
	case refusing && t.refusing.now():
		t.behind.now()
		t.log.Error("the journal's tables cannot be written: puts are refused until they can; the log grows by all other changes",
			"dir", t.dir, "err", err.Error())
	case !refusing && t.behind.now():
		t.log.Error("the journal's tables cannot be written; the log keeps what they lack", "dir", t.dir, "err", err.Error())
	default:
		return
	}
	t.told = true
}

// over tells that the tables could be written, if it was told that they could
// not.
func (t *trouble) over() {
	if t.told {
		t.log.Warn("the journal's tables can be written again", "dir", t.dir, "after", time.Since(t.since))
	}
	t.told, t.since = false, time.Time{}
}
