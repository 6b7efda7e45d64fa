package redis

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/schema"
	"redstalk/storage/storetest"
	"redstalk/tools/redistest"
)

// leaseOfData is the lease in testdata/data-0.1.0/redis.txt.
const leaseOfData = 1795730907094399

// loadData carries out the commands in testdata/data-0.1.0/redis.txt, the keys of which 0.1.0 has
// written.
func loadData(t *testing.T, client *redis.Client) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/data-0.1.0/redis.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var words []any
		for line = strings.TrimSpace(line); line != ""; {
			quoted, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatal(err)
			}
			word, _ := strconv.Unquote(quoted)
			words, line = append(words, word), strings.TrimSpace(line[len(quoted):])
		}
		if err := client.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgrade opens a namespace that 0.1.0 has written. After that the layout is the present one,
// which 0.1.0 refuses.
func TestUpgrade(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	loadData(t, client)
	check := func() {
		t.Helper()
		o := Options{URL: server.URL(), Namespace: schema.DefaultNamespace}
		jobs, err := fsck.Check(t.Context(), fsckOptions(o), false, fsck.Report{Found: func(_ int, what string) { t.Errorf("fsck: %s", what) }})
		if err != nil || jobs == 0 {
			t.Errorf("fsck: %d jobs, %v", jobs, err)
		}
	}
	check()
	s := openAt(t, server.URL(), patient)
	storetest.CheckData(t, s, leaseOfData)
	if version := client.HGet(t.Context(), "redstalk:{0}:layout", "version").Val(); version != fmt.Sprint(schema.LayoutVersion) {
		t.Errorf("after the upgrade the layout is %s", version)
	}
	check()
}

// TestUpgradeBesideOthers: as long as an older instance sends heartbeats, the upgrade is refused.
// One that was killed only delays it.
func TestUpgradeBesideOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	loadData(t, client)
	beat := func(n int) {
		client.ZAdd(context.Background(), "redstalk:{0}:instances", redis.Z{Score: float64(n), Member: "OLDERONE"})
	}
	beat(0)
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
				beat(n)
			}
		}
	}()
	_, err := tryOpen(Options{URL: server.URL()})
	close(ended)
	<-done
	if err == nil || !strings.Contains(err.Error(), "OLDERONE") {
		t.Errorf("beside an older instance: %v", err)
	}
	if version := client.HGet(t.Context(), "redstalk:{0}:layout", "version").Val(); version != "1" {
		t.Errorf("the layout is %s", version)
	}
	if log, err := tryOpen(Options{URL: server.URL()}); err != nil || !strings.Contains(log, "upgraded") {
		t.Errorf("after the older instance was killed: %v, %s", err, log)
	}
}
