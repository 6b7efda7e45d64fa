package redis

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"redstalk/storage/redis/conn"
	"redstalk/tools/redistest"
)

// commandStat returns a figure of INFO commandstats, 0 if the command was never called.
func commandStat(t testing.TB, server *redistest.Server, command, figure string) int64 {
	t.Helper()
	info, err := server.Client(t).Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	for _, pair := range strings.Split(conn.InfoValue(info, "cmdstat_"+command), ",") {
		if text, ok := strings.CutPrefix(pair, figure+"="); ok {
			fmt.Sscan(text, &n)
		}
	}
	return int64(n)
}

// scriptCalls returns the number of calls of the script.
func scriptCalls(t testing.TB, server *redistest.Server) int64 {
	t.Helper()
	return commandStat(t, server, "evalsha", "calls") + commandStat(t, server, "eval", "calls")
}

// mostCommands returns the largest number of commands that one call of the script makes during
// a function.
func mostCommands(t *testing.T, server *redistest.Server, what func()) int {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewReader(conn)
	const end = "that is all"
	most := make(chan int, 1)
	watch := func() (line string, err error) { return lines.ReadString('\n') }
	if _, err = conn.Write([]byte("MONITOR\r\n")); err == nil {
		_, err = watch()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		n, all := 0, 0
		for line, err := watch(); err == nil && !strings.Contains(line, end); line, err = watch() {
			if !strings.Contains(line[:min(len(line), 40)], " lua] ") {
				n = 0 // it comes from a client, and behind it are the commands of its script
				continue
			}
			n++
			all = max(all, n)
		}
		most <- all
	}()
	what()
	if err := server.Client(t).Echo(context.Background(), end).Err(); err != nil {
		t.Fatal(err)
	}
	return <-most
}
