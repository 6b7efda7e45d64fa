package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"redstalk/protocol/client"
)

// others is a client that goes about its business while an attack is on: it puts a job
// into a tube of its own, reserves it and deletes it, and begins again a millisecond
// later. It records how long it has waited for each reply.
type bystander struct {
	stop  chan struct{}
	done  chan error
	waits []wait // its goroutine's, until finish
}

// A wait is for one reply.
type wait struct {
	begun time.Time
	took  time.Duration
}

// pause is how long others rest between two rounds.
const pause = time.Millisecond

// watchOthers begins; finish ends it.
func startBystander(addr string) (*bystander, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	if err := c.UseOnly("others"); err != nil {
		return nil, fmt.Errorf("beginning beside the attack: %w", err)
	}
	o := &bystander{stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		defer c.Close()
		o.done <- o.work(c)
	}()
	return o, nil
}

func (o *bystander) work(c *client.Conn) error {
	for {
		select {
		case <-o.stop:
			return nil
		case <-time.After(pause):
		}
		if err := o.round(c); err != nil {
			return fmt.Errorf("beside the attack: %w", err)
		}
	}
}

func (o *bystander) round(c *client.Conn) error {
	var id uint64
	for _, command := range []func() []byte{
		func() []byte { return client.AppendPut(nil, 1, 0, 60, []byte("others")) },
		func() []byte { return []byte("reserve-with-timeout 5\r\n") },
		func() []byte { return client.AppendDelete(nil, id) },
	} {
		begun := time.Now()
		err := c.Ask(command(), 1, func(r *client.Reply) error {
			if r.Word != client.Inserted && r.Word != client.Reserved && r.Word != client.Deleted {
				return fmt.Errorf("unexpected answer: %s", r.Line)
			}
			id = r.ID
			return nil
		})
		if err != nil {
			return err
		}
		o.waits = append(o.waits, wait{begun, time.Since(begun)})
	}
	return nil
}

// finish ends it, and returns its waits, the shortest first.
func (o *bystander) finish() ([]wait, error) {
	close(o.stop)
	err := <-o.done
	slices.SortFunc(o.waits, func(a, b wait) int { return cmp.Compare(a.took, b.took) })
	return o.waits, err
}

// longest returns the wait that a part of all waits, which are sorted, do not exceed.
func quantileOfWaits(waits []wait, of float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[int(of*float64(len(waits)-1))].took
}

// apart returns by how much one of some waits was longer, at most, than what somebody else waited
// for one reply at the same time: the rest may be due to what has held up both. Both are sorted.
func longestAlone(waits, elsewhere []wait) (most time.Duration) {
	for _, w := range slices.Backward(waits) {
		if w.took <= most {
			break
		}
		most = max(most, w.took-overlap(w, elsewhere))
	}
	return most
}

// shared returns for how long a wait and one of elsewhere were under way at the same time, at most.
func overlap(w wait, elsewhere []wait) (most time.Duration) {
	end := w.begun.Add(w.took)
	for _, e := range slices.Backward(elsewhere) {
		if e.took <= most {
			break
		}
		begun, ended := e.begun, e.begun.Add(e.took)
		if begun.Before(w.begun) {
			begun = w.begun
		}
		if ended.After(end) {
			ended = end
		}
		most = max(most, ended.Sub(begun))
	}
	return most
}

// part returns the wait that a part of all waits, which are sorted, do not exceed.
func quantile(waits []time.Duration, of float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[int(of*float64(len(waits)-1))]
}

// longCall is from when on a call of Redis is shown with how it began.
const longCall = 10 * time.Millisecond

// A toll is what an attack cost those who had nothing to do with it.
type impact struct {
	took    time.Duration // of the attack itself
	waited  time.Duration // the longest that others waited for a reply
	usual   time.Duration // what 99 of 100 replies did not exceed
	rare    time.Duration // what 999 of 1,000 did not exceed
	waits   []wait        // all of them, the shortest first
	blocked time.Duration // the longest that one call has held Redis up; 0 without Redis
	call    string        // how that call began
}

func (t impact) String() string {
	s := fmt.Sprintf("%s; others waited %s", format(t.took), format(t.waited))
	if t.blocked > 0 {
		s += ", one call " + format(t.blocked)
	}
	if t.blocked > longCall {
		s += " (" + t.call + ")"
	}
	return s
}

// shown is a duration for people: three digits.
func format(d time.Duration) string {
	for unit := time.Microsecond; unit <= time.Second; unit *= 10 {
		if d < 100*unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.Round(100 * time.Millisecond).String()
}

// during carries out an attack while others work on an instance of the stand.
func (s *cluster) during(i *instance, attack func() error) (impact, error) {
	if s.redis != nil {
		s.redis.forget()
	}
	o, err := startBystander(i.addr)
	if err != nil {
		return impact{}, err
	}
	time.Sleep(50 * time.Millisecond) // others are under way
	begun := time.Now()
	err = attack()
	took := time.Since(begun)
	waits, failed := o.finish()
	if err == nil {
		err = failed
	}
	t := impact{took: took, waited: quantileOfWaits(waits, 1), usual: quantileOfWaits(waits, 0.99), rare: quantileOfWaits(waits, 0.999), waits: waits}
	if s.redis != nil {
		t.blocked, t.call = s.redis.longest()
	}
	return t, err
}

// quiet is what others wait while nothing else happens, for as long.
func (s *cluster) quiet(i *instance, d time.Duration) (impact, error) {
	return s.during(i, func() error { time.Sleep(d); return nil })
}
