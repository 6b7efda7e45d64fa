package queue

import "redstalk/tube"

// Watcher takes jobs of very many tubes without a Waiter for each: the queue notifies it that a
// tube may have a job, and the watcher reserves the job. Its methods are called on any goroutine; they
// must return quickly, and must call neither the queue nor the store.
type Watcher interface {
	// WakeUp is a wake-up: a tube may have a job. It reports whether the watcher is going to try
	// to take it. Before the wake-up the watcher has tried with storage.Op.Wait and found
	// nothing, so no wake-up is lost unless the store fails.
	WakeUp(tube string) bool

	// PolicyChanged reports that the policy of a tube was set on this server. Changes by other
	// servers on the same store are not reported.
	PolicyChanged(tube string)
}

// Watch sets the one watcher of the queue; nil removes it.
func (q *Queue) Watch(w Watcher) {
	if w == nil {
		q.watcher.Store(nil)
		return
	}
	q.watcher.Store(&w)
}

func (q *Queue) watcherReady(tube string) bool {
	w := q.watcher.Load()
	return w != nil && (*w).WakeUp(tube)
}

// PolicyChanged must be called by a listener that has set a policy by other means than
// SetPolicy.
func (q *Queue) PolicyChanged(tube string) {
	if w := q.watcher.Load(); w != nil {
		(*w).PolicyChanged(tube)
	}
}

// Pushes reports whether this server may push jobs at all.
func (q *Queue) Pushes() bool { return q.config.MayPush != nil }

// MayPush reports whether every URL to which a policy pushes is allowed. The policy may be
// nil.
func (q *Queue) MayPush(p *tube.Policy) bool {
	return p == nil || p.Push.URL == "" || q.Pushes() && q.config.MayPush(p.Push.URL)
}
