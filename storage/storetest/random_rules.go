package storetest

import (
	"fmt"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// policyTubes are the tubes that can have a policy in a random history.
var policyTubes = append([]string{"morgue"}, tubeNames...)

// policyScopes are these and patterns of them.
var policyScopes = append([]string{"*", "m*", "morgue*", tubeNames[0] + "*"}, policyTubes...)

// randomRulesOp returns a random operation about tags, keys, policies or leases.
func (h *history) randomRulesOp() storage.Op {
	r := h.random
	op := h.randomOp()
	if h.groups && r.IntN(5) == 0 {
		return h.randomGroupOp(storage.Op{})
	}
	op = storage.Op{Tube: tubeNames[r.IntN(len(tubeNames))], ID: op.ID, Pri: op.Pri, Delay: op.Delay, TTR: op.TTR, Args: &storage.Args{}}
	switch n := r.IntN(100); {
	case n < 12:
		return h.randomScheduleOp(op)
	case n < 15:
		return h.randomEnded(op)
	case n < 40:
		op.Kind, op.Body, op.Args.Tags = storage.Put, h.randomBody(), h.randomTags()
	case n < 55:
		op.Holder, op.Args = tube.LeaseHolder, nil
		op = h.randomTake(op)
	case n < 75:
		return h.randomLeased(op)
	case n < 82:
		return h.randomByKey(op)
	case n < 87:
		return h.randomMany(op)
	case n < 91:
		return h.randomReplay(op)
	default:
		return h.randomPolicy(op)
	}
	return op
}

// randomEnded makes op a question about jobs that have ended.
func (h *history) randomEnded(op storage.Op) storage.Op {
	op.Kind, op.Args, op.Wait = storage.WaitEnded, nil, h.random.IntN(2) == 0
	ended := h.model.ended
	if len(ended) < tube.MaxListed && h.random.IntN(3) == 0 { // all of them are one page
		op.Kind, op.MaxJobs = storage.ListEnded, tube.MaxListed
	} else if len(ended) > 0 && h.random.IntN(4) > 0 {
		op.ID = ended[h.random.IntN(len(ended))].job.id
	}
	return op
}

// oneHolder gives all reservations of a batch the same holder: if several jobs of different
// holders expire at the same instant, the order in which they come back is undefined.
func (h *history) oneHolder(batch []storage.Op) {
	if len(batch) == 1 {
		return
	}
	holder := []tube.Holder{1, 2, 3, tube.LeaseHolder}[h.random.IntN(4)]
	for i := range batch {
		op := &batch[i]
		sets := op.Kind == storage.Move && (op.Move.Brings() || op.Move == tube.Touch || op.Move == tube.SaveCheckpoint)
		switch {
		case op.Kind == storage.Take:
			op.Holder = holder
		case sets && op.Holder != holder:
			op.Kind, op.Holder = storage.Peek, 0
		}
	}
}

func (h *history) randomTags() *tube.Tags {
	r := h.random
	if only := h.groupTags(); only != nil {
		return only
	}
	tags := &tube.Tags{Rules: h.randomRules(), OnDuplicate: tube.OnDuplicate(r.IntN(4)), Key: []string{"", "k", "l", "m"}[r.IntN(4)], Group: h.randomGroup()}
	h.randomBatchTags(tags)
	if tags.HasDelay = r.IntN(4) == 0; tags.HasDelay {
		tags.Delay = h.seconds()
	}
	if tags.Key == "" || !h.lateDead() {
		tags.Expire = h.randomLifetime()
	}
	h.randomMeta(tags)
	if r.IntN(8) == 0 {
		tags.Occurrence = &tube.Occurrence{Schedule: "elsewhere", Nominal: tube.Instant(1+r.IntN(1e6)) * tube.Instant(time.Millisecond)}
	}
	return tags
}

// randomMeta sometimes gives tags meta and a trace.
func (h *history) randomMeta(tags *tube.Tags) {
	r := h.random
	if r.IntN(4) > 0 {
		return
	}
	for i := range r.IntN(4) {
		tags.Meta = append(tags.Meta, tube.Meta{Name: fmt.Sprint("n", i), Value: strings.Repeat("ä\"", r.IntN(80))})
	}
	if r.IntN(2) == 0 {
		tags.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	}
}

// randomReason sometimes adds a reason of any length and the name of the holder, or a result, to the arguments of a move that can have
// one. args can be nil.
func (h *history) randomReason(move tube.Move, args *storage.Args) *storage.Args {
	r := h.random
	if move == tube.Finish && args == nil {
		args = new(storage.Args)
	}
	if move == tube.Finish && r.IntN(2) == 0 {
		args.Data = fmt.Append(nil, "result ", r.IntN(1000))
	}
	if move == tube.SaveCheckpoint || move == tube.KickJob || move == tube.Touch && r.IntN(2) == 0 {
		return h.randomCheckpoint(move, args)
	}
	if move != tube.Release && move != tube.Bury && move != tube.Expire || r.IntN(2) == 0 {
		return args
	}
	if args == nil {
		args = new(storage.Args)
	}
	if args.By = []string{"", "w", strings.Repeat("w", tube.MaxHolder)}[r.IntN(3)]; r.IntN(3) == 0 {
		return args
	}
	args.Reason = strings.Repeat("r", 1+r.IntN([]int{3, 40, tube.MaxReason}[r.IntN(3)]))
	return args
}

// randomCheckpoint adds a checkpoint, the progress or what becomes of the checkpoint to the arguments of a move. args can be nil.
func (h *history) randomCheckpoint(move tube.Move, args *storage.Args) *storage.Args {
	r := h.random
	if args == nil {
		args = new(storage.Args)
	}
	switch move {
	case tube.KickJob:
		args.KeepCheckpoint = r.IntN(2) == 0
	case tube.Touch:
		text := strings.Repeat("p", r.IntN([]int{1, 5, tube.MaxProgress + 1}[r.IntN(3)]))
		args.Progress = &text
	default:
		args.Data = h.randomBody()
		args.Data = args.Data[:min(len(args.Data), tube.MaxCheckpoint)*r.IntN(5)/4]
	}
	return args
}

// randomAt gives a put, or the record of a schedule, a random time of day, often one that has
// passed.
func (h *history) randomAt(op *storage.Op) {
	if h.engine.Now == nil || op.Args == nil {
		return
	}
	h.model.clock = tube.Instant(h.engine.Now().Truncate(time.Millisecond).UnixNano())
	if s := op.Args.Schedule; s != nil {
		h.randomDue(s)
	}
	if s := op.Args.Settle; s != nil && s.Due == 0 {
		s.Due = h.model.clock + tube.Instant(h.random.IntN(5)*h.engine.unit())*tube.Instant(time.Second)
	}
	if op.Kind != storage.Put || op.Args.Tags.After != "" || h.random.IntN(5) > 0 {
		return
	}
	in := (h.random.IntN(7) - 2) * h.engine.unit()
	op.Args.Tags.At, op.Args.Tags.HasAt = h.model.clock+tube.Instant(in)*tube.Instant(time.Second), true
	if h.random.IntN(3) == 0 {
		in = (1 + h.random.IntN(7)) * h.engine.unit()
		op.Args.Tags.ExpiresAt = h.model.clock + tube.Instant(in)*tube.Instant(time.Second)
		op.Args.Tags.Reason, op.Args.Tags.FailedAt = "before", h.model.clock
	}
}

// tagPuts gives tags to puts, most of them a key of their own and no delay: an engine can carry
// them out together.
func (h *history) tagPuts(batch []storage.Op) {
	r := h.random
	for i := range batch {
		tags := h.randomTags()
		if r.IntN(3) > 0 && !(tags.Group != "" && tags.OnlyGroupOrBatch()) {
			tags.Key = fmt.Sprint("n", r.IntN(40))
		}
		tags.HasDelay = tags.HasDelay && r.IntN(4) == 0
		batch[i].TTR, batch[i].Args = batch[0].TTR, &storage.Args{Tags: tags}
	}
}

// oneInstance makes a batch one that the server that may have reservations now can carry out,
// see Engine.TwoInstances. A single operation that reserves nothing can be one of either.
func (h *history) oneInstance(batch []storage.Op) {
	if !h.engine.TwoInstances {
		return
	}
	for i := range batch {
		op := &batch[i]
		reserves := op.Kind == storage.Take || op.Kind == storage.Move && op.Move.Brings()
		switch {
		case op.Kind == storage.Move && op.Move == tube.Expire:
			op.Holder = h.reserver
		case len(batch) > 1 && (op.Kind == storage.Ref || op.Kind == storage.TubeStats): // these are for the first server
			op.Kind = storage.Peek
		case (reserves || len(batch) > 1) && op.Holder != 0 && op.Holder != tube.LeaseHolder:
			op.Holder = h.reserver
		}
	}
}

// changeInstance ends all reservations of one server; after that the other one can have some.
func (h *history) changeInstance() {
	h.compare([]storage.Op{{Kind: storage.ReleaseAll, Holder: h.reserver}})
	h.reserver ^= 3
}

// seconds returns a duration that is mostly zero, and at most four seconds.
func (h *history) seconds() time.Duration {
	return time.Duration(max(h.random.IntN(8)-3, 0)) * time.Second
}

// lateDead reports whether a dead letter can arrive so late that a key is free by then that was
// taken when its job was parked. Then no job with a key may expire.
func (h *history) lateDead() bool { return h.engine.LateDeadLetters && !h.burying }

func (h *history) randomLifetime() tube.Lifetime {
	if h.random.IntN(4) > 0 {
		return tube.NoLifetime
	}
	return tube.LifetimeOf(2 * h.seconds())
}

func (h *history) randomRules() (rules tube.Rules) {
	r := h.random
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(3) {
			rules.Retry = append(rules.Retry, h.seconds())
		}
	}
	if len(rules.Retry) == 2 && 0 < rules.Retry[0] && rules.Retry[0] <= rules.Retry[1] && r.IntN(2) == 0 {
		rules.Doubled, rules.Jitter = uint8(1+r.IntN(4)), tube.JitterOf(0) // whole seconds, see pause
	}
	if r.IntN(3) == 0 {
		rules.Max = uint32(1 + r.IntN(3))
	}
	if r.IntN(3) == 0 && !h.burying {
		rules.Dead = policyTubes[r.IntN(len(policyTubes))]
	}
	if r.IntN(4) == 0 {
		rules.OnExpire = tube.OnExpire(1 + r.IntN(2))
	}
	if r.IntN(2) == 0 {
		rules.Keep = tube.LifetimeOf(time.Duration(r.IntN(3)) * 1000 * time.Hour)
	}
	if rules.HasKeyTTL = r.IntN(3) == 0; rules.HasKeyTTL {
		rules.KeyTTL = h.seconds()
	}
	return rules
}

