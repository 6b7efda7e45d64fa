package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/webhook"
)

// TestPushes: callbacks are shown by tube, up to the limit, and with their targets.
func TestPushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstance(t, 1)
		d := webhook.New(i.Queue, webhook.Config{NamedTubes: 1, Log: slog.New(slog.DiscardHandler)})
		defer d.Close(background)
		i.o.Pushing(d.Stats)
		call := func(ctx context.Context, j *webhook.Job) webhook.Outcome {
			time.Sleep(3 * time.Second)
			err := d.Through(ctx, "grpc://a:1", func(context.Context) error { return errors.New("no") })
			if errors.Is(err, webhook.ErrBreakerOpen) || j.Tube == "b" {
				return webhook.Outcome{Verdict: webhook.Done, Result: webhook.Delivered}
			}
			return webhook.Outcome{Verdict: webhook.Park, Result: webhook.Gone}
		}
		remove := must[func()](t)(d.Register(webhook.Source{Tubes: []string{"a", "b"}, Concurrency: 1, Call: call}))
		for range 10 {
			i.put(t, "a", 0)
		}
		i.put(t, "b", 60)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect(t, samples(t, i.o), map[string]string{
			"redstalk_push_tubes": "2", "redstalk_push_running_calls": "1", "redstalk_push_waiting_tubes": "1",
			`redstalk_push_calls_total{tube="a",result="gone"}`: "3",
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		expect(t, samples(t, i.o), map[string]string{
			"redstalk_push_running_calls": "0", "redstalk_push_waiting_tubes": "0",
			`redstalk_push_calls_total{tube="a",result="gone"}`:               "10",
			`redstalk_push_calls_total{tube="all others",result="delivered"}`: "1",
			`redstalk_push_seconds_sum{tube="a"}`:                             "30",
			`redstalk_push_seconds_bucket{tube="a",le="2.5"}`:                 "0",
			`redstalk_push_seconds_bucket{tube="a",le="5"}`:                   "10",
			`redstalk_push_breaker{target="grpc://a:1",state="open"}`:         "1",
		})
		remove()
		time.Sleep(2 * time.Second)
		expect(t, samples(t, i.o), map[string]string{
			"redstalk_push_tubes":                                        "0",
			`redstalk_push_calls_total{tube="a",result="gone"}`:          "",
			`redstalk_push_calls_total{tube="all others",result="gone"}`: "10",
		})
	})
}
