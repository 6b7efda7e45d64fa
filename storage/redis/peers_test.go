package redis

import (
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestHeldByOnFrozenRedis: while a call waits for Redis it is not known how many jobs connections
// hold, and who asks does not wait for the end of the call.
func TestHeldByOnFrozenRedis(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	do(s, put("x"))
	do(s, take(1))
	if held := s.HeldBy([]tube.Holder{2, 1}, 5); len(held) != 2 || held[0].Count != 0 || held[1].Count != 1 || len(held[1].First) != 1 {
		t.Errorf("%+v", held)
	}
	redis.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		storage.DoWait(s, []storage.Op{put("y")})
	}()
	for ok, began := true, time.Now(); ok; {
		if ok = s.HeldBy([]tube.Holder{1}, 5) != nil; time.Since(began) > patient/2 {
			t.Fatal("it has waited for the call")
		}
	}
	redis.Continue()
	<-done
	for ok, began := false, time.Now(); !ok; {
		if ok = s.HeldBy([]tube.Holder{1}, 5) != nil; time.Since(began) > patient {
			t.Fatal("it is not known any more")
		}
	}
}
