package redis

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/conn"
	"redstalk/tools/redistest"
)

// TestClosedWhileIdle: a connection that Redis has closed while it was idle is reopened before
// the next call, which does not fail.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	var log bytes.Buffer
	s := openWith(t, Options{URL: server.URL(), Timeout: patient, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 10 {
		if err := client.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		if a := do(s, put("x")); a.Err != nil || a.ID != uint64(i+1) {
			t.Errorf("%+v", a)
		}
	}
	if strings.Contains(log.String(), "not carried out") {
		t.Error(log.String())
	}
	do(s, storage.Op{Kind: storage.Stats})
}

// nodeOf returns the server of the first partition.
func nodeOf(t *testing.T, s *Store) conn.Node {
	t.Helper()
	node, err := s.pool.Node(t.Context(), s.parts[0].prefix)
	if err != nil {
		t.Fatal(err)
	}
	return node
}
