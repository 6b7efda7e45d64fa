package storetest

import (
	"slices"

	"redstalk/storage"
	"redstalk/tube"
)

// testHeldBy: a store says which jobs its connections hold.
func testHeldBy(b *harness) {
	if _, ok := b.store.(storage.HolderStore); !ok {
		b.Skip("the store does not know it")
	}
	ids := []uint64{b.put("t", 0), b.put("t", 0), b.put("t", 0), b.put("u", 0)}
	b.wantTake(1, "t", ids[:3:3]...)
	b.wantTake(2, "u", ids[3])
	b.wantHeldBy(1, ids[:3]...)
	b.wantHeldBy(2, ids[3])
	b.wantHeldBy(3)
	b.must(tube.Release, 1, ids[1])
	b.must(tube.Delete, 2, ids[3])
	b.wantHeldBy(1, ids[0], ids[2])
	b.wantHeldBy(2)
	if held := b.heldBy(1, 1); held.Count != 2 || len(held.First) != 1 || held.First[0] != ids[0] && held.First[0] != ids[2] {
		b.Errorf("one of two jobs is %+v", held)
	}
	b.giveBack(1)
	b.wantHeldBy(1)
}

func (b *harness) heldBy(h tube.Holder, first int) storage.Held {
	return b.store.(storage.HolderStore).HeldBy([]tube.Holder{h}, first)[0]
}

func (b *harness) wantHeldBy(h tube.Holder, ids ...uint64) {
	b.Helper()
	held := b.heldBy(h, len(ids)+1)
	slices.Sort(held.First)
	if held.Count != len(ids) || !slices.Equal(held.First, ids) {
		b.Errorf("holder %d has %+v, want %v", h, held, ids)
	}
}
