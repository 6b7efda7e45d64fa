package redis

import (
	"context"
	"fmt"
	"testing"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// TestKeyMemory: a job with a key of 36 bytes costs Redis 200 bytes more than one without.
func TestKeyMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	s := openAt(t, server.URL(), patient)
	const n = 20_000
	measure := func(name string, tags func(int) *storage.Args) float64 {
		do(s, storage.Op{Kind: storage.Ref, Tubes: []string{name}, Delta: 1})
		before := used(t, client, "used_memory")
		for from := 0; from < n; from += 200 {
			ops := make([]storage.Op, 200)
			for i := range ops {
				ops[i] = storage.Op{Kind: storage.Put, Tube: name, TTR: 100, Pri: uint32(i), Body: make([]byte, 128), Args: tags(from + i)}
			}
			storage.DoWait(s, ops)
		}
		return (used(t, client, "used_memory") - before) / n
	}
	without := measure("plain", func(int) *storage.Args { return nil })
	with := measure("keyed", func(i int) *storage.Args {
		return &storage.Args{Tags: &tube.Tags{Key: fmt.Sprintf("%036d", i)}}
	})
	t.Logf("%.0f bytes a job, and %.0f more with a key", without, with-without)
	if with-without > 200 {
		t.Errorf("a key costs %.0f bytes", with-without)
	}
}

// TestBrokenMetadata: a job with a broken metadata block can be taken and deleted, and
// operations beside it are carried out.
func TestBrokenMetadata(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	for n, end := range []string{"\xff\xff", "\x00\x01", "\x00\x18"} {
		s := openWith(t, Options{URL: server.URL(), Namespace: fmt.Sprint("broken", n)})
		key := &storage.Args{Tags: &tube.Tags{Key: "k", Rules: tube.Rules{Max: 1}}}
		a := do(s, storage.Op{Kind: storage.Put, Tube: "t", TTR: 100, Body: []byte("x"), Args: key})
		name := schema.KeyPrefix(fmt.Sprint("broken", n), 0) + digits(a.ID)
		client.SetRange(ctx, name, client.StrLen(ctx, name).Val()-2, end)
		ops := []storage.Op{{Kind: storage.JobStats, ID: a.ID}, {Kind: storage.Peek, ID: a.ID}, put("other")}
		storage.DoWait(s, ops)
		for i := range ops {
			if a := ops[i].Answer; a.Err != nil || a.NotFound {
				t.Errorf("%q, operation %d: %+v", end, i, a)
			}
		}
		for _, op := range []storage.Op{take(1), move(tube.Release, 1, a.ID), move(tube.Delete, 1, a.ID)} {
			if a := do(s, op); a.Err != nil || a.NotFound {
				t.Errorf("%q, %v: %+v", end, op.Move, a)
			}
		}
	}
}