// randomLeased makes op a Move by lease, mostly of a leased job and with its token.
func (h *history) randomLeased(op storage.Op) storage.Op {
	r := h.random
	op.Kind, op.Holder = storage.Move, tube.LeaseHolder
	op.Move = []tube.Move{tube.Delete, tube.Finish, tube.Release, tube.Release, tube.Snooze, tube.Bury, tube.Touch, tube.SaveCheckpoint, tube.KickJob, tube.ReserveJob, tube.Seize}[r.IntN(11)]
	op.Args = h.randomReason(op.Move, op.Args)
	leased := h.model.sorted(tube.Reserved, func(j *modelJob) bool { return j.holder == tube.LeaseHolder })
	if len(leased) > 0 && r.IntN(8) > 0 {
		op.ID = leased[r.IntN(len(leased))].id
	}
	if j := h.model.job(op.ID); j != nil {
		op.Args.Lease = j.lease
	}
	switch r.IntN(16) {
	case 0:
		op.Args.Lease++
	case 1, 2:
		op.Args.Lease = max(op.Args.Lease, 1) - 1
	}
	return op
}

// randomByKey makes op an operation that names a job by its key.
func (h *history) randomByKey(op storage.Op) storage.Op {
	op.Kind = []storage.Kind{storage.PeekKey, storage.DeleteKey, storage.FindKey}[h.random.IntN(3)]
	op.Args.Key = []string{"k", "l", "m"}[h.random.IntN(3)]
	return op
}

