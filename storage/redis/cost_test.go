package redis

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// BenchmarkCost measures the cost of an operation in Redis: its processor time, by INFO, which
// a busy machine distorts less than wall time. One operation is one command, of which size many
// go to the store together; a cycle is put, reserve and delete. floor is the cost of plain
// commands that move the same job without any logic, pipelined in the same sizes; others is a
// store that reserves jobs of another instance, whose bodies it must read.
//
//	go test ./storage/redis -run '^$' -bench Cost -benchtime 60000x
func BenchmarkCost(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		for _, mode := range []string{"put", "reserve", "delete", "cycle"} {
			b.Run(fmt.Sprintf("floor/%s/%d", mode, size), func(b *testing.B) {
				server := redistest.Start(b)
				benchmarkCost(b, server, mode, size, &plainRedis{client: server.Client(b)})
			})
			b.Run(fmt.Sprintf("store/%s/%d", mode, size), func(b *testing.B) {
				server := redistest.Start(b)
				benchmarkCost(b, server, mode, size, &storeWorker{store: openOn(b, server, "cost"), tube: "default"})
			})
			if mode == "put" || mode == "delete" {
				continue
			}
			b.Run(fmt.Sprintf("others/%s/%d", mode, size), func(b *testing.B) {
				server := redistest.Start(b)
				s := openBy(b, Options{URL: server.URL(), Namespace: "cost", noBodyCache: true})
				benchmarkCost(b, server, mode, size, &storeWorker{store: s, tube: "default"})
			})
		}
	}
}

