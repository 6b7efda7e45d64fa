package differ

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// shrinker reduces a failing script while it continues to fail in the same way.
type shrinker struct {
	fails    func([]step) bool // on fresh servers
	parallel int
	deadline time.Time
}

// shrink tries to remove more and more: the end, connections, steps,
// commands; to merge connections; and then to simplify what is
// left.
func (s *shrinker) shrink(script []step) []step {
	for {
		size := weight(script)
		script = s.dropConns(script)
		script = s.joinConns(script)
		script = s.dropSteps(script)
		script = s.dropCommands(script)
		script = s.simplify(script)
		if weight(script) >= size || time.Now().After(s.deadline) {
			return script
		}
	}
}

// weight is a measure of a script's size.
func weight(script []step) int {
	n := 0
	for _, s := range script {
		n += 2 + 2*len(s.commands) + len(s.cuts)
		if s.fin {
			n++
		}
	}
	return n
}

// first returns the first of the candidates that fails, nil if none does. It tries
// several concurrently.
func (s *shrinker) first(candidates [][]step) []step {
	for batch := range slices.Chunk(candidates, s.parallel) {
		if time.Now().After(s.deadline) {
			return nil
		}
		failed := make([]bool, len(batch))
		var wg sync.WaitGroup
		for i, c := range batch {
			wg.Go(func() { failed[i] = s.fails(c) })
		}
		wg.Wait()
		if i := slices.Index(failed, true); i >= 0 {
			return batch[i]
		}
	}
	return nil
}

// connsOf returns the connections of a script.
func connsOf(script []step) []int {
	ids := make(map[int]bool)
	for _, st := range script {
		ids[st.conn] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// joinConns merges connections, so that the preparation of each of them can be
// removed.
func (s *shrinker) joinConns(script []step) []step {
	ids := connsOf(script)
	for i, from := range ids {
		for _, to := range ids[i+1:] {
			joined := slices.Clone(script)
			for at := range joined {
				if joined[at].conn == from {
					joined[at].conn = to
				}
			}
			if s.first([][]step{joined}) != nil {
				script = joined
				break
			}
		}
	}
	return script
}

func (s *shrinker) dropConns(script []step) []step {
	for _, id := range connsOf(script) {
		without := slices.DeleteFunc(slices.Clone(script), func(st step) bool { return st.conn == id })
		if smaller := s.first([][]step{without}); smaller != nil {
			script = smaller
		}
	}
	return script
}

// dropSteps removes runs of steps, long ones first.
func (s *shrinker) dropSteps(script []step) []step {
	for size := max(1, len(script)/2); size > 0; size /= 2 {
		for again := true; again; {
			var candidates [][]step
			for at := len(script) - size; at >= 0; at -= size {
				candidates = append(candidates, slices.Delete(slices.Clone(script), at, at+size))
			}
			smaller := s.first(candidates)
			if again = smaller != nil; again {
				script = smaller
			}
		}
	}
	return script
}

// dropCommands removes runs of commands of one packet.
func (s *shrinker) dropCommands(script []step) []step {
	for i := 0; i < len(script); i++ {
		for size := len(script[i].commands) / 2; size > 0; size /= 2 {
			for at := 0; at+size <= len(script[i].commands) && len(script[i].commands) > 1; {
				smaller := slices.Clone(script)
				smaller[i].commands = slices.Delete(slices.Clone(script[i].commands), at, at+size)
				if s.first([][]step{smaller}) != nil {
					script = smaller
				} else {
					at += size
				}
			}
		}
	}
	return script
}

// simplify sends packets in one piece, and their commands one by one.
func (s *shrinker) simplify(script []step) []step {
	for i := 0; i < len(script); i++ {
		for _, simpler := range [][]step{alone(script, i), whole(script, i), spelledOut(script, i)} {
			if simpler != nil && s.first([][]step{simpler}) != nil {
				script = simpler
			}
		}
	}
	return script
}

func alone(script []step, i int) []step {
	if !script[i].fin {
		return nil
	}
	out := slices.Clone(script)
	out[i].fin = false
	return out
}

func whole(script []step, i int) []step {
	if len(script[i].cuts) == 0 {
		return nil
	}
	out := slices.Clone(script)
	out[i].cuts = nil
	return out
}

func spelledOut(script []step, i int) []step {
	if script[i].fin || len(script[i].commands) < 2 {
		return nil
	}
	var singles []step
	for _, c := range script[i].commands {
		singles = append(singles, step{conn: script[i].conn, commands: []command{c}})
	}
	return slices.Concat(script[:i], singles, script[i+1:])
}
