package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/server/queue"
)

// TestDueAtTheLimit: a job that a client has made due in a second is always delivered to a
// reserve-with-timeout 1 that it sends after that.
func TestDueAtTheLimit(t *testing.T) {
	t.Parallel()
	clients := 50 * *rare
	onEngines(t, func(t *testing.T, store func() []string) {
		_, addr := serve(t, append(store(), "-p0")...)
		var all sync.WaitGroup
		var missed sync.Map
		for i := range clients {
			c, holder := dial(t, addr), dial(t, addr)
			name := fmt.Sprint("t", i)
			c.ask(fmt.Sprintf("use %s\r\nwatch %s\r\nignore default\r\n", name, name), "USING "+name, "WATCHING 2", "WATCHING 1")
			holder.ask(fmt.Sprintf("watch %s\r\nignore default\r\n", name), "WATCHING 2", "WATCHING 1")
			all.Go(func() {
				for round := range 4 {
					c.make1Due(round, name, holder)
					time.Sleep(time.Duration(i%4) * time.Millisecond)
					began := time.Now()
					line := c.reserveLine("reserve-with-timeout 1")
					if line == "TIMED_OUT" && time.Since(began) < time.Second+queue.TickPatience { // later, the store was too slow to be waited for
						missed.Store(fmt.Sprintf("client %d, round %d", i, round), true)
						return
					}
				}
			})
		}
		all.Wait()
		missed.Range(func(who, _ any) bool { t.Errorf("%s: TIMED_OUT", who); return true })
	})
}

// make1Due makes a job of this client's tube ready in a second: by its delay, a
// release, a pause, or the end of the holder's TTR.
func (c *client) make1Due(way int, tube string, holder *client) {
	switch way {
	case 0:
		c.send("put 0 1 60 1\r\nx\r\n")
		c.line()
	case 1:
		id := c.putAndReserve(c, 60)
		c.ask("release "+id+" 0 1\r\n", "RELEASED")
	case 2:
		c.send("put 0 0 60 1\r\nx\r\n")
		c.line()
		c.ask("pause-tube "+tube+" 1\r\n", "PAUSED")
	case 3:
		c.putAndReserve(holder, 1)
	}
}

// putAndReserve puts a job, reserves it with holder, and returns its id.
func (c *client) putAndReserve(holder *client, ttr int) (id string) {
	c.send(fmt.Sprintf("put 0 0 %d 1\r\nx\r\n", ttr))
	id = strings.TrimPrefix(c.line(), "INSERTED ")
	holder.send("reserve\r\n")
	holder.line()
	holder.line()
	return id
}

// reserveLine reserves, returns the reply, and deletes the job if it is one.
func (c *client) reserveLine(command string) string {
	c.send(command + "\r\n")
	line := c.line()
	if fields := strings.Fields(line); fields[0] == "RESERVED" {
		c.line()
		c.ask("delete "+fields[1]+"\r\n", "DELETED")
	}
	return line
}

// TestManyWatchedTubesGo: all tubes that a connection has watched are gone after its
// end, though it stops watching them a part at a time.
func TestManyWatchedTubesGo(t *testing.T) {
	t.Parallel()
	const n = 2500
	onEngines(t, func(t *testing.T, store func() []string) {
		_, addr := serve(t, append(store(), "-p0")...)
		c, other := dial(t, addr), dial(t, addr)
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "watch t%d\r\n", i)
		}
		go c.sendAside(text.String())
		for range n {
			c.line()
		}
		other.awaitFigure("stats", "current-tubes", fmt.Sprint(n+1))
		c.conn.Close()
		other.awaitFigure("stats", "current-tubes", "1")
	})
}
