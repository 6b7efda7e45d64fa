package main

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"redstalk/storage/redis/redistest"
)

// fault is something that happens in a round.
type fault struct {
	name   string // as in docs/high-availability.md
	class  class
	traits traits
	begin  func(*chaos) (end func()) // end returns when nothing more is done
}

type traits int

const (
	livesOn   traits = 1 << iota // sentinels may replace a primary that continues, or comes back before they have
	aside                        // it is done to one instance, and may be felt at others
	takesOver                    // sentinels replace the primary, once
	prompt                       // the instance must continue in time; not on a machine too busy for that
)

// class says what a fault concerns. Two faults happen at once only if they are
// of different classes; they begin in the order of these. For then what was
// acknowledged is safe:
//
//   - Whatever happens to instances, and to connections to and from them, cannot
//     lose anything, and two are always left.
//   - Of the servers of Redis only one at a time is killed, frozen, cut off from
//     the others or moved from, and all must be whole again before the next
//     round. With two, the primary and the only replica that has confirmed a
//     change could be gone; or a slot's keys, which are not waited for, on a node
//     that is new to them. All have an append-only file, so those that are
//     restarted at once come back with what they had.
//   - A sentinel that is killed leaves two of three, which can decide. A
//     script that is forgotten is sent again.
//
// What Sentinel chooses after its primary is killed is the replica that has
// most, as far as it knows. Where one of two is to confirm, that is not sure to
// be the one that did, but both are told at the same time. See also
// chaosSentinelOne.
type class int

const (
	ofLinks     class = iota // connections of instances to Redis; first, as long as all know the primary
	ofRedis                  // its servers, and what they do to their connections
	ofInstances              // and connections to them
	ofOthers                 // all else, which clients are not to notice
)

// longestFault limits how long something is frozen or cut off: long enough that
// others declare the instance dead, and decide about Redis.
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

// someInstance draws one.
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
	<-in.ended
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

// moments tells pieces of the traffic in which it is cut. The last is for what
// comes behind an answer and belongs to it, nil if nothing does.
type moments struct{ request, answer, rest func([]byte) bool }

// always is for cuts in any piece of the traffic.
func always([]byte) bool { return true }

// cuts breaks connections through a proxy, one time each, in an order that is
// drawn: all of them between two pieces, with and without a word; before the next
// request or answer; behind the request; and behind the answer, or as late
// suffers something else. Whatever has a rest is cut before that, too.
func (c *chaos) cuts(part *redistest.Part, at moments, late redistest.Fate) func() {
	blows := []func(){
		part.Break,
		part.Reset,
		func() { part.Judge(once(redistest.Cut, at.request), nil) },
		func() { part.Judge(once(redistest.Last, at.request), nil) },
		func() { part.Judge(nil, once(redistest.Cut, at.answer)) },
		func() { part.Judge(nil, once(late, at.answer)) },
	}
	if at.rest != nil {
		blows = append(blows, func() { part.Judge(nil, once(redistest.Cut, at.rest)) })
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

// pauses draws so many, between blows.
func (c *chaos) pauses(n int) []time.Duration {
	pauses := make([]time.Duration, n)
	for i := range pauses {
		pauses[i] = c.upTo(500 * time.Millisecond)
	}
	return pauses
}

// once returns a judge that has the next piece that matches suffer a fate.
func once(fate redistest.Fate, matches func([]byte) bool) redistest.Judge {
	var seen atomic.Bool
	return func(piece []byte) redistest.Fate {
		if matches(piece) && seen.CompareAndSwap(false, true) {
			return fate
		}
		return redistest.Pass
	}
}

// swallow makes black holes of proxies for a while.
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

// servers are those of Redis to which something may happen: all, for what
// happens to all, and one, for what happens to one that has jobs.
type servers struct {
	all func() []*redistest.Server
	one func(*chaos) *redistest.Server
}

// faults are those that every way of running Redis has.
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
			victim := s.one(c)
			victim.Kill()
			return func() { c.restart(victim) }
		}},
	)
}

// linkFaults happen to the connections of one instance to one primary, all
// others see nothing of it.
func (s servers) linkFaults() []*fault {
	return []*fault{
		// An instance that is cut off so briefly has no excuse, unless Redis is held up
		// at the same time: both together may keep its heartbeats away for too long.
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

// cutOff has packets between an instance and these servers swallowed for a while.
func (c *chaos) cutOff(from []*redistest.Server) func() {
	in := c.someInstance()
	var parts []*redistest.Part
	for _, server := range from {
		parts = append(parts, server.Front.Of(in.pid()))
	}
	return during(c.done.begin(in.addr, "instance cut off from Redis"), c.swallow(parts...))
}

// apart returns what goes between one server and others, sentinels among them,
// in either direction.
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

// tell has servers carry out a command, those that can.
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
func (c *chaos) killed(victim *redistest.Server) func() {
	pause := c.upTo(3 * time.Second)
	victim.Kill()
	return func() {
		<-time.After(pause)
		c.restart(victim)
	}
}
