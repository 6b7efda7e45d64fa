package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"redstalk/protocol"
	"redstalk/storage"
)

// TestWatchlist compares a list with a model of beanstalkd's, and checks that lent lists do not
// change.
func TestWatchlist(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(3, seed))
		l, model := newWatchlist("default"), []string{"default"}
		var lent, copies [][]string
		for range 3000 {
			name := fmt.Sprint("t", random.IntN(int(10+seed*20)))
			i := slices.Index(model, name)
			if got := l.find([]byte(name)); got != i {
				t.Fatalf("%s is at %d, want %d of %v", name, got, i, model)
			}
			switch do := random.IntN(12); {
			case do == 0:
				lent = append(lent, l.lend())
				copies = append(copies, slices.Clone(model))
			case do == 1:
				l.endLend()
				lent, copies = nil, nil
			case i < 0 && do < 8:
				l.add(name)
				model = append(model, name)
			case i >= 0 && len(model) > 1:
				l.remove(i)
				model[i] = model[len(model)-1]
				model = model[:len(model)-1]
			}
			if !slices.Equal(l.names, model) {
				t.Fatalf("%v, want %v", l.names, model)
			}
			for n := range lent {
				if !slices.Equal(lent[n], copies[n]) {
					t.Fatalf("lent as %v, is %v", copies[n], lent[n])
				}
			}
		}
		if got, want := l.removeAll(), removalOrder(model); !slices.Equal(got, want) {
			t.Fatalf("removed in the order %v, want %v", got, want)
		}
	}
}

// removalOrder returns the order in which beanstalkd removes all names of a list.
func removalOrder(names []string) (order []string) {
	for len(names) > 0 {
		last := len(names) - 1
		order = append(order, names[0])
		names[0] = names[last]
		names = names[:last]
	}
	return order
}

// TestWatchlistShrinks: tubes that are not watched any more use no memory.
func TestWatchlistShrinks(t *testing.T) {
	l := newWatchlist("default")
	for i := range 10_000 {
		l.add(fmt.Sprint("t", i))
	}
	for l.len() > 1 {
		l.remove(l.len() - 1)
	}
	if cap(l.names) > 4*manyWatched || l.indexes != nil {
		t.Errorf("there is room for %d names, and a map of %d", cap(l.names), len(l.indexes))
	}
}

// allocated returns how many bytes are allocated while do runs.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// manyTubes is how many tubes are watched in tests that the cost does not grow with their square.
const manyTubes = 5000

// TestWatchingManyTubes: the cost per tube of watch, of ignore and of the end of a connection does not
// depend on the number of tubes.
func TestWatchingManyTubes(t *testing.T) {
	withServer(t, func(h *harness) {
		c, other := h.connect(), h.connect()
		got := allocated(func() {
			c.watchMany("t", manyTubes)
			for i := range manyTubes / 2 {
				c.send(fmt.Sprint("ignore t", i), "reserve-with-timeout 0")
				<-c.lines
				<-c.lines
			}
			c.close()
			synctest.Wait()
		})
		if most := uint64(manyTubes * 8 << 10); got > most {
			t.Errorf("%d bytes were allocated, want at most %d", got, most)
		}
		if got := other.stat("stats", "current-tubes"); got != "1" {
			t.Errorf("%s tubes are left", got)
		}
		if h.store.mostRefs > maxUnwatch+1 {
			t.Errorf("a batch stopped watching %d tubes", h.store.mostRefs)
		}
	})
}

// TestSessionEndInBatches: a connection that ends gives back its jobs first, and then stops watching its
// tubes in beanstalkd's order, even if the store fails meanwhile.
func TestSessionEndInBatches(t *testing.T) {
	for _, fails := range []bool{false, true} {
		withServer(t, func(h *harness) {
			c := h.connect()
			c.watchMany("t", 2*maxUnwatch)
			c.put(60, "x")
			c.send("reserve")
			c.want("RESERVED 1 1", "x")
			names := []string{"default"}
			for i := range 2 * maxUnwatch {
				names = append(names, fmt.Sprint("t", i))
			}
			var kinds []storage.Kind
			var order []string
			h.store.set(func(p *proxyStore) {
				p.onDo = func(b *storage.Batch) {
					for i := range b.Ops {
						kinds = append(kinds, b.Ops[i].Kind)
						order = append(order, b.Ops[i].Tubes...)
					}
				}
				if fails {
					p.fail = func(*storage.Op) error { return storage.ErrUnavailable }
				}
			})
			c.close()
			synctest.Wait()
			if kinds[0] != storage.ReleaseAll || slices.Contains(kinds[1:], storage.ReleaseAll) {
				t.Errorf("the end of the connection is %v", kinds)
			}
			if want := append(removalOrder(names), "default"); !slices.Equal(order, want) {
				t.Errorf("tubes are left in the order\n%v, want\n%v", order, want)
			}
			if batches := len(kinds) - 2; batches != 3 && !fails || batches != 2 && fails {
				t.Errorf("the end took %d batches", batches)
			}
			h.store.set(func(p *proxyStore) { p.fail, p.onDo = nil, nil })
		})
	}
}

// TestBurstIsBoundedByTubes: reserves on very many tubes go to the store in several batches.
func TestBurstIsBoundedByTubes(t *testing.T) {
	withServer(t, func(h *harness) {
		c := h.connect()
		c.watchMany("t", manyTubes)
		c.sendRaw(strings.Repeat("reserve-with-timeout 0\r\n", 50))
		for range 50 {
			c.want("TIMED_OUT")
		}
		if most := maxBurstTubes + manyTubes; h.store.mostSearched > most {
			t.Errorf("a batch searches %d tubes, want at most %d", h.store.mostSearched, most)
		}
	})
}

// TestIgnoreWithinBurst: a reserve looks in the tubes that were watched at its position in the burst, also
// if the list is too long to be copied.
func TestIgnoreWithinBurst(t *testing.T) {
	for _, n := range []int{1, manyWatched, 3 * manyWatched} {
		withServer(t, func(h *harness) {
			c, producer := h.connect(), h.connect()
			c.watchMany("t", n)
			producer.send("use t0")
			<-producer.lines
			producer.put(60, "x")
			producer.put(60, "y")
			c.send("reserve-with-timeout 0", "list-tubes-watched", "ignore t0", "reserve-with-timeout 0",
				"watch t0", "reserve-with-timeout 0")
			c.want("RESERVED 1 1", "x")
			var p protocol.Page
			p.Item("default")
			for i := range n {
				p.Item(fmt.Sprint("t", i))
			}
			page := string(p.Bytes())
			c.want(fmt.Sprint("OK ", len(page)))
			c.want(strings.Split(page, "\n")...)
			c.want(fmt.Sprint("WATCHING ", n), "TIMED_OUT", fmt.Sprint("WATCHING ", n+1), "RESERVED 2 1", "y")
		})
	}
}
