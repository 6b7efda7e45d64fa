package redis

import (
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/storage/redis/lua"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestLongCall: an instance stays alive while it sends or receives a large body over a slow
// line, however long that takes. The call is made once, and its connections keep what they
// hold.
func TestLongCall(t *testing.T) {
	t.Parallel()
	const size, long = 12 << 20, schema.HeartbeatTimeout + 2*time.Second // a piece of 1 MiB takes less than longestAttempt
	big := storage.Op{Kind: storage.Put, Tube: "big", TTR: 600, Body: make([]byte, size)}
	for name, op := range map[string]storage.Op{"put": big, "take": takeOf(1, "big")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			other := openAt(t, server.URL(), patient)
			if do(other, put("x")); op.Kind == storage.Take {
				do(other, big)
			}
			proxy := redistest.NewProxy(t, server)
			s := openAt(t, proxy.URL(), patient)
			held := do(s, take(1)).ID
			slowly := func(piece []byte) redistest.Fate {
				time.Sleep(long * time.Duration(len(piece)) / size)
				return redistest.Pass
			}
			proxy.Intercept(slowly, slowly)
			defer proxy.Intercept(nil, nil)
			assumeAlive(other)
			begun, done := time.Now(), make(chan storage.Answer, 1)
			go func() { done <- do(s, op) }()
			for answered := false; !answered; {
				select {
				case a := <-done:
					answered = true
					if a.Err != nil || a.NotFound {
						t.Errorf("%+v", a)
					}
				case <-time.After(100 * time.Millisecond):
					other.Tick()
				}
				if time.Since(begun) > 3*long {
					t.Fatal("it is not answered")
				}
			}
			if took := time.Since(begun); took < long {
				t.Errorf("the line is not slow: %v", took)
			}
			if a := do(s, move(tube.Delete, 1, held)); a.Err != nil || a.NotFound {
				t.Errorf("delete of what was reserved before: %+v", a)
			}
			if a := do(other, storage.Op{Kind: storage.TubeStats, Tube: "big"}); a.Err != nil || a.TubeStats.Total != 1 {
				t.Errorf("%+v", a)
			}
		})
	}
}

// TestKeepaliveOfTheDead: a keepalive of an instance that was declared dead, or that Redis does
// not know, changes nothing.
func TestKeepaliveOfTheDead(t *testing.T) {
	lt := newLeaseSetTest(t)
	ctx := t.Context()
	s := lt.open(lt.redis.URL(), patient)
	name := s.parts[0].instance.name()
	const instances = "redstalk:{0}:instances"
	was := lt.client.ZScore(ctx, instances, name).Val()
	lt.ahead.Add(int64(time.Second))
	if err := s.keepalives[0].send(ctx); err != nil {
		t.Fatal(err)
	}
	if score := lt.client.ZScore(ctx, instances, name).Val(); score < was+1000 {
		t.Errorf("the last heartbeat is %v later by the clock of Redis, want 1 s", score-was)
	}
	assumeAlive(lt.s)
	lt.ahead.Add(int64(10 * time.Second))
	lt.s.Tick()
	for _, what := range []string{"dead", "unknown"} {
		if err := s.keepalives[0].send(ctx); err == nil || conn.CodeOf(err) != lua.Lost {
			t.Errorf("%s: %v", what, err)
		}
		if n := lt.client.ZCard(ctx, instances).Val(); n != 1 {
			t.Errorf("%s: %d instances are known", what, n)
		}
		lt.client.Del(ctx, "redstalk:{0}:batch:"+name)
	}
}
