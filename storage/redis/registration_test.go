package redis

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
)

// TestFirstBatchOnce: the first work under a name is not done again after the
// instance was declared dead, though its record is gone by then: neither when it has
// just begun nor when it goes on under another name.
func TestFirstBatchOnce(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*testbed, *Store){
		"first name": func(*testbed, *Store) {},
		"another name": func(lab *testbed, s *Store) {
			do(s, put("before"))
			lab.client.Del(t.Context(), "redstalk:{0}:batch:"+s.parts[0].instance.name())
			do(s, storage.Op{Kind: storage.Peek, ID: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			lab := newTestbed(t)
			proxy := redistest.NewProxy(t, lab.redis)
			s := lab.open(proxy.URL(), patient)
			before(lab, s)
			had := figures(t, lab.s).Jobs
			trusting(lab.s)
			var deaf, dropped atomic.Bool
			deaf.Store(true)
			proxy.Judge(nil, func(piece []byte) redistest.Fate {
				if deaf.Load() && isAnswer(piece) {
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
			lab.ahead.Add(int64(10 * time.Second))
			lab.s.Tick()
			record := "redstalk:{0}:batch:" + s.parts[0].instance.name()
			for lab.client.Get(t.Context(), record).Val() != "dead" {
				lab.ahead.Add(int64(time.Second))
				lab.s.Tick()
			}
			lab.client.Del(t.Context(), record) // as after a day
			deaf.Store(false)
			if a := <-answered; a.Err != nil && !errors.Is(a.Err, storage.ErrUnavailable) {
				t.Errorf("%+v", a)
			}
			if got := figures(t, lab.s).Jobs - had; got != 1 {
				t.Errorf("the job is there %d times", got)
			}
		})
	}
}

// TestNewNameIsKnown: what is taken under another name is given back if the instance
// dies before its next heartbeat.
func TestNewNameIsKnown(t *testing.T) {
	lab := newTestbed(t)
	s := lab.open(lab.redis.URL(), patient)
	do(lab.s, put("x"))
	lab.client.Del(t.Context(), "redstalk:{0}:batch:"+s.parts[0].instance.name())
	if a := do(s, take(1)); a.ID != 1 {
		t.Fatalf("%+v", a)
	}
	s.crash()
	trusting(lab.s)
	lab.ahead.Add(int64(10 * time.Second))
	lab.s.Tick()
	awaitReserved(t, lab.s, 0)
	if a := do(lab.s, take(2)); a.ID != 1 {
		t.Errorf("%+v", a)
	}
}

// TestLateRegistration: a registration that comes after its instance was declared dead
// and forgotten does no harm, and work behind it is refused that was meant for before.
func TestLateRegistration(t *testing.T) {
	lab := newTestbed(t)
	p := lab.s.parts[0]
	p.do(func(*call) {
		was, number := p.instance.name(), p.instance.recorded
		late := "LATECOMR"
		p.instance.named.Store(&late)
		ask := func(kind callKind, number uint64, follows string) error {
			c := p.newCall()
			c.kind, c.number = kind, number
			p.instance.recorded = follows
			if kind == registration {
				c.add(func(r *reply) {}, "beat", int64(3000), maxMoves, "1", c.created)
			}
			return p.ask(c)
		}
		if err := ask(registration, 1, ""); err != nil {
			t.Errorf("a registration: %v", err)
		}
		if err := ask(question, 78, numberArg(77)); codeOf(err) != lost {
			t.Errorf("work that follows another batch: %v", err)
		}
		if err := ask(question, 79, ""); codeOf(err) != lost {
			t.Errorf("work that follows nothing: %v", err)
		}
		p.instance.named.Store(&was)
		p.instance.recorded = number
	})
	if a := do(lab.s, put("x")); a.ID != 1 {
		t.Errorf("%+v", a)
	}
}
