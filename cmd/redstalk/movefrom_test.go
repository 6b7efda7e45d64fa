package main

import (
	"strings"
	"testing"

	"redstalk/protocol/client"
)

// TestMoveFromUsed: a move says how many clients still use the old server, and its own connections are none.
func TestMoveFromUsed(t *testing.T) {
	t.Parallel()
	old, addr := ours(t), ours(t)
	conn, err := client.Dial(old, patience)
	if err != nil {
		t.Fatal(err)
	}
	on(t, old)("put", "x")
	const used = "redstalk: 1 client still connected to "
	if got := runIn(t.Context(), "", "move-from", old, "--to", addr, "--wait"); got.code != 0 || !strings.Contains(got.err, used+old) {
		t.Errorf("%+v", got)
	}
	conn.Close()
	if got := runIn(t.Context(), "", "move-from", old, "--to", addr, "--wait"); got.code != 0 || strings.Contains(got.err, "connected") {
		t.Errorf("%+v", got)
	}
}
