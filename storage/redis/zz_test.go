package redis

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"testing"

	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

func TestZZStats(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	w := &groupWorker{storeWorker{store: s, tube: "default"}, 10_000, 0}
	setPolicy(s, "default", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 100}})
	const n, size = 40, 256
	for _, mode := range []string{"put", "reserve", "delete"} {
		client.ConfigResetStat(context.Background())
		cpu := used(t, client, "used_cpu_user") + used(t, client, "used_cpu_sys")
		for range n {
			switch mode {
			case "put":
				w.put(size)
			case "reserve":
				w.reserve(size)
			default:
				w.delete(size)
			}
		}
		cpu = used(t, client, "used_cpu_user") + used(t, client, "used_cpu_sys") - cpu
		info, _ := client.Info(context.Background(), "commandstats").Result()
		fmt.Printf("%s: %.1f µs/op\n", mode, cpu*1e6/(n*size))
		lines := strings.Split(info, "\n")
		sort.Strings(lines)
		for _, l := range lines {
			if strings.HasPrefix(l, "cmdstat_") {
				var calls, usec float64
				rest := l[strings.Index(l, ":")+1:]
				for _, pair := range strings.Split(rest, ",") {
					k, v, _ := strings.Cut(pair, "=")
					if k == "calls" {
						fmt.Sscan(v, &calls)
					}
					if k == "usec" {
						fmt.Sscan(v, &usec)
					}
				}
				if usec/(n*size) > 0.05 || calls > 200 {
					fmt.Printf("   %-24s calls/op %.3f  µs/op %.2f µs/call %.2f\n", l[:strings.Index(l, ":")], calls/(n*size), usec/(n*size), usec/calls)
				}
			}
		}
	}
}