// BenchmarkMemory measures the memory that a job of 128 bytes takes in Redis.
//
//	go test ./storage/redis -run '^$' -bench Memory -benchtime 100000x
func BenchmarkMemory(b *testing.B) {
	server := redistest.Start(b)
	client := server.Client(b)
	w := &storeWorker{store: openOn(b, server, "cost"), tube: "default"}
	w.put(1)
	before := used(b, client, "used_memory")
	for left := b.N; left > 0; left -= 64 {
		w.put(min(left, 64))
	}
	b.ReportMetric((used(b, client, "used_memory")-before)/float64(b.N), "B/job")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSpread measures the cost of an operation of a cycle on all nodes of a cluster
// together, and on the busiest node, which limits the cluster: 64 operations in a batch, in 16
// tubes, each in its own partition.
//
//	go test ./storage/redis -run '^$' -bench Spread -benchtime 500000x
func BenchmarkSpread(b *testing.B) {
	for _, nodes := range []int{1, 3, 6} {
		b.Run(fmt.Sprintf("nodes/%d", nodes), func(b *testing.B) {
			cluster := redistest.StartCluster(b, nodes, 0)
			s, err := Open(context.Background(), Options{URL: cluster.URL(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			s.Listen(nopListener{})
			b.Cleanup(func() { s.Close() })
			benchmarkSpread(b, s, cluster)
		})
	}
}

func benchmarkSpread(b *testing.B, s *Store, cluster *redistest.Cluster) {
	const size = 64
	each := max(b.N/len(s.parts)/size/3, 1)
	cycles := func(n int) {
		s.each(func(p *partition) error {
			w := &storeWorker{store: s, tube: tubeIn(p.number, p.of)}
			for range n {
				w.put(size)
				w.reserve(size)
				w.delete(size)
			}
			return nil
		})
	}
	cycles(2)
	var before []float64
	for _, node := range cluster.Primaries {
		before = append(before, cpuOf(b, node.Client(b)))
	}
	own := ownCPU()
	b.ResetTimer()
	cycles(each)
	b.StopTimer()
	ops, all, busiest := float64(each*size*3*len(s.parts)), 0.0, 0.0
	b.ReportMetric((ownCPU()-own)/ops, "own-µs/op")
	for i, node := range cluster.Primaries {
		used := (cpuOf(b, node.Client(b)) - before[i]) / ops
		all, busiest = all+used, max(busiest, used)
	}
	b.ReportMetric(all, "redis-µs/op")
	b.ReportMetric(busiest, "busiest-µs/op")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTubeStats measures the cost of the stats of a tube, requested as a scrape of the
// metrics does: for many tubes in a batch, each with some jobs of one priority.
//
//	go test ./storage/redis -run '^$' -bench TubeStats -benchtime 50000x
func BenchmarkTubeStats(b *testing.B) {
	for _, size := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			server := redistest.Start(b)
			client := server.Client(b)
			s := openOn(b, server, "cost")
			for i := range size {
				(&storeWorker{store: s, tube: fmt.Sprint("tube-", i)}).put(10)
			}
			ops := make([]storage.Op, size)
			for i := range ops {
				ops[i] = storage.Op{Kind: storage.TubeStats, Tube: fmt.Sprint("tube-", i)}
			}
			redisBefore, goBefore := cpuOf(b, client), ownCPU()
			b.ResetTimer()
			turns := max(b.N/size, 1)
			for range turns {
				storage.DoWait(s, ops)
			}
			b.StopTimer()
			b.ReportMetric((cpuOf(b, client)-redisBefore)/float64(turns*size), "redis-µs/op")
			b.ReportMetric((ownCPU()-goBefore)/float64(turns*size), "own-µs/op")
		})
	}
}

// BenchmarkPrefixCost measures what a put costs Redis, if there is no policy, one with a quota for
// a prefix that the tube does not have, or one for its prefix.
//
//	go test ./storage/redis -run '^$' -bench PrefixCost -benchtime 60000x
func BenchmarkPrefixCost(b *testing.B) {
	for _, size := range []int{1, 16} {
		for _, pattern := range []string{"none", "other*", "def*"} {
			b.Run(fmt.Sprintf("%s/%d", pattern, size), func(b *testing.B) {
				server := redistest.Start(b)
				s := openOn(b, server, "cost")
				if pattern != "none" {
					policy := &tube.Policy{QuotaJobs: 1 << 40, HasQuotaJobs: true}
					do(s, storage.Op{Kind: storage.SetPolicy, Tube: pattern, Args: &storage.Args{Policy: policy}})
				}
				benchmarkCost(b, server, "put", size, &storeWorker{store: s, tube: "default"})
			})
		}
	}
}

// BenchmarkPuts measures what a put of each form costs Redis, and the take and the delete of its job.
//
//	go test ./storage/redis -run '^$' -bench Puts -benchtime 60000x
func BenchmarkPuts(b *testing.B) {
	for _, size := range []int{1, 16, 64} {
		for form, dress := range [...]func(*storage.Op, int){
			plainPut:   func(*storage.Op, int) {},
			delayedPut: func(op *storage.Op, _ int) { op.Delay = 1e6 },
			groupedPut: func(op *storage.Op, k int) { op.Args = &storage.Args{Tags: &tube.Tags{Group: fmt.Sprint(k)}} },
			memberPut:  func(op *storage.Op, _ int) { op.Args = &storage.Args{Tags: &tube.Tags{Batch: "b"}} },
			taggedPut:  func(op *storage.Op, k int) { op.Args = &storage.Args{Tags: &tube.Tags{Key: fmt.Sprint(k)}} },
		} {
			for _, mode := range []string{"put", "reserve", "delete"} {
				if form == int(delayedPut) && mode != "put" {
					continue
				}
				b.Run(fmt.Sprintf("%d/%s/%d", form, mode, size), func(b *testing.B) {
					server := redistest.Start(b)
					s := openOn(b, server, "cost")
					do(s, storage.Op{Kind: storage.Ref, Tubes: []string{"default"}, Delta: 1})
					benchmarkCost(b, server, mode, size, &storeWorker{store: s, tube: "default", dress: dress})
				})
			}
		}
	}
}

// BenchmarkEnded measures the same if the jobs leave records: below the bound, and at it.
//
//	go test ./storage/redis -run '^$' -bench Ended -benchtime 60000x
func BenchmarkEnded(b *testing.B) {
	for _, size := range []int{1, 16, 64} {
		for name, p := range map[string]tube.Policy{
			"below": {Rules: keepAnHour}, "at": {Rules: keepAnHour, KeepBytes: 1 << 20, HasKeepBytes: true}, "finish": {Rules: keepAnHour},
		} {
			for _, mode := range []string{"put", "reserve", "delete", "cycle"} {
				b.Run(fmt.Sprintf("%s/%s/%d", name, mode, size), func(b *testing.B) {
					server := redistest.Start(b)
					s := openOn(b, server, "cost")
					do(s, storage.Op{Kind: storage.Ref, Tubes: []string{"default"}, Delta: 1})
					do(s, storage.Op{Kind: storage.SetPolicy, Tube: "default", Args: &storage.Args{Policy: &p}})
					w := &storeWorker{store: s, tube: "default", finishes: strings.HasSuffix(name, "finish")}
					for range 10_000 / 64 {
						w.put(64)
						w.reserve(64)
						w.delete(64)
					}
					benchmarkCost(b, server, mode, size, w)
				})
			}
		}
	}
}

// worker moves the next n jobs along.
type worker interface {
	put(n int)
	reserve(n int)
	delete(n int)
}

func openOn(b *testing.B, server *redistest.Server, namespace string) *Store {
	return openBy(b, Options{URL: server.URL(), Namespace: namespace})
}

func openBy(b *testing.B, o Options) *Store {
	o.Log = slog.New(slog.DiscardHandler)
	s, err := Open(context.Background(), o)
	if err != nil {
		b.Fatal(err)
	}
	s.Listen(nopListener{})
	b.Cleanup(func() { s.Close() })
	return s
}

func benchmarkCost(b *testing.B, server *redistest.Server, mode string, size int, w worker) {
	client := server.Client(b)
	turns := max(b.N/size, 1)
	each := func(do func(int), turns int) {
		for range turns {
			do(size)
		}
	}
	measured := map[string]func(){
		"put":     func() { each(w.put, turns) },
		"reserve": func() { each(w.reserve, turns) },
		"delete":  func() { each(w.delete, turns) },
		"cycle": func() {
			for range max(turns/3, 1) {
				w.put(size)
				w.reserve(size)
				w.delete(size)
			}
		},
	}
	each(w.put, 20)
	if mode != "put" {
		each(w.reserve, 20)
		each(w.delete, 20)
	}
	if mode != "put" && mode != "cycle" {
		each(w.put, turns)
	}
	if mode == "delete" {
		each(w.reserve, turns)
	}
	redisBefore, goBefore := cpuOf(b, client), ownCPU()
	b.ResetTimer()
	measured[mode]()
	b.StopTimer()
	ops := float64(turns * size)
	if mode == "cycle" {
		ops = float64(max(turns/3, 1) * 3 * size)
	}
	b.ReportMetric((cpuOf(b, client)-redisBefore)/ops, "redis-µs/op")
	b.ReportMetric((ownCPU()-goBefore)/ops, "own-µs/op")
}

// cpuOf returns the processor time that Redis has used, in µs.
func cpuOf(b *testing.B, client *goredis.Client) float64 {
	return 1e6 * (used(b, client, "used_cpu_sys_main_thread") + used(b, client, "used_cpu_user_main_thread"))
}

func used(b testing.TB, client *goredis.Client, name string) float64 {
	info, err := client.Info(context.Background()).Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r")
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// ownCPU returns the processor time that this process has used, in µs.
func ownCPU() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(time.Duration(u.Utime.Nano()+u.Stime.Nano())) / 1e3
}

var costBody = bytes.Repeat([]byte("x"), 128)

// storeWorker works through a store.
type storeWorker struct {
	store storage.Store
	tube  string
	held  []uint64
	ops   []storage.Op
	puts  int
	dress func(op *storage.Op, k int) // changes the k-th put; nil: not

	finishes bool // instead of deleting
}

func (w *storeWorker) do(n int, op func() storage.Op) {
	w.ops = w.ops[:0]
	for range n {
		w.ops = append(w.ops, op())
	}
	storage.DoWait(w.store, w.ops)
	for i := range w.ops {
		if a := &w.ops[i].Answer; a.Err != nil || a.NotFound {
			panic(fmt.Sprintf("operation %d: %+v", i, a))
		}
	}
}

func (w *storeWorker) put(n int) {
	w.do(n, func() storage.Op {
		op := storage.Op{Kind: storage.Put, Tube: w.tube, Pri: 1024, TTR: 60, Body: costBody}
		if w.dress != nil {
			w.dress(&op, w.puts)
			w.puts++
		}
		return op
	})
}

func (w *storeWorker) reserve(n int) {
	w.do(n, func() storage.Op {
		return storage.Op{Kind: storage.Take, Holder: 1, Tubes: []string{w.tube}, Wait: true}
	})
	for i := range w.ops {
		w.held = append(w.held, w.ops[i].Answer.ID)
	}
}

func (w *storeWorker) delete(n int) {
	w.do(n, func() storage.Op {
		id := w.held[0]
		w.held = w.held[1:]
		if w.finishes {
			return storage.Op{Kind: storage.Move, Move: tube.Finish, Holder: 1, ID: id, Args: &storage.Args{Data: costBody}}
		}
		return storage.Op{Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id}
	})
}

// plainRedis works by plain commands.
type plainRedis struct {
	client               *goredis.Client
	last, taken, deleted uint64 // ids
}

func (w *plainRedis) pipe(n int, add func(goredis.Pipeliner)) {
	pipe := w.client.Pipeline()
	for range n {
		add(pipe)
	}
	if _, err := pipe.Exec(context.Background()); err != nil {
		panic(err)
	}
}

func (w *plainRedis) put(n int) {
	w.pipe(n, func(p goredis.Pipeliner) {
		w.last++
		p.Set(context.Background(), "redstalk:{0}:"+digits(w.last), costBody, 0)
		p.ZAdd(context.Background(), "redstalk:{0}:ready:default", goredis.Z{Score: 1024, Member: digits(w.last)})
	})
}

func (w *plainRedis) reserve(n int) {
	w.pipe(n, func(p goredis.Pipeliner) {
		w.taken++
		id := digits(w.taken)
		p.ZPopMin(context.Background(), "redstalk:{0}:ready:default")
		p.ZAdd(context.Background(), "redstalk:{0}:reserved:12345678", goredis.Z{Score: 1.8e12, Member: id})
		p.Get(context.Background(), "redstalk:{0}:"+id)
	})
}

func (w *plainRedis) delete(n int) {
	w.pipe(n, func(p goredis.Pipeliner) {
		w.deleted++
		id := digits(w.deleted)
		p.ZRem(context.Background(), "redstalk:{0}:reserved:12345678", id)
		p.Del(context.Background(), "redstalk:{0}:"+id)
	})
}
