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
	histories = flag.Int("histories", 2, "random histories that each engine runs")
	steps     = flag.Int("steps", 400, "operations of a random history")
	firstSeed = flag.Uint64("seed", 1, "seed of the first random history")
)

// pause is the time between two operations, so that no two have the same time: engines can
// choose the order of things that are due at the same time. The model's clock moves by
// whole units only (Engine.Unit), as do delays and TTRs. The clock of a real store runs by
// itself. So both agree on what is due as long as the pauses of a few seconds add up to less
// than one second, and less than a unit of real time passes meanwhile.
const pause = 2 * time.Millisecond

// tolerance is by how much times can differ for these reasons, if the unit is one second.
const tolerance = 900 * time.Millisecond

// unit returns Engine.Unit in seconds.
func (e *Engine) unit() int { return max(e.Unit, 1) }

// stretch multiplies the times of operations by the engine's unit. If that is more than a
// second, no TTR is 0, which means one second.
func (e *Engine) stretch(batch []storage.Op) {
	unit := uint32(e.unit())
	for i := range batch {
		op := &batch[i]
		op.Delay *= unit
		op.In *= time.Duration(unit)
		stretchArgs(op, time.Duration(unit))
		if unit > 1 {
			op.TTR = max(op.TTR, 1) * unit
		}
	}
}

// stretchArgs multiplies the times of tags and policies.
func stretchArgs(op *storage.Op, unit time.Duration) {
	if op.Args == nil {
		return
	}
	args := *op.Args
	op.Args = &args
	if args.Tags != nil {
		tags := *args.Tags
		tags.Delay *= unit
		tags.BatchTTL *= unit
		tags.Expire = stretchLifetime(tags.Expire, unit)
		tags.Rules = stretchRules(tags.Rules, unit)
		args.Tags = &tags
	}
	if args.Policy != nil {
		policy := *args.Policy
		policy.Expire = stretchLifetime(policy.Expire, unit)
		policy.Rules = stretchRules(policy.Rules, unit)
		args.Policy = &policy
	}
	if args.GroupConfig != nil {
		config := *args.GroupConfig
		config.TTL *= unit
		args.GroupConfig = &config
	}
}

func stretchLifetime(l tube.Lifetime, unit time.Duration) tube.Lifetime {
	if l == tube.NoLifetime {
		return l
	}
	return tube.LifetimeOf(l.Duration() * unit)
}

func stretchRules(r tube.Rules, unit time.Duration) tube.Rules {
	r.KeyTTL *= unit
	r.Retry = slices.Clone(r.Retry)
	for i := range r.Retry {
		r.Retry[i] *= unit
	}
	return r
}

// runHistories runs the same random histories on the engine and the model and compares every
// answer. With rules they contain tags, policies, leases and schedules; with groups also groups and
// limits.
func runHistories(t *testing.T, fresh func(testing.TB) *Engine, rules, groups bool) {
	covered, brief := make(map[string]int), 1
	count := *histories
	if rules {
		count = (count + 1) / 2
	}
	for i := range uint64(count) {
		seed := *firstSeed + i
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			e := fresh(t)
			if rules && e.Plain != nil {
				e = e.Plain
			}
			h := newHistory(t, e, seed)
			h.covered = covered
			h.setRules(rules)
			h.groups, h.light = groups, groups && seed%2 == 0
			brief = max(h.engine.Brief, 1)
			for range *steps / brief {
				h.step()
			}
		})
	}
	if len(covered) > 0 && count*(*steps)/brief >= 4000 {
		reportCoverage(t, covered)
	}
}

func newHistory(t testing.TB, e *Engine, seed uint64) *history {
	h := &history{
		harness: newHarness(t, e), model: NewModel(), covered: make(map[string]int),
		random: rand.New(rand.NewPCG(seed, 0)), reserver: 1, stamps: make(map[string]batchStamp),
	}
	h.model.clock, h.model.runsByItself = tube.Instant(time.Now().UnixNano()), e.runsByItself()
	return h
}

