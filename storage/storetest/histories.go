package storetest

import (
	"cmp"
	"encoding/binary"
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
	histories = flag.Int("histories", 10, "random histories that each engine is taken through")
	steps     = flag.Int("steps", 400, "operations of a random history")
	firstSeed = flag.Uint64("seed", 1, "seed of the first random history")
)

// breath is between any two operations, so that no two of them have the same
// time: engines may order what is due at the same time as they like. The
// model's clock moves by whole units only, as do delays and TTRs, and the
// clock of a real store goes on by itself; so what is due must agree while the
// breaths of a few seconds make up less than one, and what really passes
// meanwhile less than a unit of the engine's.
const breath = 2 * time.Millisecond

// tolerance is by how much times may differ for these reasons, with a unit of one
// second.
const tolerance = 900 * time.Millisecond

// unit is what the times of the engine's histories are multiples of, in seconds.
func (e *Engine) unit() int { return max(e.Unit, 1) }

// stretch makes the times of operations multiples of the engine's unit. If that is
// more than a second no TTR is 0, which means a second.
func (e *Engine) stretch(batch []storage.Op) {
	unit := uint32(e.unit())
	for i := range batch {
		op := &batch[i]
		op.Delay *= unit
		if unit > 1 {
			op.TTR = max(op.TTR, 1) * unit
		}
	}
}

// runHistories takes the engine and the model through the same random
// histories and compares every answer.
func runHistories(t *testing.T, fresh func(testing.TB) *Engine) {
	covered, brief := make(map[string]int), 1
	for i := range uint64(*histories) {
		seed := *firstSeed + i
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := newHistory(t, fresh(t), seed)
			h.covered = covered
			brief = max(h.engine.Brief, 1)
			for range *steps / brief {
				h.step()
			}
		})
	}
	if *histories*(*steps)/brief >= 4000 {
		reportCoverage(t, covered)
	}
}

