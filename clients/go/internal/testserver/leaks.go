package testserver

import (
	"context"
	"flag"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of a package. Most of them wait, so more run at the same time than there are processors, unless -parallel
// says otherwise.
func Main(m *testing.M) {
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// CheckLeaks fails the test if, after everything that was cleaned up later than its call, a goroutine still
// runs that the test has started, itself or by others. Call it first in a test, before t.Parallel.
func CheckLeaks(t testing.TB) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("test", t.Name()))) // which goroutines inherit
	t.Cleanup(func() {
		var left []string
		for range 100 {
			if left = running(t.Name()); len(left) == 0 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("goroutines still run:\n%s", strings.Join(left, "\n\n"))
	})
}

// running returns the stacks of the goroutines that a test has started, but for those of its subtests.
func running(test string) (stacks []string) {
	var all strings.Builder
	pprof.Lookup("goroutine").WriteTo(&all, 1)
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, `"test":"`+test+`"`) && !strings.Contains(stack, "testing.tRunner") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
