package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// onDisk makes a Redis server write everything to disk before it answers.
var onDisk = []string{"--appendonly", "yes", "--appendfsync", "always"}

// chaosRedis is one Redis.
func chaosRedis(t *testing.T) *setup {
	redis := redistest.StartWithProxy(t, onDisk...)
	own := servers{
		all: func() []*redistest.Server { return []*redistest.Server{redis} },
		one: func(*chaos) *redistest.Server { return redis },
	}
	s := &setup{url: redis.URL(), limit: 5 * time.Second, tubes: 1, whole: func() {}}
	s.faults = append(own.faults(), &fault{killedLater, ofRedis, 0, func(c *chaos) func() { return c.killed(redis) }})
	return s
}

// killedLater is a fault that has one name and two forms.
const killedLater = "a primary is killed and restarted 0.2 to 3 s later; where it can be, after another one has taken over"

// isCall reports whether a request is a call of the script.
func isCall(piece []byte) bool { return len(piece) > 60 }

// isAnswer reports whether a reply is one of the script, which is a list, and not an empty one
// to a request for notifications.
func isAnswer(piece []byte) bool { return len(piece) > 1 && piece[0] == '*' && piece[1] != '-' }

// isConfirmation reports whether a reply is the number of replicas that have a call's
// changes, if that is sent after the answer.
func isConfirmation(piece []byte) bool { return piece[0] == ':' }

// chaosSentinel is a primary with two replicas, and three sentinels; every answer
// waits for both replicas.
func chaosSentinel(t *testing.T) *setup {
	redis := redistest.StartSentinelsWithProxies(t, 2, onDisk...)
	return sentinelSetup(t, redis, 2)
}

// chaosSentinelOne is the same, but answers wait for one of the replicas. Then a
// primary that continues while another one is chosen, together with a replica that does
// not know of that yet, can acknowledge changes that are discarded later. So in all
// faults of a primary here, it is either dead, or cut off
// from all replicas until they follow another one. If the sentinels replace a primary
// for another reason, such as a stall of the machine, the ledger proves nothing.
func chaosSentinelOne(t *testing.T) *setup {
	redis := redistest.StartSentinelsWithProxies(t, 2, onDisk...)
	s := sentinelSetup(t, redis, 1)
	s.faults = slices.DeleteFunc(s.faults, func(f *fault) bool { return f.traits&livesOn != 0 })
	s.switches = redis.CountSwitches(t)
	return s
}

func sentinelSetup(t *testing.T, redis *redistest.Sentinels, replicas int) *setup {
	own := servers{
		all: func() []*redistest.Server { return redis.Servers },
		one: func(*chaos) *redistest.Server { return redis.AwaitHealthy(t) },
	}
	replica := func(c *chaos) (primary, server *redistest.Server) {
		primary = redis.AwaitHealthy(t)
		return primary, without(redis.Servers, primary)[c.rng.IntN(len(redis.Servers)-1)]
	}
	s := &setup{
		url: redis.URL(), flags: []string{"--wait-replicas", fmt.Sprint(replicas)}, limit: 5 * time.Second, tubes: 1,
		whole: func() { redis.AwaitHealthy(t) },
	}
	s.faults = append(append(own.faults(), followerFaults(replica)...),
		&fault{killedLater, ofRedis, takesOver, func(c *chaos) func() {
			killed := own.one(c)
			killed.Kill()
			judge := c.watchChoice(redis, killed)
			return func() {
				chosen := redis.AwaitPrimary(t, killed)
				judge(chosen)
				redis.AwaitFollowed(t, chosen)
				c.restart(killed)
			}
		}},
		&fault{"a sentinel is killed and restarted", ofOthers, 0, func(c *chaos) func() {
			return c.killed(redis.Sentinels[c.rng.IntN(len(redis.Sentinels))])
		}},
		&fault{"`SENTINEL FAILOVER`, `CLUSTER FAILOVER`", ofRedis, livesOn, func(c *chaos) func() {
			old := own.one(c)
			redis.FailOver(t)
			return func() { redis.AwaitPrimary(t, old) }
		}},
		&fault{apartForAWhile, ofRedis, livesOn, func(c *chaos) func() {
			primary := own.one(c)
			return c.swallow(apart(primary, append(without(redis.Servers, primary), redis.Sentinels...))...)
		}},
		&fault{apartForAWhile + ", until another one has taken over", ofRedis, takesOver, func(c *chaos) func() {
			primary := own.one(c)
			parts := apart(primary, append(without(redis.Servers, primary), redis.Sentinels...))
			for _, part := range parts {
				part.Swallow(true)
			}
			judge := c.watchChoice(redis, primary)
			return func() {
				defer heal(parts) // also on failure
				judge(redis.AwaitPrimary(t, primary))
				redis.AwaitReplaced(t, primary)
			}
		}},
	)
	return s
}