func newHistory(t testing.TB, e *Engine, seed uint64) *history {
	return &history{
		bench: newBench(t, e), model: NewModel(), covered: make(map[string]int),
		random: rand.New(rand.NewPCG(seed, 0)),
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
	*bench
	model   *Model
	random  *rand.Rand
	log     []string
	covered map[string]int

	trail *trail // nil unless somebody takes the steps, see Walk
	ended bool   // the store has, which only a Walk's may
}

var tubeNames = []string{"a", "b", "c", tube.Default}

// step does one thing to engine and model.
func (h *history) step() {
	if h.random.IntN(100) < 6 {
		h.pass(time.Duration((1+h.random.IntN(4))*h.engine.unit()) * time.Second)
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

func (h *history) pass(d time.Duration) {
	h.note("%v pass", d)
	h.model.Tick(h.model.now + d)
	h.trail.happened(h.model)
	h.advance(d)
}

func (h *history) reopen() {
	if h.engine.CleanCrash && h.random.IntN(2) == 0 {
		if h.engine.LateReserves {
			h.compare([]storage.Op{{Kind: storage.Put, Tube: "a", TTR: 1, Body: []byte("the last change")}})
		}
		h.note("crashed and opened again")
		h.totals() // answered: so what expired before, which nobody was told, is kept too
		h.engine.Crash(h.store)
	} else {
		h.note("closed and opened again")
		h.close()
	}
	h.open()
	h.model.Reopen(h.engine.KeepsTubes)
	h.trail.happened(h.model)
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// compare carries out a batch on both sides.
func (h *history) compare(batch []storage.Op) {
	h.engine.stretch(batch)
	mine := slices.Clone(batch)
	for i := range mine {
		h.cover(&mine[i])
		h.model.Do(&mine[i])
	}
	n, done := h.trail.happened(h.model), make(chan struct{})
	h.store.Do(&storage.Batch{Ops: batch, Done: func() {
		if !hasEnded(batch) && !(h.engine.LateReserves && onlyReserves(batch)) {
			h.trail.acknowledged(n)
		}
		close(done)
	}})
	<-done
	if h.ended = h.trail != nil && hasEnded(batch); h.ended {
		return
	}
	for i := range batch {
		h.note("%s → %s", describe(&batch[i]), show(&batch[i].Answer))
		if diff := differ(&batch[i].Answer, &mine[i].Answer, h.engine.unit()); diff != "" {
			h.Fatalf("the store and the model differ: %s\nmodel: %s\nafter:\n%s", diff, show(&mine[i].Answer), strings.Join(h.log, "\n"))
		}
	}
}

func (h *history) cover(op *storage.Op) {
	if op.Kind != storage.Move {
		return
	}
	if j := h.model.job(op.ID); j != nil {
		h.covered[coverKey(j.state, op.Move, j.state == tube.Reserved && j.holder == op.Holder)]++
	}
}

func (h *history) randomBatch() []storage.Op {
	switch h.random.IntN(20) {
	case 0:
		return h.manyPuts()
	case 1:
		return h.manyTakes()
	}
	n := 1
	if h.random.IntN(4) == 0 {
		n += h.random.IntN(5)
	}
	batch := make([]storage.Op, n)
	for i := range batch {
		batch[i] = h.randomOp()
		if i > 0 {
			batch[i].Delta = max(batch[i].Delta, -batch[i].Delta) // an end must not come twice
		}
	}
	return batch
}

// manyPuts makes up puts into one tube, mostly with one priority, which an engine
// may do as one.
func (h *history) manyPuts() []storage.Op {
	r := h.random
	pri := []uint32{5, 1024}[r.IntN(2)]
	batch := make([]storage.Op, 2+r.IntN(10))
	for i := range batch {
		if r.IntN(12) == 0 {
			pri ^= 1024
		}
		batch[i] = storage.Op{
			Kind: storage.Put, Tube: tubeNames[r.IntN(len(tubeNames))], Pri: pri, TTR: uint32(r.IntN(8)), Body: h.randomBody(),
		}
		if i > 0 && r.IntN(30) > 0 {
			batch[i].Tube = batch[i-1].Tube
		}
	}
	return batch
}

// manyTakes makes up takes from one tube.
func (h *history) manyTakes() []storage.Op {
	r := h.random
	batch, tubes := make([]storage.Op, 2+r.IntN(10)), []string{tubeNames[r.IntN(len(tubeNames))]}
	for i := range batch {
		batch[i] = storage.Op{Kind: storage.Take, Holder: tube.Holder(1 + r.IntN(3)), Tubes: tubes}
	}
	return batch
}

// randomOp makes up an operation.
func (h *history) randomOp() storage.Op {
	r := h.random
	op := storage.Op{
		Holder: tube.Holder(1 + r.IntN(3)), Tube: tubeNames[r.IntN(len(tubeNames))],
		Pri: []uint32{0, 5, 1023, 1024, 4294967295}[r.IntN(5)], TTR: uint32(r.IntN(8)),
		ID: h.randomID(),
	}
	if r.IntN(3) == 0 {
		op.Delay = uint32(1 + r.IntN(6))
	}
	switch n := r.IntN(100); {
	case n < 22:
		op.Kind, op.Body = storage.Put, h.randomBody()
	case n < 40:
		op.Kind, op.Wait = storage.Take, r.IntN(2) == 0
		for _, i := range r.Perm(len(tubeNames))[:1+r.IntN(3)] {
			op.Tubes = append(op.Tubes, tubeNames[i])
		}
	case n < 70:
		op.Kind, op.Move = storage.Move, tube.ReserveJob+tube.Move(r.IntN(int(tube.Expire-tube.ReserveJob)))
		if j := h.model.job(op.ID); j != nil && j.state == tube.Reserved && r.IntN(2) == 0 {
			op.Holder = j.holder
		}
	case n < 74:
		op.Kind, op.Bound = storage.Kick, uint32(r.IntN(4))
	case n < 77:
		op.Kind = storage.Peek
	case n < 80:
		op.Kind, op.State = storage.PeekHead, []tube.State{tube.Ready, tube.Delayed, tube.Buried}[r.IntN(3)]
	case n < 82:
		op.Kind, op.Delay = storage.Pause, uint32(1+r.IntN(3))
	case n < 84:
		op.Kind = storage.Leave
	case n < 88:
		op = h.randomAttend(op)
	case n < 93:
		op.Kind = storage.JobStats
	case n < 96:
		op.Kind = storage.TubeStats
	case n < 98:
		op.Kind = storage.Stats
	default:
		op.Kind = storage.Tubes
	}
	return op
}

// onlyReserves tells whether a batch does nothing but reserve, attend or leave.
func onlyReserves(batch []storage.Op) bool {
	for i := range batch {
		switch op := &batch[i]; {
		case op.Kind == storage.Take, op.Kind == storage.Attend, op.Kind == storage.Leave:
		case op.Kind == storage.Move && op.Move == tube.ReserveJob:
		default:
			return false
		}
	}
	return true
}

func (h *history) randomBody() []byte {
	body := fmt.Append(nil, "body ", h.random.IntN(1000))
	if h.engine.LargeBodies == 0 || h.random.IntN(h.engine.LargeBodies) > 0 {
		return body
	}
	for n := h.random.IntN(100_000); len(body) < n; { // nothing that would compress
		body = binary.LittleEndian.AppendUint64(body, h.random.Uint64())
	}
	return body
}

// randomID is mostly that of a job, every other time of one in a state drawn
// first, so that jobs in rare states get their share.
func (h *history) randomID() uint64 {
	if h.random.IntN(2) == 0 {
		state := []tube.State{tube.Ready, tube.Reserved, tube.Delayed, tube.Buried}[h.random.IntN(4)]
		if n, _ := h.model.count(state, everywhere); n > 0 {
			return h.nth(state, h.random.IntN(int(n)))
		}
	}
	if n := len(h.model.jobs); n > 0 && h.random.IntN(10) > 0 {
		return h.model.jobs[h.random.IntN(n)].id
	}
	return uint64(h.random.IntN(int(h.model.lastID) + 3))
}

func everywhere(*modelJob) bool { return true }

// nth returns the id of the n-th job in a state.
func (h *history) nth(state tube.State, n int) uint64 {
	for _, j := range h.model.jobs {
		if j.state != state {
			continue
		}
		if n == 0 {
			return j.id
		}
		n--
	}
	return 0
}

// randomAttend begins or ends an attendance, never one that there is not.
func (h *history) randomAttend(op storage.Op) storage.Op {
	op.Kind, op.Tubes, op.Delta = storage.Attend, []string{op.Tube}, 1
	op.Role = tube.Role(h.random.IntN(2))
	t := h.model.find(op.Tube)
	if t == nil || h.random.IntN(2) == 0 {
		return op
	}
	if op.Role == tube.Using && t.using > 0 || op.Role == tube.Watching && t.watching > 0 {
		op.Delta = -1
	}
	return op
}

// differ compares answers and says where they differ, "" if nowhere.
func differ(got, want *storage.Answer, unit int) string {
	most := time.Duration(unit) * tolerance
	switch {
	case got.Err != nil:
		return "error: " + got.Err.Error()
	case got.NotFound != want.NotFound:
		return "found"
	case got.ID != want.ID:
		return "id"
	case string(got.Body) != string(want.Body):
		return "body"
	case got.Count != want.Count:
		return "count"
	case !near(got.Soon, want.Soon, most):
		return "deadline soon"
	case !slices.Equal(got.Names, want.Names):
		return "names"
	case (got.Job == nil) != (want.Job == nil), (got.TubeStats == nil) != (want.TubeStats == nil), (got.Stats == nil) != (want.Stats == nil):
		return "kind of answer"
	case got.Job != nil && !sameJob(*got.Job, *want.Job, most):
		return "job"
	case got.TubeStats != nil && !sameTube(*got.TubeStats, *want.TubeStats, most):
		return "tube"
	case got.Stats != nil && got.Stats.Totals != want.Stats.Totals:
		return "totals"
	}
	return ""
}

func near(a, b, most time.Duration) bool { return a == b || (a-b).Abs() < most }

func sameJob(got, want tube.JobStats, most time.Duration) bool {
	same := near(got.TimeLeft, want.TimeLeft, most)
	got.TimeLeft, got.Age, got.File = want.TimeLeft, want.Age, want.File
	return same && got == want
}

func sameTube(got, want tube.TubeStats, most time.Duration) bool {
	same := near(got.PauseLeft, want.PauseLeft, most)
	got.PauseLeft = want.PauseLeft
	return same && got == want
}

var kindNames = []string{"put", "take", "move", "kick", "peek", "peek-head", "job-stats", "tube-stats", "stats", "tubes", "pause", "attend", "leave"}

// describe tells what an operation asks for.
func describe(op *storage.Op) string {
	switch op.Kind {
	case storage.Put:
		return fmt.Sprintf("put into %s, pri %d, delay %d, TTR %d", op.Tube, op.Pri, op.Delay, op.TTR)
	case storage.Take:
		return fmt.Sprintf("take for %d from %v", op.Holder, op.Tubes)
	case storage.Move:
		return fmt.Sprintf("%v job %d by %d, pri %d, delay %d", op.Move, op.ID, op.Holder, op.Pri, op.Delay)
	case storage.Attend:
		return fmt.Sprintf("attend %v, role %d, %+d", op.Tubes, op.Role, op.Delta)
	}
	return fmt.Sprintf("%s: tube %s, id %d, holder %d, state %v, bound %d, delay %d", kindNames[op.Kind], op.Tube, op.ID, op.Holder, op.State, op.Bound, op.Delay)
}

// show tells what an answer says.
func show(a *storage.Answer) string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.NotFound && a.Soon != 0:
		return fmt.Sprintf("nothing, DEADLINE_SOON in %v", a.Soon)
	case a.NotFound:
		return "not found"
	case a.Job != nil:
		return fmt.Sprintf("%+v", *a.Job)
	case a.TubeStats != nil:
		return fmt.Sprintf("%+v", *a.TubeStats)
	case a.Stats != nil:
		return fmt.Sprintf("%+v", a.Stats.Totals)
	case a.Names != nil:
		return fmt.Sprint(a.Names)
	}
	return fmt.Sprintf("job %d %.40q of %d bytes, count %d", a.ID, a.Body, len(a.Body), a.Count)
}
