package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"redstalk/storage/redis/redistest"
)

// commandStat returns a figure that INFO has of a command, 0 if it was never
// called.
func commandStat(t *testing.T, server *redistest.Server, command, figure string) int64 {
	t.Helper()
	info, err := server.Client(t).Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	for _, pair := range strings.Split(infoValue(info, "cmdstat_"+command), ",") {
		if text, is := strings.CutPrefix(pair, figure+"="); is {
			fmt.Sscan(text, &n)
		}
	}
	return int64(n)
}

// scriptCalls returns how often the script was called.
func scriptCalls(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	return commandStat(t, server, "evalsha", "calls") + commandStat(t, server, "eval", "calls")
}
