package redis

import (
	"time"

	"redstalk/storage/redis/lua"
	"redstalk/tube"
)

// How a reply becomes answers of operations, and what the instance learns from it. The
// functions are the counterparts of those in encode.go and its neighbours; reply.go reads the
// fields.

// decode reads the reply to a call, if it has answers of operations.
func (p *partition) decode(c *call) error {
	r := c.reply
	if r == nil || r.unread == lua.Voided {
		return nil
	}
	p.flow.mu.Lock()
	err := p.decodeSteps(c, r)
	p.flow.mu.Unlock()
	p.bodies.forget(c.since)
	p.instance.garbled = p.instance.garbled || err != nil
	c.rewind(r)
	return err
}

func (p *partition) decodeSteps(c *call, r *reply) error {
	for i := 0; i < len(c.steps) && r.err == nil; i++ {
		s := &c.steps[i]
		s.decode(p, r, s.ops)
	}
	p.readNoted(r)
	return r.err
}

// rewind makes units continue from their first operation that was cut. What was answered after
// that is not requested again. Redis does answer, so the time limit of these units starts
// again.
func (c *call) rewind(r *reply) {
	if len(r.cut) == 0 {
		return
	}
	for _, u := range c.units {
		if u.batch != nil && u.rewind(r.cut) {
			u.since = time.Now()
		}
	}
}

// readNoted reads the counts at the end of a reply.
func (p *partition) readNoted(r *reply) {
	for r.err == nil && r.unread != "" {
		what, n, name := r.text(), r.count(), r.text()
		f := p.flow.of(name)
		switch what {
		case "run":
			f.Runs.Observe(time.Duration(n) * time.Millisecond)
		case "puts":
			f.Puts += n
		case "deletes":
			f.Deletes += n
		case "parked":
			f.Parked += n
		default:
			c, known := counterNamed[what]
			if !known {
				r.err = errReply
				return
			}
			f.Counts[c] += n
		}
	}
}

// counterNamed has the counters of a job by their names.
var counterNamed = func() map[string]tube.Counter {
	all := make(map[string]tube.Counter)
	for c := range tube.NumCounters {
		all[c.String()] = c
	}
	return all
}()
