package redis

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/tools/redistest"
)

// TestFirstBatchOnce: the first batch under a name is not repeated after the instance was
// declared dead, even if its record is gone by then: neither for a new instance nor for one
// that continues under another name.
func TestFirstBatchOnce(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*leaseSetTest, *Store){
		"first name": func(*leaseSetTest, *Store) {},
		"another name": func(lt *leaseSetTest, s *Store) {
			do(s, put("before"))
			lt.client.Del(t.Context(), "redstalk:{0}:batch:"+s.parts[0].instance.name())
			do(s, storage.Op{Kind: storage.Peek, ID: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			lt := newLeaseSetTest(t)
			proxy := redistest.NewProxy(t, lt.redis)
			s := lt.open(proxy.URL(), patient)
			before(lt, s)
			had := figures(t, lt.s).Jobs
			assumeAlive(lt.s)
			var cutOff, dropped atomic.Bool
			cutOff.Store(true)
			proxy.Intercept(nil, func(piece []byte) redistest.Fate {
				if cutOff.Load() && isAnswer(piece) {
					dropped.Store(true)
					return redistest.Drop
				}
				return redistest.Pass
			})
			answered := make(chan storage.Answer)
			go func() { answered <- do(s, put("once")) }()
			for !dropped.Load() {
				time.Sleep(time.Millisecond)
			}
			lt.ahead.Add(int64(10 * time.Second))
			lt.s.Tick()
			record := "redstalk:{0}:batch:" + s.parts[0].instance.name()
			for lt.client.Get(t.Context(), record).Val() != "dead" {
				lt.ahead.Add(int64(time.Second))
				lt.s.Tick()
			}
			lt.client.Del(t.Context(), record) // as after a day
			cutOff.Store(false)
			if a := <-answered; a.Err != nil && !errors.Is(a.Err, storage.ErrUnavailable) {
				t.Errorf("%+v", a)
			}
			if got := figures(t, lt.s).Jobs - had; got != 1 {
				t.Errorf("the job is there %d times", got)
			}
		})
	}
}

// TestNewNameIsKnown: what is taken under a new name is given back if the instance dies before
// its next heartbeat.
func TestNewNameIsKnown(t *testing.T) {
	lt := newLeaseSetTest(t)
	s := lt.open(lt.redis.URL(), patient)
	do(lt.s, put("x"))
	lt.client.Del(t.Context(), "redstalk:{0}:batch:"+s.parts[0].instance.name())
	if a := do(s, take(1)); a.ID != 1 {
		t.Fatalf("%+v", a)
	}
	s.crash()
	assumeAlive(lt.s)
	lt.ahead.Add(int64(10 * time.Second))
	lt.s.Tick()
	awaitReserved(t, lt.s, 0)
	if a := do(lt.s, take(2)); a.ID != 1 {
		t.Errorf("%+v", a)
	}
}

// TestLateRegistration: a registration that arrives after its instance was declared dead and
// forgotten does no harm, and a batch after it that was sent before is refused.
func TestLateRegistration(t *testing.T) {
	lt := newLeaseSetTest(t)
	p := lt.s.parts[0]
	p.do(func(*call) {
		was, number := p.instance.name(), p.instance.recorded
		late := "LATECOMR"
		p.instance.named.Store(&late)
		ask := func(kind callKind, number uint64, follows string) error {
			c := p.newCall()
			c.kind, c.number = kind, number
			p.instance.recorded = follows
			if kind == registration {
				c.add(func(r *reply) {}, "beat", maxMoves, "1", c.created, 0, 0)
			}
			return p.ask(c)
		}
		if err := ask(registration, 1, ""); err != nil {
			t.Errorf("a registration: %v", err)
		}
		if err := ask(question, 78, numberArg(77)); conn.CodeOf(err) != lua.Lost {
			t.Errorf("work that follows another batch: %v", err)
		}
		if err := ask(question, 79, ""); conn.CodeOf(err) != lua.Lost {
			t.Errorf("work that follows nothing: %v", err)
		}
		p.instance.named.Store(&was)
		p.instance.recorded = number
	})
	if a := do(lt.s, put("x")); a.ID != 1 {
		t.Errorf("%+v", a)
	}
}