// randomPolicy makes op an operation about policies.
func (h *history) randomPolicy(op storage.Op) storage.Op {
	r := h.random
	op.Tube = policyScopes[r.IntN(len(policyScopes))]
	op.Kind = []storage.Kind{storage.SetPolicy, storage.SetPolicy, storage.GetPolicy, storage.Policies}[r.IntN(4)]
	if op.Kind != storage.SetPolicy || r.IntN(3) == 0 {
		return op
	}
	p := &tube.Policy{Rules: h.randomRules(), OnDuplicate: tube.OnDuplicate(r.IntN(4))}
	if p.HasQuotaJobs = r.IntN(4) == 0; p.HasQuotaJobs {
		p.QuotaJobs = uint64(r.IntN(10))
	}
	if p.HasQuotaBytes = r.IntN(4) == 0; p.HasQuotaBytes {
		p.QuotaBytes = uint64(r.IntN(100))
	}
	if !h.lateDead() {
		p.Expire = h.randomLifetime()
	}
	h.limitPolicy(p, tube.IsPattern(op.Tube))
	op.Args.Policy = p
	return op
}

// randomReplay makes op a move of a job, or a replay, mostly of a dead letter.
func (h *history) randomReplay(op storage.Op) storage.Op {
	if h.random.IntN(4) == 0 {
		op.Kind, op.Args.To = storage.MoveJob, policyTubes[h.random.IntN(len(policyTubes))]
		return op
	}
	op.Kind, op.Args.KeepCheckpoint = storage.Replay, h.random.IntN(2) == 0
	var dead []uint64
	for _, j := range h.model.jobs {
		if j.metadata.FromTube != "" && j.state != tube.Reserved {
			dead = append(dead, j.id)
		}
	}
	if len(dead) > 0 && h.random.IntN(5) > 0 {
		op.ID = dead[h.random.IntN(len(dead))]
	}
	return op
}

// randomMany makes op an operation on many jobs of a tube.
func (h *history) randomMany(op storage.Op) storage.Op {
	r := h.random
	op.Tube, op.State, op.MaxJobs = policyTubes[r.IntN(len(policyTubes))], tube.State(r.IntN(5)), uint32(1+r.IntN(6))
	op.Args.To = policyTubes[r.IntN(len(policyTubes))]
	switch r.IntN(8) {
	case 0:
		op.Kind = storage.Flush
	case 1, 2, 3:
		op.Kind = storage.MoveJobs
		h.moveSentBack(&op)
	default:
		op.Kind = storage.ListJobs
	}
	return op
}

// moveSentBack makes a move of jobs mostly one from a tube and state where a job is that was a dead letter and has come back,
// if there is one: by itself that is very rare.
func (h *history) moveSentBack(op *storage.Op) {
	for _, j := range h.model.jobs {
		if j.metadata.FromTube == j.tube.name && j.state != tube.Reserved && h.random.IntN(4) > 0 {
			op.Tube, op.State = j.tube.name, j.state
			return
		}
	}
}
