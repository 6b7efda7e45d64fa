package limits

import "sync"

// Shares limit how many requests of a kind run at the same time. A client that already has
// as many as are still free gets no more, so that there is always one left for another client.
// The unknown client, "", is not limited in this way.
type Shares struct {
	limit int

	mu       sync.Mutex // guards the fields below
	inUse    int
	byClient map[string]int
}

// NewShares returns Shares of limit requests.
func NewShares(limit int) *Shares { return &Shares{limit: limit, byClient: make(map[string]int)} }

// Acquire reports whether a client can start a request. If so, Release must be called at its
// end.
func (l *Shares) Acquire(client string) bool { return l.AcquireAll(client, 1) }

// AcquireAll is Acquire for n requests, which is at least 1: it starts all or none.
func (l *Shares) AcquireAll(client string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := l.limit - l.inUse - (n - 1) // for the last of them
	if free <= 0 || client != "" && l.byClient[client]+n-1 >= free {
		return false
	}
	l.inUse += n
	l.byClient[client] += n
	return true
}

// Release ends a request of a client.
func (l *Shares) Release(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse--
	if l.byClient[client]--; l.byClient[client] == 0 {
		delete(l.byClient, client)
	}
}

// InUse returns the number of requests that run.
func (l *Shares) InUse() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inUse
}
