package redis

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage/redis/fsck"
	"redstalk/tools/redistest"
)

// briefWatch is fsck.Options.WatchFor where nobody lives whose heartbeats have to be waited for.
const briefWatch = 20 * time.Millisecond

// TestWatchedBeforehand: an instance that sends heartbeats is alive, and one that sends none is
// not, even if the clock of Redis has been set since: a namespace is not repaired in the first
// case, and is in the second.
func TestWatchedBeforehand(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	o := fsck.Options{URL: server.URL(), Namespace: "watched", WatchFor: briefWatch}
	if err := openWith(t, Options{URL: o.URL, Namespace: o.Namespace, Log: slog.New(slog.DiscardHandler)}).Close(); err != nil {
		t.Fatal(err)
	}
	const instances, day = "watched:{0}:instances", 24 * time.Hour
	gives := func(at time.Time) {
		if err := client.ZAdd(ctx, instances, goredis.Z{Score: float64(at.UnixMilli()), Member: "OTHER123"}).Err(); err != nil {
			t.Error(err)
		}
	}
	repair := func() error {
		_, err := fsck.Check(ctx, o, true, fsck.Report{Found: func(int, string) {}})
		return err
	}
	for _, by := range []time.Duration{-day, day} {
		at := time.Now().Add(by)
		gives(at)
		o.WatchFor = patient
		refused := make(chan error, 1)
		go func() { refused <- repair() }()
		alive := time.NewTicker(time.Millisecond)
		for waits := true; waits; {
			select {
			case <-alive.C:
				at = at.Add(time.Second)
				gives(at)
			case err := <-refused:
				if waits = false; !errors.Is(err, fsck.ErrInstances) {
					t.Errorf("a repair beside an instance that lives, the clock set by %v: %v", by, err)
				}
			}
		}
	}
	o.WatchFor = briefWatch
	gives(time.Now().Add(day))
	if err := repair(); err != nil {
		t.Errorf("a repair beside a dead instance: %v", err)
	}
}
