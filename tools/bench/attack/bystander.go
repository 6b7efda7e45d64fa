package attack

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"redstalk/protocol/client"
)

// bystander is a client that works during an attack: it puts a job
// into a tube of its own, reserves and deletes it, and starts again a millisecond
// later. It records how long it waits for each reply.
type bystander struct {
	stop  chan struct{}
	done  chan error
	waits []wait // owned by its goroutine until finish
}

// A wait is for one reply.
type wait struct {
	begun time.Time
	took  time.Duration
}

// pause is the time between two rounds of a bystander.
const pause = time.Millisecond

// startBystander starts a bystander, which finish ends.
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

// quantileOfWaits returns the wait that a part of all waits, which are sorted, do not exceed.
func quantileOfWaits(waits []wait, of float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[int(of*float64(len(waits)-1))].took
}

// longestAlone returns the largest difference between one of the waits and the waits elsewhere at the same
// time: the common part can have a common cause. Both are sorted.
func longestAlone(waits, elsewhere []wait) (most time.Duration) {
	for _, w := range slices.Backward(waits) {
		if w.took <= most {
			break
		}
		most = max(most, w.took-overlap(w, elsewhere))
	}
	return most
}

// overlap returns the longest time that a wait has in common with one of elsewhere.
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

// quantile returns the wait that a part of all waits, which are sorted, do not exceed.
func quantile(waits []time.Duration, of float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[int(of*float64(len(waits)-1))]
}

// longCall is the duration from which on a call of Redis is shown with its beginning.
const longCall = 10 * time.Millisecond

// An impact is the effect of an attack on a bystander.
type impact struct {
	took    time.Duration // of the attack itself
	waited  time.Duration // the longest wait of the bystander
	usual   time.Duration // p99 of its waits
	rare    time.Duration // p99.9 of its waits
	waits   []wait        // all of them, the shortest first
	blocked time.Duration // the longest call of Redis; 0 without Redis
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

// format formats a duration with three digits.
func format(d time.Duration) string {
	for unit := time.Microsecond; unit <= time.Second; unit *= 10 {
		if d < 100*unit {
			return d.Round(unit / 10).String()
		}
	}
	return d.Round(100 * time.Millisecond).String()
}

// during runs an attack while a bystander works on an instance of the cluster.
func (s *cluster) during(i *instance, attack func() error) (impact, error) {
	if s.redis != nil {
		s.redis.forget()
	}
	o, err := startBystander(i.addr)
	if err != nil {
		return impact{}, err
	}
	time.Sleep(50 * time.Millisecond) // the bystander is running
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

// quiet measures a bystander for some time without an attack.
func (s *cluster) quiet(i *instance, d time.Duration) (impact, error) {
	return s.during(i, func() error { time.Sleep(d); return nil })
}
