package jobbatch

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// TestUnusedNames: sealing names that no job has used is limited, and what that has left is forgotten soon; a batch with jobs can be
// sealed and its record stays until it is cancelled after its end.
func TestUnusedNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := embedded.NewMemory()
		q := queue.New(store, queue.Config{})
		s := New(q, nil)
		go s.Run(t.Context())
		defer store.Close()
		defer q.Close(t.Context())
		for i := range unusedBurst {
			if err := s.Seal(t.Context(), strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Seal(t.Context(), "more"); !errors.Is(err, storage.ErrQuota) {
			t.Errorf("one more: %v", err)
		}
		put, err := q.PutTagged(t.Context(), queue.NewJob{Tube: "t", TTR: 9}, &tube.Tags{Batch: "used"})
		if err == nil {
			err = s.Seal(t.Context(), "used")
		}
		if err != nil {
			t.Fatal(err)
		}
		if answers, err := q.Do(t.Context(), storage.Op{Kind: storage.Move, Move: tube.Delete, ID: put.ID}); err != nil || answers[0].NotFound {
			t.Fatal(answers, err)
		}
		time.Sleep(unusedTTL + time.Minute)
		if list, _, err := s.List(t.Context(), 10, ""); err != nil || len(list) != 1 || list[0].State != "done" {
			t.Errorf("after ten minutes: %+v, %v", list, err)
		}
		if n, err := s.Cancel(t.Context(), "used"); n != 0 || err != nil {
			t.Error(n, err)
		}
		if _, err := s.Get(t.Context(), "used"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a batch that was cancelled after its end: %v", err)
		}
	})
}
