package redis

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage/redis/redistest"
)

// briefWatch is watchFor where nobody lives whose heartbeats have to be waited for.
const briefWatch = 20 * time.Millisecond

// TestWatchedBeforehand: an instance that gives heartbeats lives, and one that gives none does
// not, though the clock of Redis has been set since: beside the first a namespace is neither
// repaired nor upgraded, beside the second it is.
func TestWatchedBeforehand(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	restoreOlder(t, client)
	o := Options{URL: server.URL(), Namespace: "older1", watchFor: briefWatch, Log: slog.New(slog.DiscardHandler)}
	const instances, day = "older1:{0}:instances", 24 * time.Hour
	gives := func(at time.Time) {
		if err := client.ZAdd(ctx, instances, goredis.Z{Score: float64(at.UnixMilli()), Member: "OTHER123"}).Err(); err != nil {
			t.Error(err)
		}
	}
	upgrades := func() error {
		s, err := Open(ctx, o)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	repairs := func() error {
		_, err := Check(ctx, o, true, Report{Found: func(int, string) {}})
		return err
	}
	for _, begins := range []struct {
		what    string
		begin   func() error
		refused error
	}{{"an upgrade", upgrades, errLayout}, {"a repair", repairs, ErrInstances}} {
		for _, by := range []time.Duration{-day, day} {
			at := time.Now().Add(by)
			gives(at)
			o.watchFor = patient
			refused := make(chan error, 1)
			go func() { refused <- begins.begin() }()
			alive := time.NewTicker(time.Millisecond)
			for waits := true; waits; {
				select {
				case <-alive.C:
					at = at.Add(time.Second)
					gives(at)
				case err := <-refused:
					if waits = false; !errors.Is(err, begins.refused) {
						t.Errorf("%s beside an instance that lives, the clock set by %v: %v", begins.what, by, err)
					}
				}
			}
		}
		o.watchFor = briefWatch
		gives(time.Now().Add(day))
		if err := begins.begin(); err != nil {
			t.Errorf("%s beside a dead instance: %v", begins.what, err)
		}
	}
}
