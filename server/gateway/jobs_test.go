package gateway_test

import (
	"context"
	"errors"
	"testing"

	"redstalk/server/gateway"
	"redstalk/server/queue"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

// TestStoreEnded: nothing that needs a store succeeds when the store has ended.
func TestStoreEnded(t *testing.T) {
	t.Parallel()
	store, ctx := embedded.NewMemory(), context.Background()
	q := queue.New(store, queue.Config{})
	defer q.Close(ctx)
	jobs := gateway.NewJobs(q, 0)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	_, got := jobs.Get(ctx, "id")
	_, numbered := jobs.Get(ctx, "job:1")
	_, number := jobs.Number(ctx, 1)
	_, taken := jobs.Take(ctx, []string{"t", "u"}, 1, 0)
	for what, err := range map[string]error{
		"put":           jobs.Put(ctx, gateway.New{Topic: "t", ID: "id", TTR: 1}),
		"get":           got,
		"get job:1":     numbered,
		"get by number": number,
		"take":          taken,
		"remove":        jobs.Remove(ctx, "id"),
		"remove job:1":  jobs.Remove(ctx, "job:1"),
		"remove number": jobs.RemoveNumber(ctx, 1),
		"finish":        jobs.Finish(ctx, "id", 1),
	} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