// watchChoice records how much of the data of a dead primary each replica has, before the
// sentinels choose one. It returns a function that checks the choice.
func (c *chaos) watchChoice(redis *redistest.Sentinels, gone *redistest.Server) (judge func(chosen *redistest.Server)) {
	time.Sleep(100 * time.Millisecond) // proxies can have data in flight
	had := redis.Offsets(gone)
	return func(chosen *redistest.Server) {
		for server, offset := range had {
			if offset > had[chosen] {
				c.t.Logf("the sentinels have chosen a replica that had %d bytes less than %s", offset-had[chosen], server.Addr)
			}
		}
	}
}

const apartForAWhile = "packets between a primary and all other servers are swallowed, but not those of instances"

// followerFaults returns the faults of replicas. draw draws a replica with its primary.
func followerFaults(draw func(*chaos) (primary, replica *redistest.Server)) []*fault {
	return []*fault{
		{"a replica is killed and restarted 0.2 to 3 s later", ofRedis, 0, func(c *chaos) func() {
			_, killed := draw(c)
			return c.killed(killed)
		}},
		{"a replica is frozen", ofRedis, 0, func(c *chaos) func() {
			_, killed := draw(c)
			return c.freeze(killed)
		}},
		{"packets between a replica and its primary are swallowed", ofRedis, 0, func(c *chaos) func() {
			primary, killed := draw(c)
			return c.swallow(primary.Front.Of(killed.Pid()))
		}},
	}
}

// chaosCluster is three primaries with a replica each.
func chaosCluster(t *testing.T) *setup {
	redis := redistest.StartClusterWithProxies(t, 3, 1, onDisk...)
	somePrimary := func(c *chaos) *redistest.Server {
		primaries, _ := redis.Now(t)
		return primaries[c.rng.IntN(len(primaries))]
	}
	someReplica := func(c *chaos) (primary, server *redistest.Server) {
		_, replicas := redis.Now(t)
		server = replicas[c.rng.IntN(len(replicas))]
		return redis.PrimaryOf(t, server), server
	}
	own := servers{all: redis.Nodes, one: somePrimary}
	s := &setup{
		url: redis.URL(), flags: []string{"--wait-replicas", "1"}, limit: 8 * time.Second, tubes: 32,
		whole: func() { redis.AwaitHealthy(t) },
	}
	s.faults = append(append(own.faults(), followerFaults(someReplica)...),
		&fault{killedLater, ofRedis, 0, func(c *chaos) func() {
			killed := somePrimary(c)
			killed.Kill()
			return func() {
				redis.AwaitReplaced(t, killed)
				c.restart(killed)
			}
		}},
		&fault{"`SENTINEL FAILOVER`, `CLUSTER FAILOVER`", ofRedis, 0, func(c *chaos) func() {
			_, replica := someReplica(c)
			return func() { redis.FailOver(t, replica) }
		}},
		&fault{"packets between an instance and all nodes are swallowed", ofLinks, aside, func(c *chaos) func() {
			return c.cutOff(redis.Nodes())
		}},
		&fault{apartForAWhile, ofRedis, livesOn, func(c *chaos) func() {
			killed := somePrimary(c)
			return c.swallow(apart(killed, without(redis.Nodes(), killed))...)
		}},
		&fault{"four partitions are moved, one after the other", ofRedis, 0, func(c *chaos) func() {
			for range 4 {
				key, to := fmt.Sprintf("redstalk:{%d}:", c.rng.IntN(16)), somePrimary(c)
				redis.Migrate(t, key, redis.Owner(t, key, to), to, nil)
			}
			return func() {}
		}},
	)
	return s
}

// setup is a way of running Redis.
type setup struct {
	url    string
	flags  []string      // for instances
	limit  time.Duration // how long they hold up commands
	tubes  int           // enough to be likely in all partitions
	faults []*fault      // that can happen to it
	whole  func()        // waits until it has fully recovered

	// switches, if not nil, returns how often a primary was replaced. Acknowledged changes are
	// safe only if that was done by faults with takesOver.
	switches func() int
}
