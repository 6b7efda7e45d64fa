package redis

import (
	"context"
	"testing"

	"redstalk/storage"
	"redstalk/storage/redis/redistest"
	"redstalk/tube"
)

// TestArrowsInBulk checks what the script takes for granted where it moves many
// jobs at once, or leaves their records as they are, see lua/rare/20_record.lua.
func TestArrowsInBulk(t *testing.T) {
	found := 0
	for _, a := range tube.Arrows() {
		switch {
		case a.Move == tube.Delete && a.From == tube.Reserved:
			if found++; !a.Held || a.To != tube.Gone || a.Counts != tube.NoCounter {
				t.Errorf("deleting a reserved job: %+v", a)
			}
		case a.Move == tube.Reserve:
			if found++; a.From != tube.Ready || a.To != tube.Reserved {
				t.Errorf("reserving: %+v", a)
			}
		}
		into := a.To == tube.Reserved && a.From != tube.Reserved
		if into != (a.Counts == tube.Reserves) {
			t.Errorf("being reserved must count as such, and nothing else: %+v", a)
		}
	}
	if found != 2 {
		t.Errorf("found %d of 2 arrows", found)
	}
}

// TestManyAtOnce: sorted sets that begin with many jobs are not kept as lists, and
// what prevents that leaves nothing behind.
func TestManyAtOnce(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), context.Background()
	s := openAt(t, server.URL(), patient)
	const n = 100
	look := func(key string, want int64) {
		t.Helper()
		key = "redstalk:{0}:" + key
		if got := client.ZCard(ctx, key).Val(); got != want {
			t.Errorf("%s has %d members, want %d", key, got, want)
		}
		if got := client.ObjectEncoding(ctx, key).Val(); want > 0 && got != "skiplist" {
			t.Errorf("%s is kept as a %s", key, got)
		}
	}
	var puts, takes []storage.Op
	for i := range n {
		op := put("x")
		op.Pri = uint32(i * 20) // 52 of them urgent
		puts, takes = append(puts, op), append(takes, take(tube.Holder(1)))
	}
	storage.DoWait(s, puts)
	look("ready:t", n)
	if got := figures(t, s); got.Urgent != 52 || got.Ready != n {
		t.Errorf("%+v", got)
	}
	storage.DoWait(s, takes)
	look("ready:t", 0)
	look("reserved:"+s.parts[0].instance.name(), n)
	for i := range takes {
		if a := takes[i].Answer; a.Err != nil || a.ID != puts[i].Answer.ID {
			t.Fatalf("take %d: %+v, want job %d", i, a, puts[i].Answer.ID)
		}
	}
	if got := figures(t, s); got.Urgent != 0 || got.Ready != 0 || got.Reserved != n {
		t.Errorf("%+v", got)
	}
}

// TestTakesPastLostRecord: a ready job whose record somebody has deleted is dropped,
// and the urgent ones are counted all the same.
func TestTakesPastLostRecord(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, server.URL(), patient)
	puts := []storage.Op{put("a"), put("b"), put("c"), put("d")}
	puts[0].Pri, puts[1].Pri, puts[2].Pri, puts[3].Pri = 1, 2, 3, 5000
	storage.DoWait(s, puts)
	server.Client(t).Del(context.Background(), "redstalk:{0}:"+digits(puts[1].Answer.ID))
	takes := []storage.Op{take(1), take(1), take(1)}
	storage.DoWait(s, takes)
	for i, want := range []uint64{puts[0].Answer.ID, puts[2].Answer.ID, puts[3].Answer.ID} {
		if got := takes[i].Answer.ID; got != want {
			t.Errorf("take %d: job %d, want %d", i, got, want)
		}
	}
	// That one job fewer is there only fsck knows.
	if got := figures(t, s); got.Urgent != 0 || got.Reserved != 3 {
		t.Errorf("%+v", got)
	}
}
