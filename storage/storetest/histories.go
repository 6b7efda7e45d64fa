package storetest

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

var (
	histories = flag.Int("histories", 2, "random histories that each engine is taken through")
	steps     = flag.Int("steps", 400, "operations of a random history")
	firstSeed = flag.Uint64("seed", 1, "seed of the first random history")
)

// breath is the time between any two operations, so that no two have the same time: engines
// may choose the order of things that are due at the same time. The model's clock moves by
// whole units only (Engine.Unit), as do delays and TTRs. The clock of a real store goes on by
// itself. So what is due agrees as long as the breaths of a few seconds make up less than one
// second, and less than a unit really passes meanwhile.
const breath = 2 * time.Millisecond

// tolerance is by how much times may differ for these reasons, if the unit is one second.
const tolerance = 900 * time.Millisecond

// unit returns Engine.Unit in seconds.
func (e *Engine) unit() int { return max(e.Unit, 1) }

// stretch makes the times of operations multiples of the engine's unit. If that is more than a
// second no TTR is 0, which means one second.
func (e *Engine) stretch(batch []storage.Op) {
	unit := uint32(e.unit())
	for i := range batch {
		op := &batch[i]
		op.Delay *= unit
		op.In *= time.Duration(unit)
		stretchRare(op, time.Duration(unit))
		if unit > 1 {
			op.TTR = max(op.TTR, 1) * unit
		}
	}
}

// stretchRare does so with the times of tags and policies.
func stretchRare(op *storage.Op, unit time.Duration) {
	if op.Args == nil {
		return
	}
	rare := *op.Args
	op.Args = &rare
	if rare.Tags != nil {
		tags := *rare.Tags
		tags.Delay *= unit
		tags.Rules = stretchRules(tags.Rules, unit)
		rare.Tags = &tags
	}
	if rare.Policy != nil {
		policy := *rare.Policy
		policy.Rules = stretchRules(policy.Rules, unit)
		rare.Policy = &policy
	}
}

func stretchRules(r tube.Rules, unit time.Duration) tube.Rules {
	r.KeyTTL *= unit
	r.Retry = slices.Clone(r.Retry)
	for i := range r.Retry {
		r.Retry[i] *= unit
	}
	return r
}

// runHistories takes the engine and the model through the same random
// histories and compares every answer. With ruled there are tags, policies and leases in them.
func runHistories(t *testing.T, fresh func(testing.TB) *Engine, ruled bool) {
	covered, brief := make(map[string]int), 1
	many := *histories
	if ruled {
		many = (many + 1) / 2
	}
	for i := range uint64(many) {
		seed := *firstSeed + i
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			e := fresh(t)
			if ruled && e.Plain != nil {
				e = e.Plain
			}
			h := newHistory(t, e, seed)
			h.covered = covered
			h.setRules(ruled)
			brief = max(h.engine.Brief, 1)
			for range *steps / brief {
				h.step()
			}
		})
	}
	if len(covered) > 0 && *histories*(*steps)/brief >= 4000 {
		reportCoverage(t, covered)
	}
}

