package redis

import (
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

// TestCountHeldOnFrozenRedis: while a call waits for Redis it is not known how many jobs connections
// hold, and who asks does not wait for the end of the call.
func TestCountHeldOnFrozenRedis(t *testing.T) {
	redis := redistest.Start(t)
	s := openAt(t, redis.URL(), patient)
	do(s, put("x"))
	do(s, take(1))
	if counts, ok := s.CountHeld([]tube.Holder{2, 1}); !ok || counts[0] != 0 || counts[1] != 1 {
		t.Errorf("%v, %v", counts, ok)
	}
	redis.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		storage.DoWait(s, []storage.Op{put("y")})
	}()
	for ok, began := true, time.Now(); ok; {
		if _, ok = s.CountHeld([]tube.Holder{1}); time.Since(began) > patient/2 {
			t.Fatal("it has waited for the call")
		}
	}
	redis.Continue()
	<-done
	for ok, began := false, time.Now(); !ok; {
		if _, ok = s.CountHeld([]tube.Holder{1}); time.Since(began) > patient {
			t.Fatal("it is not known any more")
		}
	}
}
