package redis

import (
	"fmt"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// BenchmarkReports measures what a checkpoint costs Redis, and a touch with a progress, beside a touch and a put.
//
//	go test ./storage/redis -run '^$' -bench Reports -benchtime 60000x
func BenchmarkReports(b *testing.B) {
	text := "half"
	for _, size := range []int{1, 16, 64} {
		for name, args := range map[string]*storage.Args{
			"put": nil, "touch": nil, "progress": {Progress: &text}, "checkpoint": {Data: make([]byte, 1<<10)}, "large": {Data: make([]byte, tube.MaxCheckpoint)},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				server := redistest.Start(b)
				client := server.Client(b)
				w := &storeWorker{store: openOn(b, server, "cost"), tube: "default"}
				w.put(size)
				w.reserve(size)
				turns, before := max(b.N/size, 1), 0.0
				for turn := range 2 * turns {
					if turn == turns {
						before = cpuOf(b, client)
					}
					at := 0
					w.do(size, func() storage.Op {
						at++
						switch name {
						case "put":
							return storage.Op{Kind: storage.Put, Tube: "default", TTR: 60, Body: make([]byte, 1<<10)}
						case "touch", "progress":
							return storage.Op{Kind: storage.Move, Move: tube.Touch, Holder: 1, ID: w.held[at-1], Args: args}
						}
						return storage.Op{Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: 1, ID: w.held[at-1], Args: args}
					})
				}
				b.ReportMetric((cpuOf(b, client)-before)/float64(turns*size), "redis-µs/op")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