func newHistory(t testing.TB, e *Engine, seed uint64) *history {
	return &history{
		rig: newRig(t, e), model: NewModel(), covered: make(map[string]int),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
}

// setRules says whether there are tags, policies and leases in the history.
func (h *history) setRules(ruled bool) {
	h.ruled = ruled
	switch {
	case ruled && h.engine.LearnIDs:
		h.learns = newLearning(h)
		h.burying = h.random.IntN(3) == 0
	case ruled && h.engine.LateDeadLetters:
		h.empty = h.random.IntN(2) == 0
		h.burying = !h.empty
	}
}

// reportCoverage fails if a state × move × holder pair never came up.
func reportCoverage(t *testing.T, covered map[string]int) {
	for _, state := range []tube.State{tube.Ready, tube.Delayed, tube.Buried, tube.Reserved} {
		for move := tube.ReserveJob; move < tube.Expire; move++ {
			for _, mine := range []bool{false, true} {
				if mine && state != tube.Reserved {
					continue
				}
				if key := coverKey(state, move, mine); covered[key] == 0 {
					t.Errorf("never tried: %s", key)
				}
			}
		}
	}
	t.Logf("state × move × holder pairs tried: %d", len(covered))
}

func coverKey(s tube.State, m tube.Move, mine bool) string {
	return fmt.Sprintf("%v, %v, mine: %v", s, m, mine)
}

// history is one random history under way.
type history struct {
	*rig
	model   *Model
	ruled   bool      // there are tags, policies and leases in it
	empty   bool      // ruled: no job has a body
	burying bool      // ruled: no job goes to a dead-letter tube
	learns  *learning // nil if all ids can be foretold
	random  *rand.Rand
	log     []string
	covered map[string]int

	trail *trail // nil unless this is the history of a Walk
	ended bool   // the store has answered ErrClosed, which only that of a Walk may
}

// step does one thing to engine and model.
func (h *history) step() {
	if h.random.IntN(100) < 6 {
		h.pass(time.Duration((1+h.random.IntN(4))*h.engine.unit()) * time.Second)
	} else if h.ruled && h.random.IntN(20) == 0 {
		h.pages()
	} else {
		h.compare(h.randomBatch())
	}
	if h.ended {
		return
	}
	if h.engine.Durable && h.random.IntN(cmp.Or(h.engine.RestartEvery, 100)) == 0 {
		h.reopen()
	}
	h.advance(breath)
}

// pages lists the jobs of a tube in a state, page by page.
func (h *history) pages() {
	op := storage.Op{Kind: storage.ListJobs, Tube: tubeNames[h.random.IntN(len(tubeNames))], State: tube.Ready + tube.State(h.random.IntN(4)), MaxJobs: uint32(1 + h.random.IntN(4))}
	for cursor, more := "", true; more && !h.ended; more = cursor != "" {
		op.Args = &storage.Args{Cursor: cursor}
		batch := []storage.Op{op}
		if h.compare(batch); !h.ended {
			cursor = batch[0].Answer.Result.Cursor
		}
	}
}

// pass lets time pass.
func (h *history) pass(d time.Duration) {
	h.note("%v pass", d)
	h.model.Tick(h.model.now + d)
	h.trail.happened(h.model)
	h.advance(d)
	h.learns.settle()
}

// reopen ends the store and opens it again.
func (h *history) reopen() {
	if h.engine.CleanCrash && h.random.IntN(2) == 0 {
		if h.engine.LateReserves {
			h.compare([]storage.Op{h.lastChange()})
		}
		h.note("crashed and opened again")
		h.totals() // once it is answered, what has expired before is kept as well
		h.engine.Crash(h.store)
	} else {
		h.note("closed and opened again")
		h.close()
	}
	h.open()
	h.model.Reopen(h.engine.KeepsTubes)
	h.trail.happened(h.model)
	h.learns.settle()
}

// lastChange is a change that is acknowledged before a crash. A put may be refused if there
// are rules.
func (h *history) lastChange() storage.Op {
	if h.ruled {
		return storage.Op{Kind: storage.Pause, Tube: tube.Default, Delay: 1}
	}
	return storage.Op{Kind: storage.Put, Tube: "a", TTR: 1, Body: []byte("the last change")}
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// compare carries out a batch on both sides.
func (h *history) compare(batch []storage.Op) {
	h.engine.stretch(batch)
	mine := slices.Clone(batch)
	h.model.Begin()
	for i := range mine {
		h.cover(&mine[i])
		h.model.Do(&mine[i])
	}
	n, done, given := h.trail.happened(h.model), make(chan struct{}), lent(batch)
	h.store.Do(&storage.Batch{Ops: given, Done: func() {
		if !hasEnded(given) && !(h.engine.LateReserves && onlyReserves(given)) {
			h.trail.acknowledged(n)
		}
		close(done)
	}})
	<-done
	receive(batch, given)
	if h.ended = h.trail != nil && hasEnded(batch); h.ended {
		return
	}
	for i := range batch {
		h.note("%s → %s", describe(&batch[i]), show(&batch[i].Answer))
		h.learns.answered(&batch[i], &mine[i].Answer)
		if diff := differ(&batch[i].Answer, &mine[i].Answer, h.engine.unit()); diff != "" {
			h.Fatalf("the store and the model differ: %s\nmodel: %s\nafter:\n%s", diff, show(&mine[i].Answer), strings.Join(h.log, "\n"))
		}
		h.noteLease(&batch[i])
	}
	h.learns.settle()
}

// noteLease has the model know the token of a job that the store has just leased.
func (h *history) noteLease(op *storage.Op) {
	r, j := op.Answer.Result, h.model.job(op.Answer.ID)
	if op.Kind != storage.Take || r == nil || r.Lease == 0 || j == nil {
		return
	}
	if r.Lease <= j.leases {
		h.Fatalf("job %d has the lease %d after %d", j.id, r.Lease, j.leases)
	}
	j.lease, j.leases = r.Lease, r.Lease
}

// cover notes which state and move an operation brings together.
func (h *history) cover(op *storage.Op) {
	if op.Kind != storage.Move {
		return
	}
	if j := h.model.job(op.ID); j != nil {
		h.covered[coverKey(j.state, op.Move, j.state == tube.Reserved && j.holder == op.Holder)]++
	}
}
