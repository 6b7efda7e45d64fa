package redis

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
)

// wakeUpTest is instances that share a Redis. An instance waits after a take with Wait has
// found nothing.
type wakeUpTest struct {
	*testing.T
	server *redistest.Server
	client *goredis.Client
	skew   func() time.Duration // moves the clock; nil: nothing does
	step   func() time.Duration // moves that of Redis alone; nil: nothing does
}

func newWakeUpTest(t *testing.T) *wakeUpTest {
	server := redistest.Start(t)
	return &wakeUpTest{T: t, server: server, client: server.Client(t)}
}

// waitingInstance is an instance, with the tubes for which it was woken.
type waitingInstance struct {
	*Store
	woken chan string
}

func (w *wakeUpTest) instance(partitions int) waitingInstance {
	w.Helper()
	o := Options{URL: w.server.URL(), Timeout: patient, Partitions: partitions, skew: w.skew, redisStep: w.step, Log: slog.New(slog.DiscardHandler)}
	s, err := Open(context.Background(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	woken := make(chan string, 100)
	s.Listen(&waitingListener{waits: true, woken: woken})
	return waitingInstance{s, woken}
}

// wait makes an instance wait, from a later millisecond on than those before.
func (w *wakeUpTest) wait(s waitingInstance, names ...string) {
	w.Helper()
	if a := do(s.Store, takeFrom(9, true, names...)); !a.NotFound {
		w.Fatalf("there is a job: %+v", a)
	}
	ctx := context.Background()
	for begun := w.client.Time(ctx).Val(); w.client.Time(ctx).Val().Sub(begun) < time.Millisecond; {
	}
}

// wantWoken checks for which tubes an instance is woken, at once or not at all.
func (w *wakeUpTest) wantWoken(what string, s waitingInstance, names ...string) {
	w.Helper()
	for _, name := range names {
		select {
		case got := <-s.woken:
			if got != name {
				w.Errorf("%s: woken for %s, want %s", what, got, name)
			}
		case <-time.After(patient):
			w.Fatalf("%s: not woken for %s", what, name)
		}
	}
	select {
	case got := <-s.woken:
		w.Errorf("%s: woken for %s", what, got)
	default:
	}
}

// put puts n jobs into a tube in one batch.
func (w *wakeUpTest) put(s waitingInstance, name string, n int) {
	w.Helper()
	done := make(chan struct{})
	batch := &storage.Batch{Done: func() { close(done) }}
	for range n {
		batch.Ops = append(batch.Ops, putIn(name, 5))
	}
	s.Do(batch)
	<-done
	for i := range batch.Ops {
		if err := batch.Ops[i].Answer.Err; err != nil {
			w.Fatal(err)
		}
	}
}

// TestWakesRemainingInstances: an instance is woken once for each job, less one for each other
// instance that is woken.
func TestWakesRemainingInstances(t *testing.T) {
	w := newWakeUpTest(t)
	a, b := w.instance(1), w.instance(1)
	w.wait(b, "t")
	w.wait(a, "t")
	w.put(b, "t", 4)
	w.wantWoken("who has put the jobs", b, "t", "t", "t")
	w.wantWoken("the other one", a, "t")
	w.wait(b, "u")
	w.put(b, "u", maxWakeUps+1)
	w.wantWoken("very many jobs", b, slices.Repeat([]string{"u"}, maxWakeUps)...)
}
