package redis

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"redstalk/tube"
)

// modelHolding is what the model knows of a reserved job.
type modelHolding struct {
	id     uint64
	holder tube.Holder
	tube   string
	until  time.Time
	set    *leaseSet
}

// TestHoldings: jobs are reserved, touched and dropped at random, and holdings agrees with a
// simple model. In the end nothing is left, and the same number of jobs needs no more memory.
func TestHoldings(t *testing.T) {
	hs, rng, now := newHoldings(false), rand.New(rand.NewPCG(3, 3)), time.Now()
	model, sets := make(map[uint64]modelHolding), 0
	drop := func(id uint64) {
		hs.drop(id)
		delete(model, id)
	}
	var set *leaseSet
	for step := range 60_000 {
		now = now.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)
		switch id := rng.Uint64N(20_000); {
		case rng.IntN(3) > 0:
			if set == nil || rng.IntN(4) == 0 {
				sets++
				set = &leaseSet{name: fmt.Sprint(sets), left: 1 << 20}
			}
			k := modelHolding{id, tube.Holder(rng.IntN(3)), fmt.Sprint(rng.IntN(50)), now.Add(time.Minute), set}
			if rng.IntN(2) == 0 {
				k.set = nil
			}
			hs.hold(k.holder, id, job{tube: k.tube, ttr: time.Minute}, now, k.set)
			model[id] = k
		case rng.IntN(2) == 0:
			hs.touch(id, now)
			if k, ok := model[id]; ok {
				k.until = now.Add(time.Minute)
				model[id] = k
			}
		default:
			drop(id)
		}
		if step%5000 == 0 {
			compare(t, hs, model)
		}
	}
	if n := len(hs.slab.pages); n <= retainedPages {
		t.Errorf("there are %d pages only", n)
	}
	for _, id := range slices.Collect(maps.Keys(model)) {
		drop(id)
	}
	compare(t, hs, model)
	if len(hs.holders) != 0 || len(hs.tubes.numbers) != 0 || len(hs.slab.pages) != 0 || len(hs.sets.values) != len(hs.sets.freeSlots) || len(hs.tubes.values) > 50 {
		t.Errorf("left: %d holders, %d tubes of %d, %d pages, %d lease sets of which %d are free",
			len(hs.holders), len(hs.tubes.numbers), len(hs.tubes.values), len(hs.slab.pages), len(hs.sets.values), len(hs.sets.freeSlots))
	}
}

// compare compares holdings with the model.
func compare(t *testing.T, hs *holdings, model map[uint64]modelHolding) {
	t.Helper()
	if hs.count() != len(model) {
		t.Fatalf("%d jobs, want %d", hs.count(), len(model))
	}
	for h := range tube.Holder(3) {
		held := slices.SortedFunc(maps.Values(model), func(a, b modelHolding) int {
			return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.id, b.id))
		})
		held = slices.DeleteFunc(held, func(k modelHolding) bool { return k.holder != h })
		some := hs.firstOf(h, len(held)+1)
		if len(some) != len(held) || hs.countOf(h) != len(held) || hs.holdsAny(h) != (len(held) > 0) {
			t.Fatalf("holder %d has %d jobs, want %d", h, len(some), len(held))
		}
		for i, want := range held {
			got := hs.get(want.id)
			if some[i].id != want.id || hs.tubeOf(got) != want.tube || hs.sets.of(got.set) != want.set || hs.heldBy(h, want.id, 1) != got {
				t.Fatalf("job %d of holder %d: %+v, want %+v", i, h, got, want)
			}
			if until := hs.base.Add(got.until); !until.Equal(want.until) {
				t.Fatalf("job %d: until %v, want %v", want.id, until, want.until)
			}
		}
	}
}

// TestNoPointersInHoldings: the garbage collector must not visit a million holdings.
func TestNoPointersInHoldings(t *testing.T) {
	var check func(reflect.Type)
	check = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Struct:
			for i := range of.NumField() {
				check(of.Field(i).Type)
			}
		case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64:
		default:
			t.Errorf("there is a %v", of)
		}
	}
	check(reflect.TypeFor[holding]())
}
