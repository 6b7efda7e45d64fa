package main

import (
	"testing"

	"redstalk/tools/conformance/child"
)

// output collects what is written to it, and can wait for it.
type output struct{ *child.Output }

func newOutput() output { return output{child.NewOutput()} }

// await waits for a match and returns its last group.
func (o output) await(t *testing.T, pattern string) string {
	t.Helper()
	return must(o.Await(patience, pattern))(t)
}
