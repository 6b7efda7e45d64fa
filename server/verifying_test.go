package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// failAuth gives wrong secrets until the next one is verified only after the longest delay.
func (g *accessHarness) failAuth() {
	g.Helper()
	for i := range 9 {
		c := g.connect()
		c.send(fmt.Sprint("auth app wrong", i))
		c.want("UNAUTHORIZED")
		c.close()
	}
}

// TestClosedWhileVerifying: a client that closes while its secret waits to be verified does
// not count as a connection until its turn comes, and none waits for longer than
// --auth-timeout.
func TestClosedWhileVerifying(t *testing.T) {
	t.Parallel()
	withUsers(t, user("app", "post", "put"), func(g *accessHarness) {
		g.failAuth()
		stays := g.connect()
		stays.send("auth app other")
		for i := range 20 {
			c := g.connectFor(10)
			c.send(fmt.Sprint("auth app guess", i))
			synctest.Wait()
			c.close()
		}
		time.Sleep(DefaultAuthTimeout / 2)
		if n := g.server.unauthenticated.Load(); n != 1 {
			t.Errorf("%d connections count that have not authenticated, want 1", n)
		}
		begun := time.Now()
		<-stays.ended
		if took := time.Since(begun); took > DefaultAuthTimeout {
			t.Errorf("a connection was verified for %v more", took)
		}
	})
}

// TestTooManyAttempts: an attempt that is refused for others that wait is not answered as a
// wrong secret would be, and does not count as one.
func TestTooManyAttempts(t *testing.T) {
	t.Parallel()
	withUsers(t, user("app", "post", "put"), func(g *accessHarness) {
		g.failAuth()
		for i := range 40 {
			g.connectFor(10).send(fmt.Sprint("auth app guess", i))
		}
		synctest.Wait()
		c := g.connect()
		for i := range 2 * maxAuthFailures {
			c.send(fmt.Sprint("auth app later", i))
			c.want("OUT_OF_MEMORY")
		}
	})
}
