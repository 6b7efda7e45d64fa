package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// batchState is what a batch has come to, and how many jobs after it wait or run.
type batchState struct {
	name                        string
	pending, parked, done, gone uint64
	held, ready                 uint64
	sealed                      bool
	verdict                     tube.Verdict
}

// batchCuts is an engine with one batch after another. Its power is cut at random points.
type batchCuts struct {
	*stateCuts[batchState]
	batch int      // number of the present one
	ids   []uint64 // of its members that are ready
}

// TestBatchPowerCuts cuts the power at random moments while members of batches are put and end, and jobs after them run. What is
// left is always one of the states that there were, whole: a member that has ended is counted, and counted once.
func TestBatchPowerCuts(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 400
	}
	c, n := &batchCuts{stateCuts: newStateCuts(t, batchState{name: "b0"})}, 0
	c.run(func() bool { n++; return n > steps }, c.step, c.cut, steps/100)
	t.Logf("%d batches", c.batch)
}

// put returns a put of a job with tags.
func (c *batchCuts) put(name string, tags tube.Tags) storage.Op {
	body := bytes.Repeat([]byte("b"), 10+c.random.IntN(4000))
	return storage.Op{Kind: storage.Put, Tube: name, TTR: 60, Body: body, Args: &storage.Args{Tags: &tags}}
}

// step changes the batch.
func (c *batchCuts) step() {
	s := c.last()
	args := &storage.Args{Name: s.name}
	switch n := c.random.IntN(10); {
	case s.verdict == tube.BatchDone:
		c.batch++
		c.change(batchState{name: fmt.Sprint("b", c.batch)}, storage.Op{Kind: storage.Flush, Tube: "after"})
	case s.sealed && s.pending == 0:
		b := do(c.t, c.e, storage.Op{Kind: storage.GetRecord, Records: tube.JobBatches, Args: args})[0].Answer.Result.Batches()[0]
		s.held, s.ready, s.verdict = 0, s.held, tube.BatchDone
		settle := &tube.Settlement{Stamp: b.Stamp, Verdict: tube.BatchDone, Due: b.Created.Plus(time.Hour)}
		c.change(s, storage.Op{Kind: storage.SettleBatch, MaxJobs: 100, Args: &storage.Args{Name: s.name, Settle: settle}})
	case !s.sealed && n == 0:
		s.sealed = true
		c.change(s, storage.Op{Kind: storage.SealBatch, Args: args})
	case !s.sealed && n < 3:
		s.held++
		c.change(s, c.put("after", tube.Tags{After: s.name}))
	case !s.sealed && n < 7:
		s.pending += 2
		for _, op := range c.change(s, c.put("t", tube.Tags{Batch: s.name}), c.put("t", tube.Tags{Batch: s.name})) {
			c.ids = append(c.ids, op.Answer.ID)
		}
	case len(c.ids) > 0:
		c.end(s)
	}
}

// end ends a member, which perhaps is reserved first, or flushes all.
func (c *batchCuts) end(s batchState) {
	if c.random.IntN(20) == 0 {
		s.gone, s.pending, c.ids = s.gone+s.pending, 0, nil
		c.change(s, storage.Op{Kind: storage.Flush, Tube: "t"})
		return
	}
	at := c.random.IntN(len(c.ids))
	id := c.ids[at]
	c.ids = slices.Delete(c.ids, at, at+1)
	ops := []storage.Op{{Kind: storage.Move, Move: tube.ReserveJob, Holder: 1, ID: id}, {Kind: storage.Move, Move: tube.Delete, Holder: 1, ID: id}}
	s.pending, s.done = s.pending-1, s.done+1
	c.change(s, ops[c.random.IntN(2):]...)
}

// cut checks what a power cut has left, and goes on with that.
func (c *batchCuts) cut(left *diskImage) {
	c.t.Helper()
	possible := c.states[left.acked:]
	c.goOn(left)
	for i := len(possible) - 1; i >= 0; i-- {
		if c.stateNow(possible[i].name) == possible[i] {
			c.states[0] = possible[i]
			c.ids = c.members(possible[i].name)
			return
		}
	}
	c.t.Fatalf("power cut %s: %+v is none of %+v", left.when, c.stateNow(possible[0].name), possible)
}

// stateNow returns the state of the engine that was opened.
func (c *batchCuts) stateNow(name string) batchState {
	s := batchState{name: name}
	ops := []storage.Op{
		{Kind: storage.GetRecord, Records: tube.JobBatches, Args: &storage.Args{Name: name}},
		{Kind: storage.TubeStats, Tube: "after"},
	}
	storage.DoWait(c.e, ops)
	if a := &ops[0].Answer; !a.NotFound {
		b := a.Result.Batches()[0]
		s.pending, s.parked, s.done, s.gone, s.held, s.sealed, s.verdict = b.Pending, b.Parked, b.Done, b.Gone, b.AfterHeld, b.Sealed, b.Verdict
	}
	if a := &ops[1].Answer; !a.NotFound {
		s.ready = a.TubeStats.Ready
	}
	return s
}

// members returns the ids of the members of a batch.
func (c *batchCuts) members(name string) (ids []uint64) {
	for cursor, more := "", true; more; more = cursor != "" {
		r := do(c.t, c.e, storage.Op{Kind: storage.ListMembers, MaxJobs: 100, Args: &storage.Args{Name: name, Cursor: cursor}})[0].Answer.Result
		for i := range r.Jobs {
			ids = append(ids, r.Jobs[i].ID)
		}
		cursor = r.Cursor
	}
	return ids
}

// BenchmarkPutMember compares puts of members of one batch with plain puts.
func BenchmarkPutMember(b *testing.B) {
	for _, of := range []string{"memory", "disk"} {
		for _, name := range []string{"plain", "member"} {
			b.Run(of+"/"+name, func(b *testing.B) {
				e := NewMemory()
				if of == "disk" {
					var err error
					if e, err = Open(Options{Dir: b.TempDir(), SyncEvery: -1}); err != nil {
						b.Fatal(err)
					}
				}
				defer e.Close()
				body, tags := []byte("0123456789012345678901234567890123456789"), &tube.Tags{Batch: "b"}
				b.ResetTimer()
				for n := 0; n < b.N; n += 64 {
					ops := make([]storage.Op, 64)
					for i := range ops {
						if ops[i] = (storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: body}); name == "member" {
							ops[i].Args = &storage.Args{Tags: tags}
						}
					}
					storage.DoWait(e, ops)
				}
			})
		}
	}
}
