package redistest

import "slices"

// Part is the traffic of some clients of a proxy, to which something can happen while all
// others continue.
type Part struct {
	p    *Proxy
	pids []int // of the clients; nil: all there are

	// These belong to the proxy's lock. Once a connection was found to be of one
	// of the clients, or not, that does not change.
	request, answer Interceptor
	known           map[*link]bool
}

// Of returns the part of these processes, by their pids. Until End is called they are looked up
// for every affected connection.
func (p *Proxy) Of(pids ...int) *Part {
	return p.part(slices.Clip(append([]int{}, pids...)))
}

// Whole returns the part of all clients.
func (p *Proxy) Whole() *Part { return p.part(nil) }

func (p *Proxy) part(pids []int) *Part {
	of := &Part{p: p, pids: pids, known: make(map[*link]bool)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts = append(p.parts, of)
	return of
}

// End lets everything pass again. Nothing can happen to the part any more.
func (of *Part) End() {
	of.p.mu.Lock()
	defer of.p.mu.Unlock()
	of.request, of.answer = nil, nil
	of.p.parts = slices.DeleteFunc(of.p.parts, func(p *Part) bool { return p == of })
}

// Intercept decides about every piece of a request and of a reply.
func (of *Part) Intercept(request, answer Interceptor) {
	of.p.mu.Lock()
	defer of.p.mu.Unlock()
	of.request, of.answer = request, answer
}

// Swallow lets connections be accepted and passes nothing, as on a dead line; or ends that.
// What was swallowed is lost, so at the end all connections break.
func (of *Part) Swallow(ok bool) {
	all := func([]byte) Fate { return Drop }
	of.p.mu.Lock()
	defer of.p.mu.Unlock()
	if of.request, of.answer = all, all; !ok {
		of.p.breakThose(of, false) // first: no connection may go on with a part missing
		of.request, of.answer = nil, nil
	}
}

// Break breaks the connections.
func (of *Part) Break() {
	of.p.mu.Lock()
	defer of.p.mu.Unlock()
	of.p.breakThose(of, false)
}

// Reset breaks them with a TCP reset at both ends.
func (of *Part) Reset() {
	of.p.mu.Lock()
	defer of.p.mu.Unlock()
	of.p.breakThose(of, true)
}

// has returns whether a connection is one of the part. The proxy's lock is held.
func (of *Part) has(l *link) bool {
	if of.pids == nil {
		return true
	}
	ok, known := of.known[l]
	if !known {
		ok = madeBy(l.client, of.pids)
		of.known[l] = ok
	}
	return ok
}
