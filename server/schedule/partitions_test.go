package schedule

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"redstalk/server/queue"
	"redstalk/storage/redis"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestCreatedTwice: of schedules that are created at the same time, under one name for tubes in different
// partitions, one stays. The others are refused, or were replaced by it.
func TestCreatedTwice(t *testing.T) {
	store, err := redis.Open(t.Context(), redis.Options{URL: redistest.Start(t).URL(), Partitions: 16, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	q := queue.New(store, queue.Config{Log: slog.New(slog.DiscardHandler)})
	defer q.Close(t.Context())
	s := New(q, nil)
	for round := range 10 {
		name := fmt.Sprint("s", round)
		var all sync.WaitGroup
		for k := range 8 {
			all.Go(func() {
				var wrong *FieldError
				err := s.Set(t.Context(), &tube.Schedule{Name: name, Tube: fmt.Sprint("tube-", k), TTR: 1, Timing: tube.Timing{Every: time.Hour}}, nil)
				if err != nil && (!errors.As(err, &wrong) || wrong.Field != "tube") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		kept, _, err := s.Get(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if list, _, err := s.List(t.Context(), 100, "", nil); err != nil || len(list) != round+1 {
			t.Errorf("%d are listed, want %d; %v", len(list), round+1, err)
		}
		if err := s.Set(t.Context(), &tube.Schedule{Name: name, Tube: kept.Tube, TTR: 2, Timing: kept.Timing}, nil); err != nil {
			t.Error(err)
		}
	}
}
