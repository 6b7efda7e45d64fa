package tube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestScheduleList inserts and removes many schedules in random order.
func TestScheduleList(t *testing.T) {
	var l sorted[string, *scheduled]
	r := rand.New(rand.NewPCG(1, 1))
	var want []string // sorted
	for i := range 6000 {
		name := fmt.Sprint(r.IntN(3000))
		at, found := slices.BinarySearch(want, name)
		if s := l.find(name); (s != nil) != found || found && s.record.Name != name {
			t.Fatalf("%s is found: %v, want %v", name, s != nil, found)
		}
		switch {
		case i >= 4000 && (l.remove(name) != nil) != found:
			t.Fatalf("%s is removed: %v", name, !found)
		case i >= 4000 && found:
			want = slices.Delete(want, at, at+1)
		case i < 4000 && !found:
			l.insert(&scheduled{record: &Schedule{Name: name}})
			want = slices.Insert(want, at, name)
		}
	}
	for _, cursor := range []string{"", "0", "1500", "1500a", "zzz"} {
		var got []string
		for s := range l.after(cursor) {
			got = append(got, s.record.Name)
		}
		first, found := slices.BinarySearch(want, cursor)
		if found {
			first++
		}
		if !slices.Equal(got, want[first:]) {
			t.Fatalf("after %q there are %d, want %d", cursor, len(got), len(want)-first)
		}
	}
	for _, name := range want {
		l.remove(name)
	}
	if len(l.parts) != 0 {
		t.Errorf("an empty list has %d parts", len(l.parts))
	}
}
