package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"redstalk/storage"
	"redstalk/storage/embedded"
	"redstalk/storage/redact"
	"redstalk/storage/redis"
)

// engine is the configuration of the store.
type engine struct {
	url       string        // memory:, embedded:DIR, or a Redis URL
	namespace string        // Redis: prefix of every key
	timeout   time.Duration // Redis: see redis.Options.Timeout

	partitions int // Redis: 0 is the default number

	waitReplicas  int  // Redis: replicas that must have a change before its reply
	allowEviction bool // Redis: accept a server that can evict jobs
	maxJobSize    int  // Redis: see redis.Options.MaxJobSize
	log           *slog.Logger

	logging *logging // the log's output

	syncEvery time.Duration // embedded: 0 is before every reply; see neverSync
	fileSize  int64         // embedded: bytes of a log segment
	reserve   int64         // embedded: bytes of disk space to keep free
	newStore  bool          // embedded: see embedded.Options.NewStore

	history int64 // bound of the records of ended jobs in bytes; 0: there are none
}

// neverSync, as engine.syncEvery, lets the operating system decide when changes
// are written to disk.
const neverSync time.Duration = -1

// openStore opens the engine that the URL's scheme names.
func openStore(ctx context.Context, e engine) (storage.Store, error) {
	switch scheme, rest, _ := strings.Cut(e.url, ":"); {
	case scheme == "memory":
		store := embedded.NewMemory()
		store.KeepHistory(e.history)
		return store, nil
	case scheme == "embedded":
		return openEmbedded(rest, e)
	case redisSchemes[scheme]:
		return openRedis(ctx, e)
	default:
		return nil, fmt.Errorf("there is no engine %q", scheme)
	}
}

func openEmbedded(dir string, e engine) (storage.Store, error) {
	limit := descriptors()
	if 0 < limit && limit < minDescriptors {
		return nil, fmt.Errorf("this process may open %d files, and the embedded engine needs %d: raise the limit (ulimit -n, LimitNOFILE)", limit, minDescriptors)
	}
	var once sync.Once // a second caller waits until the process exits
	store, err := embedded.Open(embedded.Options{
		Dir: dir, SyncEvery: e.syncEvery, FileSize: e.fileSize, Reserve: e.reserve, NewStore: e.newStore, OpenFiles: tableFiles(limit), Log: e.log,
		HistoryBytes: e.historyBytes(),
		Fatal: func(err error) {
			once.Do(func() { e.logging.exit(exitFailure, fatalMessage(dir, err)+"\n") })
		},
	})
	if err != nil {
		return nil, err // and not store: a nil *embedded.Engine in a Store is not nil
	}
	return store, nil
}

// historyBytes returns the bound of the records of ended jobs for the options of an engine, where 0 is the default and a negative one is none.
func (e *engine) historyBytes() int64 {
	if e.history == 0 {
		return -1
	}
	return e.history
}

const (
	minDescriptors = 56

	// engineFiles is how many descriptors the embedded engine needs beside those of its tables: for the log, the
	// files that it writes, directories and locks; and the program for its listeners.
	engineFiles = 24
)

// tableFiles returns how many files of the tables can be open: with engineFiles more they fit into what connectionsFor
// leaves of the descriptors. 0 means that the limit is not known.
func tableFiles(descriptors uint64) int {
	if descriptors == 0 {
		return 0
	}
	return int(min(reservedDescriptors, descriptors/2)) - engineFiles
}

// describe returns which engine it is and where it keeps the jobs, for the log.
func (e engine) describe() []any {
	scheme, dir, _ := strings.Cut(e.url, ":")
	switch scheme {
	case "memory":
		return []any{"engine", scheme}
	case "embedded":
		if full, err := filepath.Abs(dir); err == nil {
			dir = full
		}
		return []any{"engine", scheme, "dir", dir}
	}
	return []any{"engine", "redis", "store", redact.URL(e.url)}
}

// fatalMessage is the last line of a process that the embedded engine ends.
func fatalMessage(dir string, err error) string {
	kept := "what was acknowledged is kept"
	if errors.Is(err, embedded.ErrGone) {
		kept = "what was acknowledged is where its files are now, if anywhere"
	}
	return fmt.Sprintf("redstalkd: the journal in %s cannot go on; %s: %s", dir, kept, oneLine(err.Error()))
}

// describe wraps an error of opening the store with the store's URL and the exit code.
func describe(e engine, err error) error {
	code := exitFailure
	if errors.Is(err, embedded.ErrLocked) {
		code = exitLocked
	}
	return failure(code, "opening the store %s: %w", redact.URL(e.url), redact.Error(e.url, err))
}

// redisSchemes are the URL schemes that storage/redis accepts.
var redisSchemes = map[string]bool{
	"redis": true, "redis+sentinel": true, "redis+cluster": true,
	"rediss": true, "rediss+sentinel": true, "rediss+cluster": true,
	"unix": true,
}

func openRedis(ctx context.Context, e engine) (storage.Store, error) {
	store, err := redis.Open(ctx, redis.Options{
		URL: e.url, Namespace: e.namespace, Partitions: e.partitions, Version: Version, Log: e.log,
		Timeout: e.timeout, WaitReplicas: e.waitReplicas, AllowEviction: e.allowEviction, MaxJobSize: e.maxJobSize, HistoryBytes: e.historyBytes(),
	})
	if err != nil {
		return nil, err // and not store: a nil *redis.Store in a Store is not nil
	}
	return store, nil
}

// hasCertificates reports whether the URL of the store names files of certificates.
func (e *engine) hasCertificates() bool {
	_, query, _ := strings.Cut(e.url, "?")
	values, _ := url.ParseQuery(query)
	return strings.HasPrefix(e.url, "rediss") && (values.Has("ca") || values.Has("cert"))
}

// checkCertificates logs if these files cannot be used. Each connection reads them anyway.
func (e *engine) checkCertificates() {
	if !e.hasCertificates() {
		return
	}
	if err := redis.CheckURL(e.url); err != nil {
		e.log.Error("the certificates for Redis cannot be used; the previous ones stay in use", "err", err)
	}
}
