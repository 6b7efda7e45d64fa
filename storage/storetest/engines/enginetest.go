// Package engines opens each engine there is, for tests of what is above them.
//
// It knows all engines, so those cannot use it; their own tests are in package storetest.
package engines

import (
	"log/slog"
	"testing"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/redis"
	"redstalk/storage/redis/redistest"
)

// OfAll are the names of all engines, OfDurable those of the engines that outlive the process.
var (
	OfAll     = []string{"memory", "embedded", "redis"}
	OfDurable = OfAll[1:]
)

// Each runs test with an empty store of each of these engines, at the same time. test closes
// the store.
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
