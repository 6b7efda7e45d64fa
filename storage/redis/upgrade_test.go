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

// leasesOfData are the leases in the keys of testdata, by the layout.
var leasesOfData = map[int]uint64{1: 1795730907094399, 2: 1795901563136814}

// loadData carries out the commands that write the keys which a released version has written.
func loadData(t *testing.T, client *redis.Client, version string) {
	t.Helper()
	text, err := os.ReadFile("../../testdata/data-" + version + "/redis.txt")
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

// TestUpgrade opens the namespaces that released versions have written. After that the layout is the present one,
// which these refuse.
func TestUpgrade(t *testing.T) {
	for layout, version := range storetest.DataVersions {
		t.Run(version, func(t *testing.T) { openOlder(t, layout, version) })
	}
}

func openOlder(t *testing.T, layout int, version string) {
	server := redistest.Start(t)
	client := server.Client(t)
	loadData(t, client, version)
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
	storetest.CheckData(t, s, layout, leasesOfData[layout])
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
	loadData(t, client, "0.1.0")
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
