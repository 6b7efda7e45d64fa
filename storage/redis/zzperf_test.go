package redis

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

func TestZZPerf(t *testing.T) {
	mode := os.Getenv("ZZ")
	if mode == "" {
		t.Skip()
	}
	server := redistest.Start(t)
	client := server.Client(t)
	s := openWith(t, Options{URL: server.URL(), Timeout: patient})
	w := &groupWorker{storeWorker{store: s, tube: "default"}, 10_000, 0}
	setPolicy(s, "default", &tube.Policy{GroupLimits: tube.Limits{Concurrency: 100}})
	do(s, refOp("default"))
	const n, size = 200, 256
	for m := range map[string]bool{mode: true} {
		_ = m
	}
	if mode != "put" {
		for range n {
			w.put(size)
		}
	}
	if mode == "delete" {
		for range n {
			w.reserve(size)
		}
	}
	pid := int(used(t, client, "process_id"))
	cmd := exec.Command("perf", "record", "-q", "-g", "-o", "/root/tmp/groups-redis/perf.data", "-p", fmt.Sprint(pid))
	cmd.Start()
	time.Sleep(500 * time.Millisecond)
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
	fmt.Printf("%s: %.1f µs/op\n", mode, cpu*1e6/(n*size))
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
}

func refOp(name string) storage.Op {
	return storage.Op{Kind: storage.Ref, Tubes: []string{name}, Role: tube.Watching, Delta: 1}
}
