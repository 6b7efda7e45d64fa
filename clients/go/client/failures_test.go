package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
)

// A method is a call of the package, for tests that all of them end as they should.
type method struct {
	name    string
	changes bool // a lost answer leaves the outcome open
	call    func(ctx context.Context, c *client.Client, job *client.Job) error
}

// methods are all that talk to a server.
var methods = []method{
	{"Put", true, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, err := c.Put(ctx, "other", []byte("x"))
		return err
	}},
	{"Put with a key", true, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, err := c.Put(ctx, "other", []byte("x"), client.Key("k"), client.KeyTTL(time.Hour))
		return err
	}},
	{"PutMany", true, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, err := c.PutMany(ctx, []client.NewJob{{Tube: "other"}, {Tube: "methods"}})
		return err
	}},
	{"Delete", true, func(ctx context.Context, c *client.Client, _ *client.Job) error { return c.Delete(ctx, 99) }},
	{"DeleteKey", true, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		return c.DeleteKey(ctx, "other", "k")
	}},
	{"JobStats", false, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, err := c.JobStats(ctx, 1)
		return err
	}},
	{"Peek", false, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, err := c.Peek(ctx, 1)
		return err
	}},
	{"Find", false, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, _, err := c.Find(ctx, "t", "k")
		return err
	}},
	{"Exec", true, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		_, err := c.Exec(ctx, client.Command{Line: "kick 1", Tube: "other"})
		return err
	}},
	{"Reserve", false, func(ctx context.Context, c *client.Client, _ *client.Job) error {
		consumer := c.Consume("none")
		defer consumer.Close()
		_, err := consumer.Reserve(ctx, time.Minute)
		return err
	}},
	{"Job.Touch", true, func(ctx context.Context, _ *client.Client, job *client.Job) error { return job.Touch(ctx) }},
	{"Job.Release", true, func(ctx context.Context, _ *client.Client, job *client.Job) error { return job.Release(ctx, 0) }},
	{"Job.Bury", true, func(ctx context.Context, _ *client.Client, job *client.Job) error { return job.Bury(ctx) }},
	{"Job.Delete", true, func(ctx context.Context, _ *client.Client, job *client.Job) error { return job.Delete(ctx) }},
}

// patience is the context of calls in these tests, and slack how much longer they can take on a busy machine.
const (
	patience = 300 * time.Millisecond
	slack    = 3 * time.Second
)

// forEachMethod calls each method in a situation that is made after a job was reserved.
func forEachMethod(t *testing.T, spoil func(*testserver.Proxy), check func(t *testing.T, m method, err error)) {
	testserver.CheckLeaks(t)
	t.Parallel()
	on := testserver.Memory(t)
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			proxy := testserver.NewProxy(t, on.Addr())
			c := client.New(proxy.Addr, client.Connections(1))
			defer c.Close()
			mustPut(t, c, "methods", "x")
			consumer := c.Consume("methods")
			defer consumer.Close()
			job, err := consumer.Reserve(limited(t), 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			spoil(proxy)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			begin := time.Now()
			err = m.call(ctx, c, job)
			if d := time.Since(begin); d > patience+slack {
				t.Errorf("it took %v", d)
			}
			check(t, m, err)
		})
	}
}

// TestServerGone: without a server a call ends with its context, and has certainly done nothing.
func TestServerGone(t *testing.T) {
	gone := func(p *testserver.Proxy) {
		p.Shut(true)
		p.Cut()
		time.Sleep(50 * time.Millisecond) // the client has noticed
	}
	forEachMethod(t, gone, func(t *testing.T, m method, err error) {
		if wantErr(t, err, context.DeadlineExceeded); errors.Is(err, client.ErrUnknownOutcome) {
			t.Errorf("the outcome of a command that was not sent is unknown: %v", err)
		}
	})
}

// TestAnswerLost: if no answer comes, a call ends with its context, and a change has an unknown outcome.
func TestAnswerLost(t *testing.T) {
	mute := func(p *testserver.Proxy) { p.Mute(true) }
	forEachMethod(t, mute, func(t *testing.T, m method, err error) {
		if wantErr(t, err, context.DeadlineExceeded); errors.Is(err, client.ErrUnknownOutcome) != m.changes {
			t.Errorf("%v; want an unknown outcome: %t", err, m.changes)
		}
	})
}

// TestUnavailable: a call without a deadline gives up when no server is there for the client's wait.
func TestUnavailable(t *testing.T) {
	c := client.New("127.0.0.1:1", client.Wait(100*time.Millisecond))
	defer c.Close()
	_, err := c.Put(context.Background(), "a", nil)
	wantErr(t, err, client.ErrUnavailable)
}

func TestClosed(t *testing.T) {
	c := redstalktest.Run(t)
	mustPut(t, c, "a", "x")
	consumer := c.Consume("none")
	result := make(chan error)
	go func() {
		_, err := consumer.Reserve(context.Background(), time.Minute)
		result <- err
	}()
	time.Sleep(100 * time.Millisecond)
	c.Close()
	wantErr(t, <-result, client.ErrClosed)
	_, err := c.Put(context.Background(), "a", nil)
	wantErr(t, err, client.ErrClosed)
}

