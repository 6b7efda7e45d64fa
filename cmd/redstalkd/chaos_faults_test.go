package main

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"redstalk/tools/redistest"
)

// fault is a fault to be injected in a round.
type fault struct {
	name   string // as in docs/high-availability.md
	class  class
	traits traits
	begin  func(*chaos) (end func()) // end returns when the fault is over
}

type traits int

const (
	livesOn   traits = 1 << iota // sentinels may replace a primary that continues, or comes back before they have
	aside                        // it concerns one instance, and can affect others
	takesOver                    // sentinels replace the primary, once
	prompt                       // the instance must recover in time; not drawn on a busy machine
)

// class is what a fault concerns. Two faults happen together only if they have
// different classes; they begin in the order of the classes. Under this rule
// acknowledged changes are safe:
//
//   - Faults of instances, and of connections to and from them, cannot
//     lose anything, and two instances are always left.
//   - Only one Redis server at a time is killed, frozen, cut off from
//     the others or moved from, and all must have recovered before the next
//     round. With two, the primary and the only replica that has confirmed a
//     change could be gone; or a slot's keys, which are not waited for, on a node
//     that is new to them. All have an append-only file, so those that are
//     restarted at once still have their data.
//   - A killed sentinel leaves two of three, which can decide. A
//     script that Redis has lost is sent again.
//
// After a primary is killed, Sentinel chooses the replica with the most data, as far as
// it knows. If one of two replicas has to confirm, it is not certain that Sentinel chooses
// that one, but both are sent the data at the same time. See also
// chaosSentinelOne.
type class int

const (
	ofLinks     class = iota // connections of instances to Redis; first, as long as all know the primary
	ofRedis                  // its servers, and what they do to their connections
	ofInstances              // and connections to them
	ofOthers                 // everything else, which clients must not notice
)

// longestFault limits how long something is frozen or cut off: long enough that
// others declare the instance dead, and decide about Redis.
func longestFault() time.Duration {
	if *haLong {
		return 6 * time.Second
	}
	return 1500 * time.Millisecond
}

// upTo draws a duration from 200 ms to most.
func (c *chaos) upTo(most time.Duration) time.Duration {
	const least = 200 * time.Millisecond
	return least + time.Duration(c.rng.Int64N(int64(min(most, longestFault())-least)))
}

// someInstance draws an instance.
func (c *chaos) someInstance() *chaosInstance { return c.instances[c.rng.IntN(len(c.instances))] }

var instanceFaults = []*fault{
	{"an instance is killed, another one started 0.2 to 1 s later", ofInstances, 0, killInstance},
	{"an instance is frozen", ofInstances, aside, freezeInstance},
	{"connections of clients are cut, before, in and behind requests and answers", ofInstances, 0, func(c *chaos) func() {
		in := c.instances[instances-1]
		return during(c.done.begin(in.addr, "cut off from clients"), c.cuts(in.front.Whole(), moments{always, always, nil}, redistest.Last))
	}},
	{"packets of clients are swallowed", ofInstances, aside, func(c *chaos) func() {
		in := c.instances[instances-1]
		return during(c.done.begin(in.addr, "cut off from clients"), c.swallow(in.front.Whole()))
	}},
}

func killInstance(c *chaos) func() {
	in, pause := c.someInstance(), c.upTo(time.Second)
	over := c.done.begin(in.addr, "instance killed")
	in.signal(c.t, syscall.SIGKILL)
	<-in.Ended
	return func() {
		<-time.After(pause)
		c.launch(in)
		over()
	}
}

func freezeInstance(c *chaos) func() {
	in := c.someInstance()
	enough := c.upTo(longestFault())
	if c.rng.IntN(2) == 0 { // so long that others declare it dead
		enough = enough*2/3 + longestFault()
	}
	over := c.done.begin(in.addr, "instance frozen")
	in.freeze(c.t)
	return inTime(enough, func() {
		in.signal(c.t, syscall.SIGCONT)
		over()
	})
}

// inTime calls do after some time, and returns a function that waits for it.
func inTime(after time.Duration, do func()) (wait func()) {
	done := make(chan struct{})
	time.AfterFunc(after, func() {
		defer close(done)
		do()
	})
	return func() { <-done }
}

// during returns a function that ends a fault and then its entry in the history.
func during(over, end func()) func() {
	return func() {
		end()
		over()
	}
}

// moments match pieces of the traffic where it is cut. rest is for a piece after
// an answer that belongs to it; nil if there is none.
type moments struct{ request, answer, rest func([]byte) bool }

// always is for cuts in any piece of the traffic.
func always([]byte) bool { return true }

// cuts breaks connections through a proxy once at each moment, in random
// order: all of them between two pieces, with a reset or silently; before the next
// request or answer; after the request; and after the answer, unless late
// is another fate. Before the rest of an answer it cuts, too.
func (c *chaos) cuts(part *redistest.Part, at moments, late redistest.Fate) func() {
	blows := []func(){
		part.Break,
		part.Reset,
		func() { part.Intercept(once(redistest.Cut, at.request), nil) },
		func() { part.Intercept(once(redistest.Last, at.request), nil) },
		func() { part.Intercept(nil, once(redistest.Cut, at.answer)) },
		func() { part.Intercept(nil, once(late, at.answer)) },
	}
	if at.rest != nil {
		blows = append(blows, func() { part.Intercept(nil, once(redistest.Cut, at.rest)) })
	}
	pauses, order := c.pauses(len(blows)), c.rng.Perm(len(blows))
	return func() {
		for i, pause := range pauses {
			blows[order[i]]()
			<-time.After(pause)
		}
		part.End()
	}
}

