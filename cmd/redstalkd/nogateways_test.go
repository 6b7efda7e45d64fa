//go:build nogateways

package main

import (
	"strings"
	"testing"
)

// furtherTags are the build tags of the binary beside those of every test.
const furtherTags = ",nogateways"

// TestWithoutGateways: a program without gateways says so when it is asked for one.
func TestWithoutGateways(t *testing.T) {
	for _, args := range []string{"--gateway ouqiang=127.0.0.1:0", "--gateway-strict", "ouqiang -c x.ini", "zywaited"} {
		if code, _, said := run(t, command(strings.Fields(args)...)); code != exitUsage || !strings.Contains(said, "built without gateways") {
			t.Errorf("%s: %d, %q", args, code, said)
		}
	}
	if code, out, _ := run(t, command("-h")); code != 0 || !strings.Contains(out, "built without gateways") {
		t.Errorf("help: %d, %q", code, out)
	}
}