// setRules sets whether the history contains tags, policies, leases and schedules.
func (h *history) setRules(rules bool) {
	h.rules = rules
	h.model.knowsDue = !h.engine.LearnIDs && !h.engine.runsByItself() && !h.engine.TwoInstances
	switch {
	case rules && h.engine.LearnIDs:
		h.learner = newIDLearner(h)
		h.burying = h.random.IntN(3) == 0
	case rules && h.engine.LateDeadLetters:
		h.empty = h.random.IntN(2) == 0
		h.burying = !h.empty
	}
}

// reportCoverage fails if a state × move × holder pair never occurred.
func reportCoverage(t *testing.T, covered map[string]int) {
	for _, state := range []tube.State{tube.Ready, tube.Delayed, tube.Buried, tube.Reserved} {
		for move := tube.ReserveJob; move <= tube.Expire; move++ {
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

// history is a random history in progress.
type history struct {
	*harness
	model   *Model
	rules   bool       // it contains tags, policies, leases and schedules
	groups  bool       // with rules: it contains groups and limits
	light   bool       // with groups: most jobs have no tag but a group, there are more groups, and few limits
	empty   bool       // with rules: no job has a body
	burying bool       // with rules: no job goes to a dead-letter tube
	learner *idLearner // nil if the model can predict all ids

	stamps map[string]batchStamp // of batches, as they were last read since the store was opened

	reserver tube.Holder // with Engine.TwoInstances: the only holder that reserves now, 1 or 2

	random  *rand.Rand
	log     []string
	covered map[string]int

	trail *trail // nil unless this is the history of a Walk
	ended bool   // the store has answered ErrClosed, which is allowed only in a Walk
}

// step does one random thing to engine and model.
func (h *history) step() {
	if h.random.IntN(100) < 6 {
		h.pass(h.randomTime())
	} else if h.rules && h.random.IntN(20) == 0 {
		h.pages(storage.Op{Kind: storage.ListJobs, Tube: tubeNames[h.random.IntN(len(tubeNames))], State: tube.Ready + tube.State(h.random.IntN(4)), MaxJobs: uint32(1 + h.random.IntN(4))})
	} else if h.rules && h.random.IntN(40) == 0 {
		h.schedulePages()
	} else if h.rules && h.random.IntN(8) == 0 {
		h.aboutBatches()
	} else if h.groups && h.random.IntN(20) == 0 {
		h.groupPages()
	} else if h.engine.TwoInstances && h.random.IntN(12) == 0 {
		h.changeInstance()
	} else {
		h.compare(h.randomBatch())
	}
	if h.ended {
		return
	}
	if h.engine.Durable && h.random.IntN(cmp.Or(h.engine.RestartEvery, 100)) == 0 {
		h.reopen()
	}
	h.advance(pause)
	h.followConfigs()
}

// randomTime returns a few units of time. With groups it is sometimes so long that tokens of all
// rates come back.
func (h *history) randomTime() time.Duration {
	d := time.Duration((1+h.random.IntN(4))*h.engine.unit()) * time.Second
	if h.groups {
		d *= []time.Duration{1, 1, 1, 1, 20, 1000}[h.random.IntN(6)]
	}
	return d
}

// pages carries out an operation that answers with a page, for all pages.
func (h *history) pages(op storage.Op) {
	for cursor, more := "", true; more && !h.ended; more = cursor != "" {
		op.Args = &storage.Args{Cursor: cursor}
		batch := []storage.Op{op}
		h.compare(batch)
		cursor = ""
		if result := batch[0].Answer.Result; result != nil && !h.ended {
			cursor = result.Cursor
		}
	}
}

// pass lets time pass.
func (h *history) pass(d time.Duration) {
	h.logf("%v pass", d)
	h.model.Tick(h.model.now + d)
	h.trail.add(h.model)
	h.advance(d)
	h.learner.learnRest()
}

// reopen ends the store and opens it again.
func (h *history) reopen() {
	if h.engine.CleanCrash && h.random.IntN(2) == 0 {
		if h.engine.LateReserves {
			h.compare([]storage.Op{h.lastChange()})
		}
		h.logf("crashed and reopened")
		h.totals() // once it is answered, earlier expiries are durable too
		h.engine.Crash(h.store)
	} else {
		h.logf("closed and reopened")
		h.close()
	}
	h.open()
	h.model.Reopen(h.engine.KeepsTubes)
	clear(h.stamps)
	h.trail.add(h.model)
	h.learner.learnRest()
}

// lastChange returns a change that is acknowledged before a crash. With rules it is not a put,
// because a put can be refused.
func (h *history) lastChange() storage.Op {
	if h.rules {
		return storage.Op{Kind: storage.Pause, Tube: tube.Default, Delay: 1}
	}
	return storage.Op{Kind: storage.Put, Tube: "a", TTR: 1, Body: []byte("the last change")}
}

func (h *history) logf(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// compare carries out a batch on both sides and compares the answers.
func (h *history) compare(batch []storage.Op) {
	h.engine.stretch(batch)
	if len(batch) == 1 {
		h.randomAt(&batch[0])
	}
	n, done, sent := h.trail.last()+1, make(chan struct{}), lent(batch)
	h.store.Do(&storage.Batch{Ops: sent, Done: func() {
		if !hasEnded(sent) && !(h.engine.LateReserves && onlyReserves(sent)) {
			h.trail.acknowledge(n)
		}
		close(done)
	}})
	<-done
	receive(batch, sent)
	h.ended = h.trail != nil && hasEnded(batch)
	h.follow(batch)
	h.trail.add(h.model)
	h.learner.learnRest()
}

// follow carries out on the model what the store has answered, and compares the answers.
func (h *history) follow(batch []storage.Op) {
	mine := slices.Clone(batch)
	h.model.Begin()
	for i := range mine {
		h.cover(&mine[i])
		if i > 0 && (h.engine.ReadsJobs || mine[i].Kind == storage.Move && mine[i].Move.Brings()) { // the store may have to read the body first
			h.trail.split(h.model)
		}
		h.model.follow(&mine[i], &batch[i].Answer)
		if h.ended {
			continue
		}
		h.logf("%s → %s", describe(&batch[i]), show(&batch[i].Answer))
		h.learner.translate(&batch[i], &mine[i].Answer)
		if h.engine.TwoInstances { // a server learns later that the other one has removed a job of its holder
			mine[i].Answer.Soon = batch[i].Answer.Soon
		}
		if diff := differ(&batch[i].Answer, &mine[i].Answer, h.engine.unit()); diff != "" {
			last := len(h.log) - 1
			h.Fatalf("the store and the model differ: %s\n%s\nmodel: %s%s\nafter:\n%s",
				diff, h.log[last], show(&mine[i].Answer), h.model.describeLanes(), strings.Join(h.log[:last], "\n"))
		}
		h.learnLease(&batch[i])
	}
}

// learnLease tells the model the token of a job that the store has just leased.
func (h *history) learnLease(op *storage.Op) {
	r, j := op.Answer.Result, h.model.job(op.Answer.ID)
	if op.Kind != storage.Take || r == nil || r.Lease == 0 || j == nil {
		return
	}
	if r.Lease <= j.leases {
		h.Fatalf("job %d has the lease %d after %d", j.id, r.Lease, j.leases)
	}
	j.lease, j.leases = r.Lease, r.Lease
}

// cover records which state and move an operation combines.
func (h *history) cover(op *storage.Op) {
	if op.Kind != storage.Move {
		return
	}
	if j := h.model.job(op.ID); j != nil {
		h.covered[coverKey(j.state, op.Move, j.state == tube.Reserved && j.holder == op.Holder)]++
	}
}
