package zywaited_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/server/gateway/zywaited"
)

func readConfig(t *testing.T, text string) (*zywaited.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return zywaited.ReadConfig(path)
}

// TestConfig: every key with a meaning, the defaults, and a remark on each other key.
func TestConfig(t *testing.T) {
	f, err := readConfig(t, "")
	initial := &zywaited.File{
		Role: 3, HTTP: "0.0.0.0:80", GRPC: "0.0.0.0:8000", Base: time.Millisecond, Timeout: time.Second,
		Calls: zywaited.Calls{Timeout: time.Second, Pause: time.Millisecond},
	}
	if err != nil || !reflect.DeepEqual(f, initial) {
		t.Errorf("an empty file is %+v (%v), want %+v", f, err, initial)
	}
	f, err = readConfig(t, `
base_level = "second"
config_scale = 2
role = 1
[data_source]
dst = "redis"
rst = "memory"
[redis]
addr = "redis.example:6380"
auth = "p@ss"
db = 4
idle = 100
[timer]
st = "sorted-server"
max_check_time = 5
timeout = 7
[timer.timing_wheel]
slot_num = 60
[worker]
retry_times = 4
timeout = 6
[services]
types = ["http"]
[services.http]
addr = "127.0.0.1:1"
[gp]
limit = 10
`)
	want := &zywaited.File{
		Role: 1, HTTP: "127.0.0.1:1", Redis: "redis://:p%40ss@redis.example:6380/4", Base: time.Second, Timeout: 7 * time.Second,
		Calls: zywaited.Calls{Tries: 4, Timeout: 6 * time.Second, Pause: 2 * time.Second, MaxChecks: 5, Concurrency: 10},
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.Remarks)
	for _, key := range []string{"data_source.rst", "redis.idle", "timer.st", "timer.timing_wheel.slot_num"} {
		want.Remarks = append(want.Remarks, key+" means nothing any more")
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("the file is %+v, want %+v", f, want)
	}
	if f, err := readConfig(t, "role = 2"); err != nil || f.HTTP != "" || f.GRPC != "" {
		t.Errorf("a worker is %+v (%v)", f, err)
	}
}

// TestBadConfig: an error about an invalid file quotes nothing of it.
func TestBadConfig(t *testing.T) {
	for _, text := range []string{
		"secret", "redis = \"secret\"", "[redis]\nauth = secret", "role = \"secret\"", "role = 4", "role = 0", "base_level = \"secret\"",
		"[data_source]\ndst = \"mongo\"", "config_scale = -1", "[timer]\ntimeout = 99999999", "[redis]\ndb = -1",
	} {
		if f, err := readConfig(t, text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is %+v (%v)", text, f, err)
		}
	}
	if _, err := zywaited.ReadConfig("/nowhere/at/all"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
