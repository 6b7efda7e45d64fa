package redis

import (
	"fmt"
	"sync"
	"testing"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// memberWorker is a storeWorker whose jobs are members of one batch.
type memberWorker struct{ storeWorker }

func (w *memberWorker) put(n int) {
	w.do(n, func() storage.Op {
		op := storage.Op{Kind: storage.Put, Tube: w.tube, Pri: 1024, TTR: 60, Body: costBody}
		op.Args = &storage.Args{Tags: &tube.Tags{Batch: "import-4711"}}
		return op
	})
}

// BenchmarkMembers is BenchmarkCost for the members of a batch.
//
//	go test ./storage/redis -run '^$' -bench Members -benchtime 60000x
func BenchmarkMembers(b *testing.B) {
	for _, size := range []int{16, 256} {
		for _, mode := range []string{"put", "reserve", "delete", "cycle"} {
			b.Run(fmt.Sprintf("plain/%s/%d", mode, size), func(b *testing.B) {
				server := redistest.Start(b)
				benchmarkCost(b, server, mode, size, &storeWorker{store: openOn(b, server, "cost"), tube: "default"})
			})
			b.Run(fmt.Sprintf("member/%s/%d", mode, size), func(b *testing.B) {
				server := redistest.Start(b)
				benchmarkCost(b, server, mode, size, &memberWorker{storeWorker{store: openOn(b, server, "cost"), tube: "default"}})
			})
		}
	}
}

// BenchmarkMemberMemory measures the memory that a member of a batch takes in Redis, beyond that of a job that is not.
//
//	go test ./storage/redis -run '^$' -bench MemberMemory -benchtime 100000x
func BenchmarkMemberMemory(b *testing.B) {
	plain := memoryOf(b, func(w storeWorker) worker { return &w })
	member := memoryOf(b, func(w storeWorker) worker { return &memberWorker{w} })
	b.ReportMetric(plain/float64(b.N), "B/job")
	b.ReportMetric((member-plain)/float64(b.N), "B/member")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMembersInPipelines measures puts of 50 connections at the same time, 16 in a pipeline of each.
//
//	go test ./storage/redis -run '^$' -bench MembersInPipelines -benchtime 1000000x
func BenchmarkMembersInPipelines(b *testing.B) {
	const connections, pipelined = 50, 16
	for _, name := range []string{"plain", "member"} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Start(b)
			client, s := server.Client(b), openOn(b, server, "cost")
			newWorker := func() worker {
				w := storeWorker{store: s, tube: "default"}
				if name == "member" {
					return &memberWorker{w}
				}
				return &w
			}
			newWorker().put(1)
			before, spent := used(b, client, "used_memory"), commandStat(b, server, "evalsha", "usec")
			b.ResetTimer()
			var all sync.WaitGroup
			for range connections {
				all.Go(func() {
					w := newWorker()
					for left := b.N / connections; left > 0; left -= pipelined {
						w.put(pipelined)
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
			b.ReportMetric(float64(commandStat(b, server, "evalsha", "usec")-spent)/float64(b.N), "redis-µs/put")
			b.ReportMetric((used(b, client, "used_memory")-before)/float64(b.N), "B/job")
			b.ReportMetric(0, "ns/op")
		})
	}
}
