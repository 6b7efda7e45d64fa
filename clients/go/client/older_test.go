package client_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/clients/go/client"
	"redstalk/clients/go/internal/testserver"
	"redstalk/clients/go/redstalktest"
)

// TestRedisComesBackOlder: Redis is killed while jobs are put, and comes back with an older snapshot. What calls say then is true: a
// put that began later is there, what is lost is not found, and no job gets the id of another.
func TestRedisComesBackOlder(t *testing.T) {
	testserver.CheckLeaks(t)
	redis := testserver.NewRedis(t)
	c := client.New(redstalktest.Start(t, "--store", "redis://"+redis.Addr+"/0").Addr)
	defer c.Close()
	saved := mustPut(t, c, "older", "", client.Key("saved"), client.KeyTTL(time.Hour))
	redis.Save(t)
	lost := mustPut(t, c, "older", "", client.Key("lost"), client.KeyTTL(time.Hour))
	consumer := c.Consume("older")
	defer consumer.Close()
	job, err := consumer.Reserve(limited(t), 5*time.Second)
	if err != nil || job.ID != saved {
		t.Fatalf("%+v, %v", job, err)
	}
	before, after := putThroughRestart(t, c, redis)

	wantErr(t, job.Delete(limited(t)), client.ErrNotFound) // it was reserved after the snapshot
	if s, err := c.JobStats(limited(t), saved); err != nil || s.State != "ready" {
		t.Errorf("the job of the snapshot: %+v, %v", s, err)
	}
	if _, err := c.JobStats(limited(t), lost); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Redis did not come back older: %v", err)
	}
	ids := map[uint64]bool{saved: true, lost: true}
	for _, id := range append(before, after...) {
		if ids[id] {
			t.Errorf("two jobs have the id %d", id)
		}
		ids[id] = true
	}
	for _, id := range after {
		if _, err := c.JobStats(limited(t), id); err != nil {
			t.Errorf("job %d was put after Redis was back: %v", id, err)
		}
	}
	for key, want := range map[string]string{"saved": "READY", "lost": ""} {
		r, err := c.Put(limited(t), "older", nil, client.Key(key), client.KeyTTL(time.Hour))
		if err != nil || r.State != want || (r.ID == saved) != (key == "saved") || r.ID != saved && ids[r.ID] {
			t.Errorf("put with key %s: %+v, %v", key, r, err)
		}
	}
}

// putThroughRestart kills and starts Redis while jobs are put. It returns the ids of the puts that began before Redis was back, and
// of the others.
func putThroughRestart(t *testing.T, c *client.Client, redis *testserver.RedisServer) (before, after []uint64) {
	var back atomic.Bool
	var mu sync.Mutex
	var producers sync.WaitGroup
	many := make(chan struct{})
	put := func() (done bool) {
		late := back.Load()
		r, err := c.Put(limited(t), "older", nil)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			wantErr(t, err, client.ErrUnknownOutcome)
		case late:
			after = append(after, r.ID)
		default:
			if before = append(before, r.ID); len(before) == 100 {
				close(many)
			}
		}
		return len(after) >= 100
	}
	for range 8 {
		producers.Go(func() {
			for !put() && t.Context().Err() == nil {
			}
		})
	}
	<-many
	redis.Kill()
	redis.Start(t)
	back.Store(true)
	producers.Wait()
	return before, after
}