// pauses draws n pauses between cuts.
func (c *chaos) pauses(n int) []time.Duration {
	pauses := make([]time.Duration, n)
	for i := range pauses {
		pauses[i] = c.upTo(500 * time.Millisecond)
	}
	return pauses
}

// once returns a function that gives the next matching piece a fate.
func once(fate redistest.Fate, matches func([]byte) bool) redistest.Interceptor {
	var seen atomic.Bool
	return func(piece []byte) redistest.Fate {
		if matches(piece) && seen.CompareAndSwap(false, true) {
			return fate
		}
		return redistest.Pass
	}
}

// swallow makes proxies drop all traffic for a while.
func (c *chaos) swallow(parts ...*redistest.Part) func() {
	for _, part := range parts {
		part.Swallow(true)
	}
	return inTime(c.upTo(longestFault()), func() { heal(parts) })
}

func heal(parts []*redistest.Part) {
	for _, part := range parts {
		part.Swallow(false)
		part.End()
	}
}

// servers are the Redis servers for faults: all of them, and one with
// jobs.
type servers struct {
	all func() []*redistest.Server
	one func(*chaos) *redistest.Server
}

// faults returns the faults for every way of running Redis.
func (s servers) faults() []*fault {
	return append(s.linkFaults(),
		&fault{"`SCRIPT FLUSH`", ofOthers, 0, func(c *chaos) func() {
			c.sendAll(s.all(), "script", "flush")
			return func() {}
		}},
		&fault{"`CLIENT KILL` of all connections, five times", ofRedis, livesOn, func(c *chaos) func() {
			pauses := c.pauses(5)
			return func() {
				for _, pause := range pauses {
					c.sendAll(s.all(), "client", "kill", "type", "normal")
					<-time.After(pause)
				}
			}
		}},
		&fault{"`CLIENT PAUSE` of a primary for 0.2 to 3 s", ofRedis, livesOn, func(c *chaos) func() {
			pause := c.upTo(3 * time.Second)
			c.sendAll([]*redistest.Server{s.one(c)}, "client", "pause", pause.Milliseconds(), "all")
			return inTime(pause, func() {})
		}},
		&fault{"a primary is frozen", ofRedis, livesOn, func(c *chaos) func() { return c.freeze(s.one(c)) }},
		&fault{"a primary is killed and restarted at once", ofRedis, livesOn, func(c *chaos) func() {
			killed := s.one(c)
			killed.Kill()
			return func() { c.restart(killed) }
		}},
	)
}

// linkFaults returns the faults of the connections from one instance to one primary. They do
// not affect others.
func (s servers) linkFaults() []*fault {
	return []*fault{
		// An instance that is cut off so briefly has no excuse, unless Redis is blocked
		// at the same time: both together can delay its heartbeats too much.
		{"connections of an instance to a primary are cut, likewise; once an answer is lost without a word", ofLinks, prompt, func(c *chaos) func() {
			in := c.someInstance()
			part := s.one(c).Front.Of(in.pid())
			end := c.cuts(part, moments{isCall, isAnswer, isConfirmation}, redistest.Drop)
			if c.hasFault(ofRedis) {
				return during(c.done.begin(in.addr, "instance cut off from Redis, and Redis held up"), end)
			}
			return end
		}},
		{"packets between an instance and a primary are swallowed", ofLinks, aside, func(c *chaos) func() {
			return c.cutOff([]*redistest.Server{s.one(c)})
		}},
	}
}

// cutOff drops packets between an instance and these servers for a while.
func (c *chaos) cutOff(from []*redistest.Server) func() {
	in := c.someInstance()
	var parts []*redistest.Part
	for _, server := range from {
		parts = append(parts, server.Front.Of(in.pid()))
	}
	return during(c.done.begin(in.addr, "instance cut off from Redis"), c.swallow(parts...))
}

// apart returns the connections between one server and others, including sentinels,
// in both directions.
func apart(one *redistest.Server, others []*redistest.Server) (parts []*redistest.Part) {
	var pids []int
	for _, other := range others {
		pids = append(pids, other.Pid())
		for _, before := range other.Proxies() {
			parts = append(parts, before.Of(one.Pid()))
		}
	}
	for _, before := range one.Proxies() {
		parts = append(parts, before.Of(pids...))
	}
	return parts
}

// without returns all servers but one.
func without(all []*redistest.Server, one *redistest.Server) []*redistest.Server {
	return slices.DeleteFunc(slices.Clone(all), func(s *redistest.Server) bool { return s == one })
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

// sendAll sends a command to servers, and ignores those that fail.
func (c *chaos) sendAll(to []*redistest.Server, words ...any) {
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
func (c *chaos) killed(killed *redistest.Server) func() {
	pause := c.upTo(3 * time.Second)
	killed.Kill()
	return func() {
		<-time.After(pause)
		c.restart(killed)
	}
}
