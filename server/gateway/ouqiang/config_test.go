package ouqiang_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redstalk/server/gateway/ouqiang"
)

func readConfig(t *testing.T, text string) (*ouqiang.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "delay-queue.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return ouqiang.ReadConfig(path)
}

// TestConfig: every key of the old program is known, and either keeps its meaning or gets a
// remark.
func TestConfig(t *testing.T) {
	all := `
# comment
bind_address = '127.0.0.1:9000'
bucket_size = 5
bucket_name = b_%d
queue_name = q_%s
queue_block_timeout = 20
redis.host = redis.example:6380
redis.db = 7
redis.password = "p@ss/word 1"
redis.max_idle = 1
redis.max_active = 2
redis.connect_timeout = 3
redis.read_timeout = 4
redis.write_timeout = 5
`
	f, err := readConfig(t, all)
	if err != nil || f.Bind != "127.0.0.1:9000" || f.Redis != "redis://:p%40ss%2Fword%201@redis.example:6380/7" || f.Block != 20*time.Second || len(f.Remarks) != 8 {
		t.Errorf("the file is %+v (%v)", f, err)
	}
	const initial = "redis://127.0.0.1:6379/1"
	for _, path := range []string{"", "/dev/null"} {
		if f, err := ouqiang.ReadConfig(path); err != nil || f.Bind != "0.0.0.0:9277" || f.Redis != initial || f.Block != ouqiang.DefaultBlock || len(f.Remarks) != 0 {
			t.Errorf("%q is %+v (%v)", path, f, err)
		}
	}
	f, err = readConfig(t, "queue_block_timeout = 0\nredis.db = x\nbucket = 5\n[redis]\nhost = other\n")
	if err != nil || f.Block >= 0 || f.Redis != initial || len(f.Remarks) != 3 {
		t.Errorf("the file is %+v (%v)", f, err)
	}
}

// TestBadConfig: an error about an invalid file contains no password.
func TestBadConfig(t *testing.T) {
	for _, text := range []string{"redis.password = \"\nsecret", "redis.password secret", "[secret", "bind_address = secret"} {
		f, err := readConfig(t, text)
		if err == nil || strings.Contains(err.Error(), "secret\"") || strings.Contains(err.Error(), "password secret") {
			t.Errorf("%q is %+v (%v)", text, f, err)
		}
	}
	if _, err := ouqiang.ReadConfig(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
}
