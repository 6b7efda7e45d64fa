package storetest

import (
	"encoding/binary"
	"fmt"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

var tubeNames = []string{"a", "b", "c", tube.Default}

func (h *history) randomBatch() []storage.Op {
	batch := h.anyBatch()
	h.oneInstance(batch)
	return batch
}

func (h *history) anyBatch() []storage.Op {
	switch h.random.IntN(20) {
	case 0:
		return h.manyPuts()
	case 1:
		return h.manyTakes()
	}
	n := 1
	if h.random.IntN(4) == 0 && !h.late() {
		n += h.random.IntN(5)
	}
	batch := make([]storage.Op, n)
	for i := range batch {
		if h.rules && h.random.IntN(2) == 0 {
			batch[i] = h.randomRulesOp()
		} else {
			batch[i] = h.randomOp()
		}
		if i > 0 {
			batch[i].Delta = max(batch[i].Delta, -batch[i].Delta) // a use must not end twice
		}
	}
	if h.rules {
		h.oneHolder(batch)
	}
	return h.untilPolicy(batch)
}

// manyPuts returns random puts into one tube, mostly with one priority: an engine can carry
// them out together.
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
	if h.rules && r.IntN(2) == 0 {
		h.tagPuts(batch)
	}
	return batch
}

// manyTakes returns random takes from one tube.
func (h *history) manyTakes() []storage.Op {
	r := h.random
	batch, tubes := make([]storage.Op, 2+r.IntN(10)), []string{tubeNames[r.IntN(len(tubeNames))]}
	for i := range batch {
		batch[i] = storage.Op{Kind: storage.Take, Holder: tube.Holder(1 + r.IntN(3)), Tubes: tubes}
	}
	if h.rules {
		h.oneHolder(batch)
	}
	return batch
}

// randomOp returns a random operation.
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
		return h.randomTake(op)
	case n < 70:
		return h.randomMove(op)
	case n < 72:
		op.Kind = storage.SetPriority
	case n < 74:
		op.Kind, op.In = storage.Reschedule, time.Duration(op.Delay)*time.Second
	case n < 76:
		op.Kind, op.MaxJobs = storage.Kick, uint32(r.IntN(4))
		if h.rules {
			op.Args = &storage.Args{KeepCheckpoint: r.IntN(2) == 0}
		}
	case n < 77:
		op.Kind = []storage.Kind{storage.Peek, storage.GetCheckpoint}[r.IntN(2)]
	case n < 80:
		op.Kind, op.State = storage.PeekHead, []tube.State{tube.Ready, tube.Delayed, tube.Buried}[r.IntN(3)]
	case n < 82:
		op.Kind, op.Delay = storage.Pause, uint32(1+r.IntN(3))
	case n < 84:
		op.Kind = storage.ReleaseAll
	case n < 88:
		return h.randomRef(op)
	default:
		op.Kind, op.Info = randomReport(n), true
	}
	return op
}

// randomReport returns a kind of operation that changes nothing, for n from 88 to 99.
func randomReport(n int) storage.Kind {
	switch {
	case n < 93:
		return storage.JobStats
	case n < 96:
		return storage.TubeStats
	case n < 98:
		return storage.Stats
	}
	return storage.Tubes
}

// randomTake makes op a Take from one to three tubes.
func (h *history) randomTake(op storage.Op) storage.Op {
	r := h.random
	op.Kind, op.Wait, op.First = storage.Take, r.IntN(2) == 0, r.IntN(4) == 0
	for _, i := range r.Perm(len(tubeNames))[:1+r.IntN(3)] {
		op.Tubes = append(op.Tubes, tubeNames[i])
	}
	if !op.Wait && r.IntN(4) == 0 {
		op.MaxBytes = uint32(1 + r.IntN(20))
	}
	return op
}

// randomMove makes op a Move, often by the holder of the job.
func (h *history) randomMove(op storage.Op) storage.Op {
	r := h.random
	moves := []tube.Move{tube.ReserveJob, tube.Seize, tube.Delete, tube.Release, tube.Bury, tube.Touch, tube.SaveCheckpoint, tube.KickJob, tube.Snooze, tube.Expire}
	op.Kind, op.Move = storage.Move, moves[r.IntN(len(moves))]
	if op.Move == tube.Delete && r.IntN(3) == 0 {
		op.Move = tube.Finish
	}
	if move, found := h.untried(&op); found && r.IntN(2) == 0 {
		op.Move = move
	}
	if h.rules {
		op.Args = h.randomReason(op.Move, nil)
	}
	if j := h.model.job(op.ID); j != nil && j.state == tube.Reserved && j.holder != tube.LeaseHolder && r.IntN(2) == 0 {
		op.Holder = j.holder
	}
	return op
}

// untried returns a move that was not tried yet with a job in the state of that of op, and of its holder.
func (h *history) untried(op *storage.Op) (move tube.Move, found bool) {
	j := h.model.job(op.ID)
	if j == nil {
		return 0, false
	}
	for move = tube.ReserveJob; move <= tube.Expire; move++ {
		if h.covered[coverKey(j.state, move, j.state == tube.Reserved && j.holder == op.Holder)] == 0 {
			return move, true
		}
	}
	return 0, false
}

func (h *history) randomBody() []byte {
	if h.empty {
		return nil
	}
	body := fmt.Append(nil, "body ", h.random.IntN(1000))
	if h.engine.LargeBodies == 0 || h.random.IntN(h.engine.LargeBodies) > 0 {
		return body
	}
	for n := h.random.IntN(100_000); len(body) < n; { // incompressible
		body = binary.LittleEndian.AppendUint64(body, h.random.Uint64())
	}
	return body
}

// randomID returns mostly the id of a job. Half of the time the state of the job is chosen
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

// late reports whether dead letters can take some time. Then a batch has only one operation that
// can send one, so that no other operation comes after it.
func (h *history) late() bool { return h.learner != nil && !h.burying }

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

// randomRef makes op add a reference to a tube, or remove one that exists.
func (h *history) randomRef(op storage.Op) storage.Op {
	op.Kind, op.Tubes, op.Delta = storage.Ref, []string{op.Tube}, 1
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
