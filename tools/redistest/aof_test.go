package redistest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestHalfATransaction: a script that Redis has written only partly when it is killed is not
// carried out, not even after a second restart.
func TestHalfATransaction(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	ctx, c := context.Background(), s.Client(t)
	script := func(name string) {
		t.Helper()
		if err := c.Eval(ctx, "redis.call('SET', KEYS[1], 1) redis.call('INCR', 'scripts') return 1", []string{name}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	again := func() {
		t.Helper()
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	script("half")
	s.Kill()
	logs, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	log, err := os.Stat(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(logs[0], log.Size()-8); err != nil { // within EXEC
		t.Fatal(err)
	}
	again()
	script("whole")
	again()
	half, scripts := c.Exists(ctx, "half").Val(), c.Get(ctx, "scripts").Val()
	if half != 0 || scripts != "1" {
		t.Errorf("half a script has left %d keys, and %s scripts were counted, want 0 and 1", half, scripts)
	}
}
