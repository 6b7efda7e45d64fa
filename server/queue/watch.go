package queue

import "redstalk/tube"

// Watcher takes jobs of very many tubes without a Waiter for each: it is told where there may
// be one, and reserves it by itself. Its methods may be called on any goroutine; they must
// return quickly, and must call neither the queue nor the store.
type Watcher interface {
	// Ready hints that a job may be taken from a tube. It returns whether the watcher is going
	// to try. Before the hint the watcher has tried with storage.Op.Wait, and found nothing;
	// so no hint is lost, unless the store fails.
	Ready(tube string) bool

	// PolicyChanged tells that the policy of a tube was set here. Of changes by other servers
	// on the same store nobody tells.
	PolicyChanged(tube string)
}

// Watch sets the one watcher of the queue; nil for none.
func (q *Queue) Watch(w Watcher) {
	if w == nil {
		q.watcher.Store(nil)
		return
	}
	q.watcher.Store(&w)
}

func (q *Queue) watcherReady(tube string) bool {
	w := q.watcher.Load()
	return w != nil && (*w).Ready(tube)
}

// PolicyChanged is called by a door that has set a policy otherwise than by SetPolicy.
func (q *Queue) PolicyChanged(tube string) {
	if w := q.watcher.Load(); w != nil {
		(*w).PolicyChanged(tube)
	}
}

// Pushes tells whether this server may push jobs at all.
func (q *Queue) Pushes() bool { return q.config.MayPush != nil }

// MayPush tells whether a policy, which may be nil, sends jobs only where they may be sent.
func (q *Queue) MayPush(p *tube.Policy) bool {
	return p == nil || p.Push.URL == "" || q.Pushes() && q.config.MayPush(p.Push.URL)
}
