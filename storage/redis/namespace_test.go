package redis

import (
	"context"
	"strings"
	"testing"

	"redstalk/storage/redis/fsck"
	"redstalk/tools/redistest"
)

// TestNamespaces: an invalid namespace is refused before Redis is contacted; all others are
// used and checked literally.
func TestNamespaces(t *testing.T) {
	ctx := context.Background()
	bad := Options{URL: "redis://127.0.0.1:1", Namespace: "a{1}"}
	_, opening := Open(ctx, bad)
	_, checking := fsck.Check(ctx, fsckOptions(bad), false, fsck.Report{})
	for _, err := range []error{opening, checking} {
		if err == nil || !strings.Contains(err.Error(), "brace") {
			t.Errorf("%v", err)
		}
	}
	redis := redistest.Start(t)
	for n, name := range []string{"a*", "ab", "[a-z]b", "a b", `a\`, "Aufträge/仕事:1"} {
		s := openWith(t, Options{URL: redis.URL(), Timeout: patient, Namespace: name})
		for range n + 1 {
			do(s, put("x"))
		}
		jobs, err := fsck.Check(ctx, fsck.Options{URL: redis.URL(), Namespace: name}, false, fsck.Report{Found: func(_ int, what string) { t.Errorf("%q: %s", name, what) }})
		if jobs != n+1 || err != nil {
			t.Errorf("%q: %d jobs, %v", name, jobs, err)
		}
	}
}