// TestRepeats: after a lost answer a put with a key is repeated and makes one job; one without is not.
func TestRepeats(t *testing.T) {
	on := testserver.Memory(t)
	proxy := testserver.NewProxy(t, on.Addr())
	c, direct := client.New(proxy.Addr, client.Connections(1), client.ReplyTimeout(100*time.Millisecond), client.DialTimeout(200*time.Millisecond)), client.New(on.Addr())
	defer c.Close()
	defer direct.Close()
	mustPut(t, c, "other", "connects")
	for i := range 5 {
		proxy.Mute(true)
		time.AfterFunc(50*time.Millisecond, func() { proxy.Mute(false) })
		r, err := c.Put(limited(t), "repeat", []byte("x"), client.Key(fmt.Sprint(i)), client.KeyTTL(time.Hour))
		if err != nil || r.State != "READY" { // the answer to the second put
			t.Errorf("%+v, %v", r, err)
		}
	}
	proxy.Mute(true)
	_, err := c.Put(limited(t), "repeat", []byte("x"))
	wantErr(t, err, client.ErrUnknownOutcome)
	reply, err := direct.Exec(limited(t), client.Command{Line: "flush-tube repeat"})
	if err != nil || reply.Args != "6" {
		t.Errorf("there were %s jobs, %v; want 6", reply.Args, err)
	}
}

// TestFailOver: when an instance is killed or frozen, calls go on at the other.
func TestFailOver(t *testing.T) {
	for name, hit := range map[string]func(testserver.Server){
		"killed": testserver.Server.Kill,
		"frozen": func(s testserver.Server) { s.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on := testserver.Redis(t)
			c := client.New(on.Addr(), client.ReplyTimeout(500*time.Millisecond), client.DialTimeout(500*time.Millisecond))
			defer c.Close()
			for i := range 100 {
				if i == 50 {
					hit(on.Servers[0])
				}
				mustPut(t, c, "jobs", "x", client.Key(fmt.Sprint(i)), client.KeyTTL(time.Hour))
			}
		})
	}
}

func TestAuth(t *testing.T) {
	c := client.New(testserver.Memory(t).Addr(), client.Auth("app", "secret"))
	defer c.Close()
	_, err := c.Put(limited(t), "a", nil)
	wantErr(t, err, client.ErrUnsupported) // the server has no users
}

// TestDrainingBehindOneAddress: an address can lead to several servers, as that of a service of Kubernetes. A put that a draining one
// refuses goes to another one over a new connection, with one address and with two, and on all connections of the client; if that
// drains as well, that is the error.
func TestDrainingBehindOneAddress(t *testing.T) {
	on := testserver.Redis(t)
	proxies := []*testserver.Proxy{testserver.NewProxy(t, on.Addrs[0]), testserver.NewProxy(t, on.Addrs[0])}
	drain := func(i int, command string) {
		one := client.New(on.Addrs[i])
		defer one.Close()
		if _, err := one.Exec(limited(t), client.Command{Line: command}); err != nil {
			t.Fatal(err)
		}
	}
	for _, addrs := range []string{proxies[0].Addr, proxies[0].Addr + "," + proxies[1].Addr} {
		c := client.New(addrs)
		defer c.Close()
		put := func() {
			_, errs := c.PutMany(limited(t), []client.NewJob{{Tube: "jobs"}, {Tube: "jobs"}})
			mustPut(t, c, "jobs", "x")
			if errs != nil {
				t.Error(errs)
			}
		}
		for i := range 4 { // more than there are addresses
			put()
			for _, p := range proxies {
				p.Lead(on.Addrs[1-i%2])
			}
			drain(i%2, "drain")
			put()
			drain(i%2, "undrain")
		}
		drain(0, "drain")
		drain(1, "drain")
		_, err := c.Put(limited(t), "jobs", nil)
		wantErr(t, err, client.ErrDraining)
		drain(0, "undrain")
		drain(1, "undrain")
		for _, p := range proxies {
			p.Lead(on.Addrs[0])
		}
	}
}

// TestDraining: a put that a draining server refuses goes to another server; if there is none, that is the error.
func TestDraining(t *testing.T) {
	testserver.CheckLeaks(t)
	on := testserver.Redis(t)
	c := client.New(on.Addr(), client.ReplyTimeout(time.Second))
	defer c.Close()
	drain := func(i int, command string) {
		one := client.New(on.Addrs[i])
		defer one.Close()
		if _, err := one.Exec(limited(t), client.Command{Line: command}); err != nil {
			t.Fatal(err)
		}
	}
	mustPut(t, c, "jobs", "x")
	drain(0, "drain")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for range 10 {
				mustPut(t, c, "jobs", "x")
			}
		})
	}
	wg.Wait()
	drain(1, "drain")
	begin := time.Now()
	_, err := c.Put(limited(t), "jobs", nil)
	if wantErr(t, err, client.ErrDraining); errors.Is(err, client.ErrUnknownOutcome) || time.Since(begin) > slack {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	drain(0, "undrain")
	drain(1, "undrain")
	mustPut(t, c, "jobs", "x")
	if s, err := c.Exec(limited(t), client.Command{Line: "stats-tube jobs"}); err != nil || !strings.Contains(string(s.Body), "current-jobs-ready: 102\n") {
		t.Errorf("%s, %v; want 102 jobs", s.Body, err)
	}
}
