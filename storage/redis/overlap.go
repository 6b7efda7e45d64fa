package redis

// While Redis works on a call, whoever has made it tells the last call's units
// what came of them, asks for what has come meanwhile, and puts the next call
// together: so Redis need not wait for replies to be written, nor for commands
// to be read.
//
// A call that is put together while another one is under way knows nothing of
// its answers. It need not: the units of one connection are never in both, as a
// connection has one batch at a time. Upkeep, which is about what connections
// hold and is asked for by nobody in particular, has Redis to itself.

// fewOps is below how many operations a call costs Redis more by being one than
// by what is in it. If so few have come while Redis worked, and fewer than were
// in that call, its units are told before the next one is sent: they may want
// to be in it.
const fewOps = 128

// overlap is what goes on beside the call that is under way.
type overlap struct {
	more   func() int // see submitGathering; nil if nobody is to be asked
	past   flight     // answered by Redis
	unread bool       // and the answer is not read
	untold bool       // and its units have not been told
	next   flight     // put together
	loaded bool       // with something in it
}

// lead makes a call, and if the caller has more now and then, all that follow.
// It leaves the rest, trouble above all, to run.
func (p *partition) lead(more func() int) {
	for p.fill() {
		if p.failed = p.makeCalls(more != nil, more); p.failed != nil || more == nil {
			p.handOver()
			return
		}
		more()
	}
}

// handOver has run go on, if there is anything left to do.
func (p *partition) handOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil || len(p.queue) > 0 {
		p.handed = true
	} else {
		p.busy = false
	}
	if p.handed || p.ending {
		p.more.Signal()
	}
}

// makeCalls makes the call that is put together, and if they may overlap those
// that are put together meanwhile. An error is that of the last one.
func (p *partition) makeCalls(overlapping bool, more func() int) error {
	o := &p.overlap
	if overlapping {
		o.more, p.link.meanwhile = more, p.meanwhile
		defer func() { o.more, p.link.meanwhile = nil, nil }()
	}
	for {
		r, err := p.exchange()
		p.tellPast()
		if err != nil {
			p.unload()
			return err
		}
		p.vouchForPast(p.sent)
		p.answer = r
		if overlapping && !o.loaded {
			p.gather()
		}
		p.flight, o.past, o.unread, o.untold = o.past, p.flight, true, true
		if o.loaded && o.next.call.ops < min(fewOps, o.past.call.ops) {
			p.tellPast()
			p.gather()
		}
		if !o.loaded {
			p.vouchForPast(o.past.sent) // which may load something
		}
		if !o.loaded {
			return nil
		}
		p.flight, o.next, o.loaded = o.next, p.flight, false
	}
}

// meanwhile is called once while a call is under way.
func (p *partition) meanwhile() {
	p.tellPast()
	p.gather()
}

// gather adds what has come to the next call.
func (p *partition) gather() {
	if more := p.overlap.more; more != nil {
		more()
	}
	if !p.alone() {
		p.loadNext()
	}
}

// alone returns whether nothing may be put together before the call under way
// has been answered.
func (p *partition) alone() bool {
	if p.previous == "" {
		return true
	}
	for _, u := range p.units {
		if u.upkeep != nil {
			return true
		}
	}
	return false
}

// tellPast hands out what came of the call before the one under way, unless it is
// stale: then the next answer of Redis decides, see stale.go.
func (p *partition) tellPast() {
	o := &p.overlap
	if !o.untold {
		return
	}
	p.flight, o.past = o.past, p.flight
	defer func() { p.flight, o.past = o.past, p.flight }()
	if o.unread {
		o.unread = false
		if err := p.read(p.answer); err != nil {
			p.log.Error("the answer to a batch cannot be understood", "err", err)
			p.abandon(classify(err))
			p.cancel()
			p.answer = nil
		}
	}
	if p.isStale() {
		return
	}
	o.untold = false
	p.finish(p.answer)
}

// loadNext adds what is in the queue to the next call.
func (p *partition) loadNext() {
	p.mu.Lock()
	empty := len(p.queue) == 0
	p.mu.Unlock()
	if empty {
		return
	}
	o := &p.overlap
	p.flight, o.next = o.next, p.flight
	if !o.loaded {
		p.begin()
	}
	p.load()
	p.flight, o.next, o.loaded = o.next, p.flight, true
}

// unload puts what was for the next call back into the queue, as the one
// before has failed.
func (p *partition) unload() {
	o := &p.overlap
	if !o.loaded {
		return
	}
	o.loaded = false
	p.flight, o.next = o.next, p.flight
	p.oweTold()
	for _, u := range p.units {
		u.at, u.seen = u.begun, u.before
	}
	p.mu.Lock()
	p.queue = append(p.units, p.queue...)
	p.mu.Unlock()
	p.units = nil
	p.flight, o.next = o.next, p.flight
}
