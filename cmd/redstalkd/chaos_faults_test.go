package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"redstalk/storage/redis/redistest"
)

// fault is something that happens in a round.
type fault struct {
	name    string
	class   class
	livesOn bool                      // sentinels may replace a primary that goes on, or comes back before they have
	begin   func(*chaos) (end func()) // end returns when nothing more is done
}

// class says what a fault concerns. Two faults happen at once only if they are
// of different classes. For then what was acknowledged is safe:
//
//   - Whatever happens to instances, and to connections to them, cannot lose
//     anything, and two are always left.
//   - Of the servers of Redis only one at a time is killed, frozen or moved
//     from, and all must be whole again before the next round. With two, the
//     primary and the only replica that has confirmed a change could be gone;
//     or a slot's keys, which are not waited for, on a node that is new to them.
//     All have an append-only file, so those that are restarted at once come
//     back with what they had.
//   - A sentinel that is killed leaves two of three, who can decide; and a
//     script that is forgotten is sent again.
//
// What Sentinel chooses after its primary is killed is the replica that has
// most, as far as it knows. Where one of two is to confirm, that is not sure to
// be the one that did, but both are told at the same time. See also
// chaosSentinelOne.
type class int

const (
	ofRedis     class = iota // its servers, and what they do to their connections
	ofInstances              // and connections to them
	ofOthers                 // all else, which nobody is to notice
)

// longestFault bounds how long something is frozen or cut off: long enough that
// others give up the instance, and decide about Redis.
func longestFault() time.Duration {
	if *haLong {
		return 6 * time.Second
	}
	return 1500 * time.Millisecond
}

// upTo draws a time from 200 ms to that.
func (c *chaos) upTo(most time.Duration) time.Duration {
	const least = 200 * time.Millisecond
	return least + time.Duration(c.rng.Int64N(int64(min(most, longestFault())-least)))
}

// pauses draws those between blows.
func (c *chaos) pauses() []time.Duration {
	pauses := make([]time.Duration, 5)
	for i := range pauses {
		pauses[i] = c.upTo(500 * time.Millisecond)
	}
	return pauses
}

// someInstance draws one.
func (c *chaos) someInstance() *chaosInstance { return c.instances[c.rng.IntN(len(c.instances))] }

var instanceFaults = []*fault{
	{"instance killed, another one started", ofInstances, false, killInstance},
	{"instance frozen", ofInstances, false, freezeInstance},
	{"connections of clients cut", ofInstances, false, func(c *chaos) func() {
		in := c.instances[instances-1]
		return during(c.done.begin(in.addr, "cut off from clients"), c.cuts(in.front, always, always, redistest.Last))
	}},
	{"clients' packets swallowed", ofInstances, false, func(c *chaos) func() {
		in := c.instances[instances-1]
		return during(c.done.begin(in.addr, "cut off from clients"), c.swallow(in.front))
	}},
}

func killInstance(c *chaos) func() {
	in, pause := c.someInstance(), c.upTo(time.Second)
	over := c.done.begin(in.addr, "instance killed")
	in.signal(c.t, syscall.SIGKILL)
	<-in.ended
	return func() {
		<-time.After(pause)
		c.launch(in)
		over()
	}
}

func freezeInstance(c *chaos) func() {
	in, enough := c.someInstance(), c.upTo(longestFault())
	over := c.done.begin(in.addr, "instance frozen")
	in.signal(c.t, syscall.SIGSTOP)
	return inTime(enough, func() {
		in.signal(c.t, syscall.SIGCONT)
		over()
	})
}

// inTime has something done after a time, and returns what waits for that.
func inTime(after time.Duration, do func()) (wait func()) {
	done := make(chan struct{})
	time.AfterFunc(after, func() {
		defer close(done)
		do()
	})
	return func() { <-done }
}

// during has a note ended behind a fault.
func during(over, end func()) func() {
	return func() {
		end()
		over()
	}
}

// always is for cuts in any piece of the traffic.
func always([]byte) bool { return true }

// cuts breaks the connections through a proxy five times, in an order that is
// drawn: all of them between two pieces; in the next request or answer that
// matches; behind the request; and behind the answer, or as late suffers
// something else.
func (c *chaos) cuts(p *redistest.Proxy, request, answer func([]byte) bool, late redistest.Fate) func() {
	blows := []func(){
		p.Break,
		func() { p.Judge(once(redistest.Cut, request), nil) },
		func() { p.Judge(once(redistest.Last, request), nil) },
		func() { p.Judge(nil, once(redistest.Cut, answer)) },
		func() { p.Judge(nil, once(late, answer)) },
	}
	pauses, order := c.pauses(), c.rng.Perm(len(blows))
	return func() {
		for i, pause := range pauses {
			blows[order[i]]()
			<-time.After(pause)
		}
		p.Judge(nil, nil)
	}
}

