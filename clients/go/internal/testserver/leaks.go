package testserver

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// CheckLeaks fails the test if, after everything that was cleaned up later than its call, a goroutine still
// runs code of this module that did not run it before. Call it first in a test.
func CheckLeaks(t testing.TB) {
	t.Cleanup(func() {
		var left []string
		for range 100 {
			if left = running(); len(left) == 0 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%d goroutines still run:\n%s", len(left), strings.Join(left, "\n\n"))
	})
}

// running returns the stacks of goroutines in the packages client and worker.
func running() (stacks []string) {
	buf := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		ours := strings.Contains(stack, "clients/go/client.(") || strings.Contains(stack, "clients/go/worker.(")
		if ours && !strings.Contains(stack, "testing.tRunner") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
