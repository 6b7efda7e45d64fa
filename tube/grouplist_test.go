package tube

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// listGroups returns a page of groups, made in parts of that much work.
func (m *Machine) listGroups(now Instant, tube, cursor string, count, limit int) (page []GroupStats) {
	l := NewGroupListing(tube, cursor, count)
	for {
		if page, _, _, ended := m.ListGroupsSome(now, l, limit); ended {
			return page
		}
	}
}

// readGroups returns the names of all groups of tube t, and calls a function between the parts of pages.
func (m *Machine) readGroups(now Instant, between func()) (names []string) {
	for cursor, more := "", true; more; more = cursor != "" {
		l, ended := NewGroupListing("t", cursor, 700), false
		for page := []GroupStats(nil); !ended; between() {
			page, cursor, _, ended = m.ListGroupsSome(now, l, 100)
			for i := 0; ended && i < len(page); i++ {
				names = append(names, page[i].Name)
			}
		}
	}
	return names
}

// TestGroupPages: pages that are made in parts, while groups come and go, have all groups that are there all the
// time, and in the end exactly those that are there.
func TestGroupPages(t *testing.T) {
	const always = 3000
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, seed))
		m, now := NewMachine(), Instant(time.Hour)
		jobs, all := map[string]uint64{}, map[string]bool{}
		put := func(group string) {
			if jobs[group] == 0 {
				jobs[group] = m.PutTagged(now, NewJob{Tube: "t", TTR: 60}, &Tags{Group: group}).ID
			}
		}
		for i := range always {
			name := fmt.Sprintf("always-%d", i)
			if all[name] = true; i%3 == 0 {
				m.PauseGroup(now, "t", name, 1000)
			} else {
				put(name)
			}
		}
		change := func() {
			for range 50 {
				name := fmt.Sprintf("at times-%d", random.IntN(20_000))
				if id := jobs[name]; id != 0 && random.IntN(3) > 0 {
					m.Remove(now, m.Find(id))
					delete(jobs, name)
				} else {
					put(name)
				}
			}
		}
		for range 400 {
			change()
		}
		names := m.readGroups(now, change)
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Fatal("the groups are not in order")
		}
		for _, name := range names {
			delete(all, name)
		}
		if len(all) > 0 {
			t.Fatalf("%d groups are not found", len(all))
		}
		for name := range jobs {
			all[name] = true
		}
		for i := range always {
			all[fmt.Sprintf("always-%d", i)] = true
		}
		if names, want := m.readGroups(now, func() {}), slices.Sorted(maps.Keys(all)); !slices.Equal(names, want) {
			t.Fatalf("%d groups, want %d", len(names), len(want))
		}
	}
}

// TestGroupPageCost: a page behind another one costs no more with many groups, and has those that came meanwhile. Names
// are not kept for ever.
func TestGroupPageCost(t *testing.T) {
	const groups, count, limit = 20_000, 100, 512
	m, now := NewMachine(), Instant(time.Hour)
	for i := range groups {
		m.PutTagged(now, NewJob{Tube: "t", TTR: 60}, &Tags{Group: fmt.Sprint(i)})
	}
	all := 0
	for page, cursor := 0, ""; page == 0 || cursor != ""; page++ {
		l, work, part, ended := NewGroupListing("t", cursor, count), 0, 0, false
		for !ended {
			if _, cursor, part, ended = m.ListGroupsSome(now, l, limit); part > limit+2 {
				t.Errorf("a part is %d", part)
			}
			work += part
		}
		if all += len(l.page); page > 0 && work > count+1 {
			t.Errorf("page %d costs %d", page, work)
		}
		if page == 3 {
			m.PutTagged(now, NewJob{Tube: "t", TTR: 60}, &Tags{Group: "5 is new"})
			m.PauseGroup(now, "t", "6 is paused", 60)
		}
	}
	if all != groups+2 || m.listed.names != nil {
		t.Errorf("%d groups", all)
	}
	m.listGroups(now, "t", "", count, limit)
	if m.Tick(now.Plus(groupNamesAge), 1); m.listed.names != nil || m.Next() <= now.Plus(groupNamesAge) {
		t.Error("names are kept that are not used")
	}
}