// once returns a judge that has the next piece that matches suffer a fate.
func once(fate redistest.Fate, matches func([]byte) bool) func([]byte) redistest.Fate {
	var seen atomic.Bool
	return func(piece []byte) redistest.Fate {
		if matches(piece) && seen.CompareAndSwap(false, true) {
			return fate
		}
		return redistest.Pass
	}
}

// swallow makes a black hole of a proxy for a while.
func (c *chaos) swallow(p *redistest.Proxy) func() {
	p.Swallow(true)
	return inTime(c.upTo(longestFault()), func() { p.Swallow(false) })
}

// servers are those of Redis to which something may happen: all, for what
// happens to all, and one, for what happens to one that has jobs.
type servers struct {
	all func() []*redistest.Server
	one func(*chaos) *redistest.Server
}

// faults are those that every way of running Redis has.
func (s servers) faults() []*fault {
	return []*fault{
		{"SCRIPT FLUSH", ofOthers, false, func(c *chaos) func() {
			c.tell(s.all(), "script", "flush")
			return func() {}
		}},
		{"CLIENT KILL of all connections, five times", ofRedis, true, func(c *chaos) func() {
			pauses := c.pauses()
			return func() {
				for _, pause := range pauses {
					c.tell(s.all(), "client", "kill", "type", "normal")
					<-time.After(pause)
				}
			}
		}},
		{"CLIENT PAUSE", ofRedis, true, func(c *chaos) func() {
			pause := c.upTo(3 * time.Second)
			c.tell([]*redistest.Server{s.one(c)}, "client", "pause", pause.Milliseconds(), "all")
			return inTime(pause, func() {})
		}},
		{"primary frozen", ofRedis, true, func(c *chaos) func() { return c.freeze(s.one(c)) }},
		{"primary killed and restarted at once", ofRedis, true, func(c *chaos) func() {
			victim := s.one(c)
			victim.Kill()
			return func() { c.restart(victim) }
		}},
	}
}

// freeze stops a server for a while.
func (c *chaos) freeze(server *redistest.Server) func() {
	server.Stop()
	return inTime(c.upTo(longestFault()), server.Continue)
}

func (c *chaos) restart(server *redistest.Server) {
	c.t.Helper()
	if err := server.Restart(); err != nil {
		c.t.Fatal(err)
	}
}

// tell has servers carry out a command, those that can.
func (c *chaos) tell(to []*redistest.Server, words ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range to {
		client := server.Client(c.t)
		if err := client.Do(ctx, words...).Err(); err != nil {
			c.t.Logf("%v: %v", words, err)
		}
		client.Close()
	}
}

// killed kills a server, and restarts it later.
func (c *chaos) killed(victim *redistest.Server) func() {
	pause := c.upTo(3 * time.Second)
	victim.Kill()
	return func() {
		<-time.After(pause)
		c.restart(victim)
	}
}

// onDisk has a server write everything to disk before it answers.
var onDisk = []string{"--appendonly", "yes", "--appendfsync", "always"}

// chaosRedis is one Redis. Two instances talk to it through a proxy each.
func chaosRedis(t *testing.T) *setup {
	redis := redistest.Start(t, onDisk...)
	its := servers{
		all: func() []*redistest.Server { return []*redistest.Server{redis} },
		one: func(*chaos) *redistest.Server { return redis },
	}
	cut, swallowing := redistest.NewProxy(t, redis), redistest.NewProxy(t, redis)
	s := &setup{url: redis.URL(), limit: 5 * time.Second, tubes: 1, whole: func() {}}
	s.urls[0], s.urls[1] = cut.URL(), swallowing.URL()
	s.faults = append(its.faults(),
		&fault{"primary killed and restarted later", ofRedis, false, func(c *chaos) func() { return c.killed(redis) }},
		// An instance that is cut off so briefly has no excuse.
		&fault{"connections of an instance to Redis cut", ofRedis, false, func(c *chaos) func() { return c.cuts(cut, isCall, isAnswer, redistest.Drop) }},
		&fault{"an instance's packets to Redis swallowed", ofRedis, false, func(c *chaos) func() {
			return during(c.done.begin(c.instances[1].addr, "instance cut off from Redis"), c.swallow(swallowing))
		}},
	)
	return s
}

// isCall tells calls of the script from other requests.
func isCall(piece []byte) bool { return len(piece) > 60 }

