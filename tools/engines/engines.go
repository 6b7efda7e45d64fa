// Package engines opens each engine, for tests of the layers above.
//
// It imports all engines, so they cannot use it; their own tests use package storetest.
package engines

import (
	"log/slog"
	"testing"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/redis"
	"redstalk/tools/redistest"
)

// All are the names of all engines, Durable those of the engines whose data outlives the process.
var (
	All     = []string{"memory", "embedded", "redis"}
	Durable = All[1:]
)

// Each runs test with an empty store of each of these engines, in parallel. test closes the
// store.
func Each(t *testing.T, engines []string, test func(*testing.T, storage.Store)) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, engine))
		})
	}
}

func open(t *testing.T, engine string) storage.Store {
	t.Helper()
	var store storage.Store
	var err error
	log := slog.New(slog.DiscardHandler)
	switch engine {
	case "memory":
		store = embedded.NewMemory()
	case "embedded":
		store, err = embedded.Open(embedded.Options{Dir: t.TempDir(), SyncEvery: -1, Log: log})
	case "redis":
		store, err = redis.Open(t.Context(), redis.Options{URL: redistest.Start(t).URL(), Log: log})
	default:
		t.Fatalf("there is no engine %s", engine)
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}
