package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"redstalk/storage/redis/schema"
)

// Before anything else is sent under a name, Redis must know it: by a call of its own, a
// registration, which only announces the instance. Only a registration can be the first batch
// (lua/batch.lua). So a batch that arrives late or twice, after others have declared the
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