// isAnswer tells answers of the script, which are lists, from the empty ones that
// looks into the mailbox get.
func isAnswer(piece []byte) bool { return len(piece) > 1 && piece[0] == '*' && piece[1] != '-' }

// chaosSentinel is a primary with two replicas, and three sentinels; every answer
// waits for both replicas.
func chaosSentinel(t *testing.T) *setup {
	redis := redistest.StartSentinels(t, 2, onDisk...)
	return sentinelSetup(t, redis, 2)
}

// chaosSentinelOne is the same, but answers wait for one of the replicas. Then a
// primary that goes on while another one is chosen, and the replica that does
// not know of that yet, can acknowledge what is thrown away when they do. So
// whatever happens to a primary here, it is dead before and after.
func chaosSentinelOne(t *testing.T) *setup {
	redis := redistest.StartSentinels(t, 2, onDisk...)
	s := sentinelSetup(t, redis, 1)
	s.faults = slices.DeleteFunc(s.faults, func(f *fault) bool { return f.livesOn })
	return s
}

func sentinelSetup(t *testing.T, redis *redistest.Sentinels, replicas int) *setup {
	its := servers{
		all: func() []*redistest.Server { return redis.Servers },
		one: func(*chaos) *redistest.Server { return redis.AwaitWhole(t) },
	}
	replica := func(c *chaos) *redistest.Server {
		primary, at := redis.AwaitWhole(t), c.rng.IntN(len(redis.Servers)-1)
		if redis.Servers[at] == primary {
			at++
		}
		return redis.Servers[at]
	}
	s := &setup{
		url: redis.URL(), flags: []string{"--wait-replicas", fmt.Sprint(replicas)}, limit: 5 * time.Second, tubes: 1,
		whole: func() { redis.AwaitWhole(t) },
	}
	s.faults = append(its.faults(),
		&fault{"primary killed, restarted after the failover", ofRedis, false, func(c *chaos) func() {
			victim := its.one(c)
			victim.Kill()
			return func() {
				redis.AwaitFollowed(t, redis.AwaitPrimary(t, victim))
				c.restart(victim)
			}
		}},
		&fault{"replica killed and restarted", ofRedis, false, func(c *chaos) func() { return c.killed(replica(c)) }},
		&fault{"replica frozen", ofRedis, false, func(c *chaos) func() { return c.freeze(replica(c)) }},
		&fault{"sentinel killed and restarted", ofOthers, false, func(c *chaos) func() {
			return c.killed(redis.Sentinels[c.rng.IntN(len(redis.Sentinels))])
		}},
		&fault{"SENTINEL FAILOVER", ofRedis, true, func(c *chaos) func() {
			old := its.one(c)
			redis.FailOver(t)
			return func() { redis.AwaitPrimary(t, old) }
		}},
	)
	return s
}

// chaosCluster is three primaries with a replica each.
func chaosCluster(t *testing.T) *setup {
	redis := redistest.StartCluster(t, 3, 1, onDisk...)
	somePrimary := func(c *chaos) *redistest.Server {
		primaries, _ := redis.Now(t)
		return primaries[c.rng.IntN(len(primaries))]
	}
	someReplica := func(c *chaos) *redistest.Server {
		_, replicas := redis.Now(t)
		return replicas[c.rng.IntN(len(replicas))]
	}
	its := servers{all: redis.Nodes, one: somePrimary}
	s := &setup{
		url: redis.URL(), flags: []string{"--wait-replicas", "1"}, limit: 8 * time.Second, tubes: 32,
		whole: func() { redis.AwaitWhole(t) },
	}
	s.faults = append(its.faults(),
		&fault{"primary killed, restarted after the failover", ofRedis, false, func(c *chaos) func() {
			victim := somePrimary(c)
			victim.Kill()
			return func() {
				redis.AwaitReplaced(t, victim)
				c.restart(victim)
			}
		}},
		&fault{"replica killed and restarted", ofRedis, false, func(c *chaos) func() { return c.killed(someReplica(c)) }},
		&fault{"replica frozen", ofRedis, false, func(c *chaos) func() { return c.freeze(someReplica(c)) }},
		&fault{"four partitions moved", ofRedis, false, func(c *chaos) func() {
			for range 4 {
				key, to := fmt.Sprintf("redstalk:{%d}:", c.rng.IntN(16)), somePrimary(c)
				redis.Migrate(t, key, redis.Owner(t, key, to), to, nil)
			}
			return func() {}
		}},
		&fault{"CLUSTER FAILOVER", ofRedis, false, func(c *chaos) func() {
			replica := someReplica(c)
			return func() { redis.FailOver(t, replica) }
		}},
	)
	return s
}
