package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
)

// partition is one part of the tubes and their jobs, which lives on one Redis
// node. Its goroutine, run, joins what all connections want into calls of the
// script, one call at a time: the next fills while one is under way.
type partition struct {
	client   goredis.Scripter
	keys     []string // the prefix
	instance string
	number   int
	of       int // partitions in all
	skew     func() time.Duration
	listener storage.Listener
	log      *slog.Logger

	mu     sync.Mutex
	more   *sync.Cond // queue or ending has changed
	queue  []*unit
	ending bool // nothing more is accepted; run ends with the queue
	done   chan struct{}

	// The rest belongs to run.
	call       call
	sent       time.Time // when the call was sent, by now
	holdings   holdings
	attendance attendance
}

// unit is what is carried out together: a batch of a connection, or upkeep.
type unit struct {
	batch    *storage.Batch
	at       int    // operations of the batch that are encoded
	kicked   int    // by a long kick that is under way
	kickFrom string // the state from which it kicks

	upkeep func(*call)     // encodes an operation of the engine itself
	after  func(err error) // called when upkeep is done, if not nil
}

func newPartition(client goredis.Scripter, namespace, instance string, number, of int, log *slog.Logger) *partition {
	p := &partition{
		client: client, keys: []string{keyPrefix(namespace, number)}, instance: instance,
		number: number, of: of, log: log, skew: func() time.Duration { return 0 },
		holdings: make(holdings), attendance: make(attendance), done: make(chan struct{}),
	}
	p.more = sync.NewCond(&p.mu)
	return p
}

// keyPrefix is how all keys of a partition begin. The number is the hash tag.
func keyPrefix(namespace string, number int) string {
	return fmt.Sprintf("%s:{%d}:", namespace, number)
}

// now is the local time, moved as the clock of Redis is in tests.
func (p *partition) now() time.Time { return time.Now().Add(p.skew()) }

// listen names the listener. Whoever submits later is sure to be heard by it.
func (p *partition) listen(l storage.Listener) {
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
}

// submit queues a unit; false if the partition has ended.
func (p *partition) submit(u *unit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending {
		return false
	}
	p.queue = append(p.queue, u)
	p.more.Signal()
	return true
}

// do queues upkeep and waits for it.
func (p *partition) do(upkeep func(*call)) error {
	done := make(chan error, 1)
	if !p.submit(&unit{upkeep: upkeep, after: func(err error) { done <- err }}) {
		return storage.ErrClosed
	}
	return <-done
}

// end lets run finish what is queued, and waits for it.
func (p *partition) end() {
	p.mu.Lock()
	p.ending = true
	p.more.Signal()
	p.mu.Unlock()
	<-p.done
}

func (p *partition) run() {
	defer close(p.done)
	var taken []*unit
	for {
		taken = p.fill(taken[:0])
		if len(taken) == 0 {
			return
		}
		p.carryOut(taken)
		clear(taken)
	}
}

// fill waits for units and encodes as many as go into one call. It returns
// none when the partition has ended.
func (p *partition) fill(taken []*unit) []*unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 && !p.ending {
		p.more.Wait()
	}
	p.call.reset()
	for len(p.queue) > 0 && !p.call.full() {
		u := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		taken = append(taken, u)
		p.mu.Unlock() // encoding may ask the listener, or submit
		p.encode(u)
		p.mu.Lock()
	}
	return taken
}

// carryOut calls the script with what is encoded and hands out the answers.
func (p *partition) carryOut(units []*unit) {
	r, err := p.invoke()
	if err != nil {
		p.log.Warn("Redis has not carried out a batch", "operations", p.call.ops, "err", err)
		p.attendance.forget()
		err = classify(err)
	}
	if r != nil {
		p.tell(r)
	}
	for _, u := range units {
		p.finish(u, err)
	}
}

// invoke calls the script, unless nothing is encoded, and reads the answers.
func (p *partition) invoke() (*reply, error) {
	c := &p.call
	if c.ops == 0 {
		return nil, nil
	}
	c.args[0], c.args[1], c.args[2] = p.instance, p.skew().Milliseconds(), c.puts
	c.args[3], c.args[4] = p.of, p.number
	p.sent = p.now()
	raw, err := script.Run(context.Background(), p.client, p.keys, c.args...).Result()
	if err != nil {
		return nil, err
	}
	r, err := parseReply(raw)
	if err != nil {
		return nil, err
	}
	for _, decode := range c.decode {
		decode(r)
	}
	return r, r.err
}

// finish hands a unit back, or queues it again at the front if a part of it
// is still to do.
func (p *partition) finish(u *unit, err error) {
	if u.upkeep != nil {
		if u.after != nil {
			u.after(err)
		}
		return
	}
	if err == nil && u.at < len(u.batch.Ops) {
		p.mu.Lock()
		p.queue = append([]*unit{u}, p.queue...)
		p.mu.Unlock()
		return
	}
	if err != nil {
		for i := range u.batch.Ops {
			u.batch.Ops[i].Answer = storage.Answer{Err: err}
		}
	}
	u.batch.Done()
}

// tell passes on what else a call has said.
func (p *partition) tell(r *reply) {
	for _, hint := range r.hints {
		if name, ok := hint.(string); ok {
			p.hint(name)
		}
	}
	if r.earliest >= 0 {
		p.listener.Due(r.earliest)
	}
}

// hint tells the listener that there may be a job in the tube, or, if nobody
// here wants it, asks Redis to tell another instance.
func (p *partition) hint(tube string) {
	if !p.listener.Ready(tube) {
		p.submit(&unit{upkeep: func(c *call) { c.add(func(r *reply) { r.found() }, "pass", tube) }})
	}
}

// classify turns an error of Redis into one of package storage.
func classify(err error) error {
	var answer goredis.Error
	if errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "OOM") {
		return fmt.Errorf("%w: %w", storage.ErrNoSpace, err)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// encodeBeat gives the sign of life, and tells what has changed of who
// attends which tube here; all of it if the other instances have given this
// one up, which they tell by not knowing it.
func (p *partition) encodeBeat(c *call) {
	c.add(func(r *reply) {
		if r.found(); !r.found() {
			p.reintroduce()
		}
	}, "beat", silence.Milliseconds(), maxMoves)
	for _, name := range p.attendance.untold(p.listener.Waiting, false) {
		p.encodeAttendance(name)
	}
}

// reintroduce is for an instance that is new, or was silent for so long that
// others have given back what it had reserved.
func (p *partition) reintroduce() {
	if len(p.holdings) > 0 {
		p.log.Warn("this instance was silent for too long; its reservations were given back")
	}
	p.holdings = make(holdings)
	names := p.attendance.untold(p.listener.Waiting, true)
	if len(names) == 0 {
		return
	}
	p.submit(&unit{upkeep: func(*call) {
		for _, name := range names {
			p.encodeAttendance(name)
		}
	}})
}
