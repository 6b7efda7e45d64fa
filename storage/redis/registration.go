package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
)

// Before anything else is sent under a name, Redis must know it: by a call of its own, a
// registration, which only announces the instance. Only a registration can be the first call
// (lua/main.lua). So a call that arrives late or twice, after others have declared the
// instance dead, is distinguished from one of a new instance; and what is reserved under a name
// is given back if the instance dies, however soon.

// register makes the present name of this instance known to Redis.
func (p *partition) register() error {
	if err := p.sendRegistration(); err != nil {
		return registrationError{fmt.Errorf("registering the instance: %w", err)}
	}
	return nil
}

func (p *partition) sendRegistration() error {
	if p.instance.renamed {
		if err := p.prepareAgain(); err != nil {
			return err
		}
	}
	c := p.newCall()
	defer p.recycle(c)
	c.kind, c.number = registration, p.instance.registration
	p.encodeHeartbeat(c)
	err := p.ask(c)
	if err == nil {
		err = p.decodeSteps(c, c.reply)
	}
	if err == nil && !c.reply.recorded {
		err = errReply
	}
	if err != nil {
		return err
	}
	p.instance.recorded = numberArg(c.number)
	p.publishVersion()
	return nil
}

// publishVersion stores the version of the program for the topology. Nothing depends on it: if
// it fails, the version is unknown.
func (p *partition) publishVersion() {
	if p.number != 0 || p.options.Version == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.options.attempt())
	defer cancel()
	if err := p.updateVersions(ctx); err != nil {
		p.log.Debug("the version of this instance could not be published", "err", p.pool.Redact(err))
	}
}

// updateVersions adds the version of this instance, and removes those of instances that are
// gone. It comes after the registration, so no other instance removes this one's.
func (p *partition) updateVersions(ctx context.Context) error {
	node, err := p.pool.Node(ctx, p.prefix)
	if err != nil {
		return err
	}
	key := p.prefix + "versions"
	names, err := node.Do(ctx, "hkeys", key).Texts()
	if err != nil {
		return fmt.Errorf("reading the versions: %w", err)
	}
	living, err := node.Do(ctx, "zrange", p.prefix+"instances", 0, -1).Texts()
	if err != nil {
		return fmt.Errorf("reading the instances: %w", err)
	}
	gone := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(living, name) })
	if len(gone) > 0 {
		remove := []any{"hdel", key}
		for _, name := range gone {
			remove = append(remove, name)
		}
		if err := node.Do(ctx, remove...).Err; err != nil {
			return fmt.Errorf("removing the versions of instances that are gone: %w", err)
		}
	}
	if err := writeThoughFull(ctx, node, p.prefix, "HSET", key, p.instance.name(), p.options.Version).Err; err != nil {
		return fmt.Errorf("publishing the version: %w", err)
	}
	return nil
}

// errOtherLayout: another instance has begun to use the namespace with another layout.
var errOtherLayout = errors.New("the namespace is not what it was when this instance began")

// prepareAgain marks the layout of a namespace that may have been emptied, or checks that it is
// still the layout of this instance.
func (p *partition) prepareAgain() error {
	ctx := context.Background()
	node, err := p.pool.Node(ctx, schema.KeyPrefix(p.options.Namespace, 0))
	if err != nil {
		return err
	}
	err = prepare(ctx, node, p.options)
	if err != nil && errors.Is(err, errLayout) {
		return fmt.Errorf("%w: %w", errOtherLayout, err)
	}
	return err
}

// An instance can be paused: its process is stopped, or its machine suspended. If that takes
// longer than the heartbeat timeout, other instances declare it dead and give back its jobs. So
// when it continues with the reply to a call, the jobs in it may have been reassigned. A reply
// that gives a job to a client and is older than freshFor is not delivered before Redis has
// confirmed, by answering another call, that the instance is alive.

// freshFor is how long after the request a reply is certainly good: the heartbeat timeout is
// longer.
const freshFor = 2 * time.Second

// isStale returns whether the reply to the call gives a job to a client, and Redis has not
// confirmed for too long that the instance is alive.
func (p *partition) isStale(c *call) bool {
	if elapsed(c.aliveAt(), p.clock.now()) <= freshFor {
		return false
	}
	for _, u := range c.units {
		if u.batch == nil || u.abandoned {
			continue
		}
		for i := u.begun; i < u.at; i++ {
			if givesJob(&u.batch.Ops[i]) {
				return true
			}
		}
	}
	return false
}

// confirmAnswered completes the last call that Redis has answered, if there is one. Redis has
// answered a call that was sent at that time. If that is not recent, the instance asks whether
// it is alive. If it is not, or Redis does not answer, no client gets a job.
func (p *partition) confirmAnswered(sent time.Time) {
	begun, pause := time.Now(), firstPause
	for c := p.pipeline.answered; p.pipeline.answered != nil; {
		c.confirmed = sent
		if p.completeAnswered(); p.pipeline.answered == nil {
			return
		}
		sent = p.clock.now()
		switch err := p.confirm(); {
		case err == nil:
		case reactionTo(err) == hold && time.Since(begun) < p.options.Timeout:
			time.Sleep(pause)
			pause = min(2*pause, longestPause)
			sent = c.confirmed
		default:
			p.withdraw(c, err)
		}
	}
}

// confirm asks Redis whether this instance is alive, by a call that does nothing and so is not
// recorded.
func (p *partition) confirm() error {
	c := p.newCall()
	defer p.recycle(c)
	c.kind = question
	return p.ask(c)
}

// withdraw takes back the jobs that a call has reserved for clients that have not received
// them. If other instances have them the next call answers LOST; if that is unknown, they are
// given back.
func (p *partition) withdraw(c *call, err error) {
	var undelivered []reservation
	for _, u := range c.units {
		if u.abandoned {
			continue
		}
		for _, op := range p.holding(u) {
			undelivered = append(undelivered, p.holdings.get(op.Answer.ID).reservation)
			op.Answer = withdrawn(err)
		}
	}
	p.log.Warn("this instance was paused; jobs that it had reserved are not handed out", "jobs", len(undelivered), "err", err)
	p.giveBack(undelivered)
}

// withdrawEarlier takes back the jobs that unfinished units have got by earlier calls: those of
// a call, and those that wait.
func (p *partition) withdrawEarlier(c *call, err error) {
	for _, u := range append(p.inbox.waiting(), c.units...) {
		if u.abandoned {
			continue
		}
		for _, op := range p.holding(u) {
			op.Answer = withdrawn(err)
		}
	}
}

// withdrawn returns the answer to an operation whose job was taken back.
func withdrawn(err error) storage.Answer {
	if conn.CodeOf(err) == lua.Lost {
		return storage.Answer{NotFound: true, Soon: storage.Forever}
	}
	return storage.Answer{Err: classify(err)}
}

const (
	// firstPause and longestPause are the pauses between two attempts.
	firstPause   = 2 * time.Millisecond
	longestPause = 100 * time.Millisecond
)
