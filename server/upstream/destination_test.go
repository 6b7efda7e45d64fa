package upstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"redstalk/protocol/migrate"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/tube"
)

// fullStore has no room for checkpoints.
type fullStore struct{ storage.Store }

func (s fullStore) Do(batches ...*storage.Batch) {
	for _, b := range batches {
		var refused []*storage.Op
		for i := range b.Ops {
			if op := &b.Ops[i]; op.Move == tube.SaveCheckpoint {
				op.Move, refused = tube.Touch, append(refused, op)
			}
		}
		done := b.Done
		b.Done = func() {
			for _, op := range refused {
				op.Answer.Err = storage.ErrNoSpace
			}
			done()
		}
	}
	s.Store.Do(batches...)
}

// TestRevealWithoutRoom: a copy stays hidden while the store has no room for its checkpoint, so that no worker begins without it.
func TestRevealWithoutRoom(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := fullStore{embedded.NewMemory()}
	q := queue.New(store, queue.Config{})
	t.Cleanup(func() { q.Close(ctx); store.Close() })
	d := newDestination(q)
	for _, state := range []migrate.State{migrate.Ready, migrate.Delayed, migrate.Buried} {
		j := &migrate.Job{Tube: "t", State: state, Pri: 7, TTR: 60, Due: time.Now().Add(time.Minute), Checkpoint: []byte("row 500")}
		copied, err := d.Place(ctx, "key of "+string(state), j)
		if err != nil {
			t.Fatal(err)
		}
		err = d.Reveal(ctx, copied.ID, j)
		if refusal := (*migrate.Refusal)(nil); !errors.As(err, &refusal) {
			t.Errorf("%s: %v", state, err)
		}
		if found, err := d.Find(ctx, "key of "+string(state), j); err != nil || !found.Hidden {
			t.Errorf("%s: the copy is %+v (%v)", state, found, err)
		}
	}
}
