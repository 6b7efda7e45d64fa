package redis

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"redstalk/storage"
	"redstalk/storage/redis/fsck"
	"redstalk/storage/redis/redistest"
	"redstalk/storage/redis/schema"
	"redstalk/tube"
)

// modelTest is a Redis store, or several on one namespace, beside a tube.Machine, which is the
// model for jobs with tags: both get the same operations.
//
// Their time is virtual, but advances by itself as well, and the model is asked a little later
// than the stores. So due times are at half strides, and time advances by whole ones (advance):
// the real time that passes is less than half a stride. Between any two batches a little time
// passes, so that what they make due comes in the same order on both sides.
type modelTest struct {
	stores []*Store // ids of the stores, by the model's; nil if they are the same
	model  *tube.Machine
	ahead  atomic.Int64
	ids    map[uint64]uint64 // of the stores, by the judge's; nil if they are the same
	rng    *rand.Rand
	script []string

	tokens  map[uint64]uint64   // of the model, by those of the stores
	leases  map[uint64][]uint64 // tokens of the stores, by the model's id
	matched uint64              // up to which of the model's ids those of the stores are known

	client *goredis.Client // to see which dead letters are pending; nil if there can be none
	prefix string
}

const (
	stride = 4000 * time.Second
	breath = 4 * time.Second
)

var taggedScripts = flag.Uint64("tagged-scripts", 1, "random scripts about jobs with tags, for one instance and for two")

func newModelTest(t *testing.T, o Options, instances int, seed uint64) *modelTest {
	t.Helper()
	j := &modelTest{model: tube.NewMachine(), rng: rand.New(rand.NewPCG(seed, 18)), tokens: make(map[uint64]uint64), leases: make(map[uint64][]uint64)}
	o.Log, o.leaseSetFrom, o.tickPatience = slog.New(slog.DiscardHandler), 2, patient
	o.skew = func() time.Duration { return time.Duration(j.ahead.Load()) }
	if o.Partitions > 1 {
		j.ids = make(map[uint64]uint64)
	}
	for range instances {
		s, err := Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		s.Listen(nopListener{})
		t.Cleanup(func() { s.Close() })
		j.stores = append(j.stores, s)
	}
	return j
}

func (j *modelTest) now() tube.Instant { return tube.Instant(time.Now().UnixNano() + j.ahead.Load()) }

// real returns the id in the stores for one of the model.
func (j *modelTest) real(id uint64) uint64 {
	if real, ok := j.ids[id]; ok {
		return real
	}
	if j.ids != nil && id != 0 {
		return 1<<40 + id // no job has it
	}
	return id
}

// store returns the store that a holder is connected to.
func (j *modelTest) store(h tube.Holder) *Store {
	return j.stores[int(uint64(h)%uint64(len(j.stores)))]
}

// do carries out a batch in the store of a holder and in the model, and compares.
func (j *modelTest) do(t *testing.T, h tube.Holder, ops ...storage.Op) []storage.Op {
	t.Helper()
	theirs := slices.Clone(ops)
	for i := range theirs {
		theirs[i].ID = j.real(theirs[i].ID)
	}
	j.ahead.Add(int64(breath))
	j.publishIDs()
	storage.DoWait(j.store(h), theirs)
	j.awaitDeadLetters(t)
	now := j.now()
	defer j.findDead(t)
	for i := range ops {
		op := &ops[i]
		op.Answer = j.expected(now, op, &theirs[i])
		if got := &theirs[i].Answer; j.ids != nil && op.Kind == storage.Put && op.Answer.Err == nil {
			if op.Answer.Result == nil || op.Answer.Result.Outcome == tube.PutNew {
				j.ids[op.Answer.ID] = got.ID
			}
		}
		j.script = append(j.script, fmt.Sprintf("%d: %s", h, describe(op)))
		if what := j.differs(&theirs[i].Answer, &op.Answer); what != "" {
			for _, line := range j.script[max(0, len(j.script)-400):] {
				t.Log(line)
			}
			t.Fatalf("%s differs:\n got %+v\nwant %+v", what, show(&theirs[i].Answer), show(&op.Answer))
		}
	}
	return ops
}

// publishIDs tells each instance the ids that the others have assigned, as their heartbeats do.
func (j *modelTest) publishIDs() {
	last := uint64(0)
	for _, s := range j.stores {
		last = max(last, s.parts[0].ids.order.last.Load())
	}
	for _, s := range j.stores {
		s.parts[0].ids.order.saw(last)
	}
}

// awaitDeadLetters waits until no dead letter is pending.
func (j *modelTest) awaitDeadLetters(t *testing.T) {
	t.Helper()
	if j.client == nil {
		return
	}
	for range 400 {
		waiting := false
		for i := range j.stores[0].parts {
			n, err := j.client.HLen(context.Background(), fmt.Sprintf("%s%d}:pending", j.prefix, i)).Result()
			if err != nil {
				t.Fatal(err)
			}
			waiting = waiting || n > 0
		}
		for _, s := range j.stores {
			for _, p := range s.parts {
				waiting = waiting || p.deadLetters.sending.Load()
			}
		}
		if !waiting {
			return
		}
		j.tick(t)
	}
	t.Fatal("a dead letter stays on its way")
}

// expected returns the answer of the model, with the tokens and ids of the stores.
func (j *modelTest) expected(now tube.Instant, op, theirs *storage.Op) storage.Answer {
	batch := *op
	if op.Kind == storage.Move && op.Holder == tube.LeaseHolder {
		batch.Args = &storage.Args{Lease: j.tokens[op.Args.Lease]}
	}
	a := expected(j.model, now, &batch)
	if a.Result != nil && a.Result.Lease != 0 && theirs.Answer.Result != nil {
		token := theirs.Answer.Result.Lease
		if before := j.leases[a.ID]; len(before) > 0 && before[len(before)-1] >= token {
			a.Err = fmt.Errorf("lease %d after %v", token, before)
		}
		j.tokens[token], j.leases[a.ID] = a.Result.Lease, append(j.leases[a.ID], token)
	}
	return a
}

// findDead finds the ids of dead letters, which no answer contains.
func (j *modelTest) findDead(t *testing.T) {
	t.Helper()
	for id := j.matched + 1; j.ids != nil && id <= j.model.LastID(); id++ {
		s, ok := j.model.JobStats(j.now(), id)
		if j.ids[id] != 0 || !ok || s.Metadata == nil || s.Metadata.FromTube == "" {
			continue
		}
		p := j.stores[0].parts[schema.PartitionOf(s.Tube, len(j.stores[0].parts))]
		for n := uint64(0); n < 2000 && j.ids[id] == 0; n++ {
			real := n*uint64(p.of) + uint64(p.number)
			a := do(j.stores[0], storage.Op{Kind: storage.JobStats, ID: real})
			if a.Job != nil && a.Job.Metadata != nil && a.Job.Tube == s.Tube && a.Job.Metadata.FromID == j.real(s.Metadata.FromID) && s.Metadata.FromTube == a.Job.Metadata.FromTube {
				j.ids[id] = real
			}
		}
	}
	j.matched = j.model.LastID()
}

func describe(op *storage.Op) string {
	text := fmt.Sprintf("kind %d %v id %d tube %s %v pri %d delay %d ttr %d body %d", op.Kind, op.Move, op.ID, op.Tube, op.Tubes, op.Pri, op.Delay, op.TTR, len(op.Body))
	if op.Args != nil {
		text += fmt.Sprintf(" rare %+v", *op.Args)
		if op.Args.Tags != nil {
			text += fmt.Sprintf(" tags %+v", *op.Args.Tags)
		}
		if op.Args.Policy != nil {
			text += fmt.Sprintf(" policy %+v", *op.Args.Policy)
		}
	}
	return text + " -> " + show(&op.Answer)
}

func show(a *storage.Answer) string {
	text := fmt.Sprintf("found %v id %d err %v body %d count %d names %v", !a.NotFound, a.ID, a.Err, len(a.Body), a.Count, a.Names)
	if a.Job != nil {
		text += fmt.Sprintf(" job %+v metadata %+v", *a.Job, a.Job.Metadata)
	}
	if a.TubeStats != nil {
		text += fmt.Sprintf(" tube %+v", *a.TubeStats)
	}
	if a.Stats != nil {
		text += fmt.Sprintf(" stats %+v", a.Stats.Totals)
	}
	if a.Result != nil {
		text += fmt.Sprintf(" rare %+v", *a.Result)
	}
	return text
}

// differs returns where answers differ, "" if nowhere.
func (j *modelTest) differs(got, want *storage.Answer) string {
	switch {
	case (got.Err != nil) != (want.Err != nil):
		return "error"
	case got.NotFound != want.NotFound:
		return "found"
	case got.ID != j.real(want.ID):
		return "id"
	case string(got.Body) != string(want.Body):
		return "body"
	case got.Count != want.Count:
		return "count"
	case !slices.Equal(got.Names, want.Names):
		return "names"
	case (got.Job == nil) != (want.Job == nil) || got.Job != nil && !j.sameJob(*got.Job, *want.Job):
		return "job"
	case got.TubeStats != nil && want.TubeStats != nil && !sameCounts(*got.TubeStats, *want.TubeStats):
		return "tube"
	case got.Stats != nil && want.Stats != nil && got.Stats.Totals != want.Stats.Totals:
		return "totals"
	}
	return j.resultDiffers(got.Result, want.Result)
}

func sameCounts(got, want tube.TubeStats) bool {
	got.OldestReady, got.HasPolicy, got.Waits, got.Runs = want.OldestReady, want.HasPolicy, want.Waits, want.Runs
	got.PauseLeft, got.Using, got.Watching, got.Waiting = want.PauseLeft, want.Using, want.Watching, want.Waiting
	return got == want
}

func (j *modelTest) resultDiffers(got, want *storage.Result) string {
	switch {
	case got == nil && want == nil:
		return ""
	case got == nil || want == nil:
		return "rare"
	case got.Outcome != want.Outcome || got.State != want.State:
		return "outcome"
	case (got.Lease != 0) != (want.Lease != 0):
		return "lease"
	case len(got.Jobs) != len(want.Jobs):
		return "jobs"
	case !reflect.DeepEqual(got.Policy, want.Policy):
		return "policy"
	}
	mine, theirs := slices.Clone(want.Jobs), slices.Clone(got.Jobs)
	slices.SortFunc(mine, func(a, b tube.JobStats) int { return int(j.real(a.ID)) - int(j.real(b.ID)) })
	slices.SortFunc(theirs, func(a, b tube.JobStats) int { return int(a.ID) - int(b.ID) })
	for i := range mine {
		if !j.sameJob(theirs[i], mine[i]) {
			return "jobs"
		}
	}
	return ""
}

// sameJob compares everything but leases, which come from different clocks.
func (j *modelTest) sameJob(got, want tube.JobStats) bool {
	const most = breath
	if (got.TimeLeft - want.TimeLeft).Abs() > most {
		return false
	}
	got.TimeLeft, got.Age, got.Created, want.ID = want.TimeLeft, want.Age, want.Created, j.real(want.ID)
	if got.Metadata != nil && want.Metadata != nil {
		mine, theirs := *want.Metadata, *got.Metadata
		if (mine.Lease == 0) != (theirs.Lease == 0) {
			return false
		}
		mine.FromID, theirs.Lease = j.real(mine.FromID), mine.Lease
		got.Metadata, want.Metadata = &theirs, &mine
	}
	return reflect.DeepEqual(got, want)
}

// expected returns the answer of a Machine.
func expected(m *tube.Machine, now tube.Instant, op *storage.Op) (a storage.Answer) {
	job := func(j *tube.Job) {
		if a.NotFound = j == nil; j != nil {
			a.ID, a.Body = j.ID, m.Body(j)
		}
	}
	switch op.Kind {
	case storage.Put:
		expectPut(m, now, op, &a)
	case storage.Take:
		j, _ := m.Take(now, op.Holder, op.Tubes)
		if job(j); j != nil && op.Holder == tube.LeaseHolder {
			a.Result = &storage.Result{Lease: m.Lease(j)}
		}
	case storage.Move:
		var j *tube.Job
		if terms := (tube.Terms{Pri: op.Pri, Delay: op.Delay}); op.Holder == tube.LeaseHolder {
			j = m.MoveLeased(now, op.Move, op.Args.Lease, op.ID, terms)
		} else {
			j = m.Move(now, op.Move, op.Holder, op.ID, terms)
		}
		if a.NotFound = j == nil; op.Move == tube.ReserveJob {
			job(j)
		}
	case storage.Kick:
		a.Count = m.Kick(now, op.Tube, op.MaxJobs)
	case storage.ReleaseAll:
		m.ReleaseAll(now, op.Holder)
	case storage.Peek:
		job(m.Find(op.ID))
	case storage.PeekHead:
		job(m.Head(op.Tube, op.State))
	case storage.PeekKey:
		job(m.ByKey(op.Tube, op.Args.Key))
	default:
		expectOther(m, now, op, &a)
	}
	return a
}

func expectPut(m *tube.Machine, now tube.Instant, op *storage.Op, a *storage.Answer) {
	p := tube.NewJob{Tube: op.Tube, Pri: op.Pri, Delay: op.Delay, TTR: op.TTR, Body: op.Body}
	if op.Args == nil {
		if !m.Admits(op.Tube, len(op.Body)) {
			a.Err = storage.ErrNoSpace
			return
		}
		a.ID = m.Put(now, p).ID
		return
	}
	put := m.PutTagged(now, p, op.Args.Tags)
	if put.Result == tube.PutRefused {
		a.Err = storage.ErrNoSpace
		return
	}
	a.ID, a.Result = put.ID, &storage.Result{Outcome: put.Result, State: put.State}
}

func expectOther(m *tube.Machine, now tube.Instant, op *storage.Op, a *storage.Answer) {
	switch op.Kind {
	case storage.DeleteKey:
		j := m.ByKey(op.Tube, op.Args.Key)
		if a.NotFound = j == nil; j != nil {
			m.Remove(now, j)
		}
	case storage.FindKey:
		a.Result = new(storage.Result)
		for _, j := range m.FindKey(op.Args.Key) {
			s, _ := m.JobStats(now, j.ID)
			a.Result.Jobs = append(a.Result.Jobs, s)
		}
		a.NotFound = len(a.Result.Jobs) == 0
	case storage.SetPolicy:
		m.SetPolicy(op.Tube, op.Args.Policy)
	case storage.GetPolicy:
		p := m.Policy(op.Tube)
		a.NotFound, a.Result = p == nil, &storage.Result{Policy: p}
	case storage.Policies:
		a.Names = m.Policies()
	case storage.JobStats:
		if s, ok := m.JobStats(now, op.ID); ok {
			a.Job = &s
		} else {
			a.NotFound = true
		}
	case storage.TubeStats:
		s, ok := m.TubeStats(now, op.Tube)
		if a.NotFound = !ok; ok {
			a.TubeStats = &s
		}
	case storage.Stats:
		a.Stats = &storage.Figures{Totals: m.Totals()}
	}
}

// advance lets that many strides pass, and does what is due then: one thing after the other,
// because several partitions would do what is due at once in another order.
func (j *modelTest) advance(t *testing.T, strides int) {
	t.Helper()
	j.script = append(j.script, fmt.Sprintf("%d strides later", strides))
	end := j.now() + tube.Instant(strides)*tube.Instant(stride)
	for at := j.now(); at < end; {
		at = min(min(j.model.Tick(j.now(), 1000), end)+tube.Instant(breath/4), end)
		j.ahead.Add(max(int64(at-j.now())/1e6*1e6, 0)) // whole ms, as Redis has it
		j.settle(t)
	}
}

// settle lets stores and model do everything that is due.
func (j *modelTest) settle(t *testing.T) {
	t.Helper()
	j.tick(t)
	j.awaitDeadLetters(t)
	for m := j.model; m.Tick(j.now(), 1000) <= j.now(); {
	}
	j.findDead(t)
}

// tick lets the stores do what is due. None of them is declared dead, because no real time has
// passed.
func (j *modelTest) tick(t *testing.T) {
	t.Helper()
	for _, s := range j.stores {
		err := s.each(func(p *partition) error {
			return p.do(func(*call) { p.heartbeat.doubt(p.clock.now()) })
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range j.stores {
		if _, err := s.TickAll(); err != nil {
			t.Fatal(err)
		}
	}
}

// strides returns the time of that many strides less a half; 0 for 0.
func strides(n int) time.Duration { return max(time.Duration(n)*stride-stride/2, 0) }

// randomTags are those of a put.
func (j *modelTest) randomTags() *tube.Tags {
	r, tags := j.rng, new(tube.Tags)
	switch r.IntN(6) {
	case 0:
		tags.Delay, tags.HasDelay = strides(r.IntN(3)), true
	case 1:
		tags.At, tags.HasAt = j.now()/1e6*1e6+tube.Instant(stride)*tube.Instant(r.IntN(9)-3)-tube.Instant(stride/2+breath/2), true
	}
	if r.IntN(4) > 0 {
		tags.Key = fmt.Sprint("key", r.IntN(4))
	}
	tags.OnDuplicate = tube.OnDuplicate(r.IntN(4))
	tags.Rules = j.randomRules()
	return tags
}

func (j *modelTest) randomRules() (rules tube.Rules) {
	r := j.rng
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(3) {
			rules.Retry = append(rules.Retry, strides(r.IntN(4)))
		}
	}
	if r.IntN(3) == 0 {
		rules.Max = uint32(1 + r.IntN(4))
	}
	if r.IntN(3) == 0 {
		rules.Dead = j.tube()
	}
	if r.IntN(3) == 0 {
		rules.KeyTTL, rules.HasKeyTTL = strides(r.IntN(3)), true
	}
	return rules
}

func (j *modelTest) tube() string { return []string{"a", "b", "c"}[j.rng.IntN(3)] }

func (j *modelTest) randomPolicy() *tube.Policy {
	r := j.rng
	if r.IntN(3) == 0 {
		return nil
	}
	p := &tube.Policy{Rules: j.randomRules(), OnDuplicate: tube.OnDuplicate(r.IntN(4))}
	if r.IntN(3) == 0 {
		p.QuotaJobs, p.HasQuotaJobs = uint64(r.IntN(8)), true
	}
	if r.IntN(3) == 0 {
		p.QuotaBytes, p.HasQuotaBytes = uint64(r.IntN(200)), true
	}
	return p
}

// randomPuts are puts of a kind, some with tags.
func (j *modelTest) randomPuts() (ops []storage.Op) {
	r := j.rng
	if r.IntN(4) == 0 {
		return j.randomRun()
	}
	for range 1 + r.IntN(7) {
		op := storage.Op{Kind: storage.Put, Tube: j.tube(), Pri: uint32(r.IntN(2) * 2000), TTR: uint32(strides(1 + r.IntN(5)).Seconds()), Body: make([]byte, r.IntN(40))}
		if r.IntN(5) == 0 {
			op.Delay = uint32(strides(r.IntN(4)).Seconds())
		}
		if r.IntN(2) == 0 {
			op.Args = &storage.Args{Tags: j.randomTags()}
		} else if len(ops) > 0 && r.IntN(2) == 0 && ops[0].Args == nil {
			body := op.Body
			if op = ops[0]; op.Body != nil {
				op.Body = body
			}
		}
		ops = append(ops, op)
	}
	return ops
}

// randomRun are puts with tags that may become a range.
func (j *modelTest) randomRun() (ops []storage.Op) {
	r, tube := j.rng, j.tube()
	for range schema.RangeFrom + r.IntN(6) {
		tags := j.randomTags()
		tags.HasAt = tags.HasAt && r.IntN(4) == 0
		tags.HasDelay = tags.HasDelay && r.IntN(4) == 0
		if r.IntN(3) > 0 {
			tags.Key = fmt.Sprint("key", r.IntN(40))
		}
		ops = append(ops, storage.Op{Kind: storage.Put, Tube: tube, TTR: uint32(strides(3).Seconds()), Body: make([]byte, r.IntN(40)), Args: &storage.Args{Tags: tags}})
	}
	return ops
}

// randomStep does something.
func (j *modelTest) randomStep(t *testing.T) {
	r, h := j.rng, tube.Holder(1+j.rng.IntN(4))
	id := 1 + uint64(r.IntN(int(j.model.LastID()+2)))
	if last := j.model.LastID(); last > 12 && r.IntN(3) > 0 {
		id = last - uint64(r.IntN(12))
	}
	op := storage.Op{Holder: h, ID: id, Tube: j.tube(), Pri: uint32(r.IntN(2) * 2000)}
	if r.IntN(3) == 0 {
		op.Delay = uint32(strides(r.IntN(3)).Seconds())
	}
	key := &storage.Args{Key: fmt.Sprint("key", r.IntN(4))}
	switch n := r.IntN(100); {
	case n < 25:
		j.do(t, h, j.randomPuts()...)
		return
	case n < 50:
		op.Kind, op.Tubes = storage.Take, []string{j.tube()}
		if other := j.tube(); r.IntN(3) == 0 && other != op.Tubes[0] {
			op.Tubes = append(op.Tubes, other)
		}
		if r.IntN(3) == 0 {
			op.Holder = tube.LeaseHolder
		}
	case n < 70:
		op.Kind, op.Move = storage.Move, []tube.Move{tube.Release, tube.Release, tube.Release, tube.Delete, tube.Bury, tube.Touch, tube.KickJob, tube.ReserveJob}[r.IntN(8)]
		if tokens := j.leases[id]; len(tokens) > 0 && r.IntN(3) > 0 {
			op.Holder, op.Args = tube.LeaseHolder, &storage.Args{Lease: tokens[max(0, len(tokens)-1-r.IntN(5)/4)]}
		}
	case n < 74:
		op.Kind, op.MaxJobs = storage.Kick, uint32(r.IntN(4))
	case n < 77:
		op.Kind = storage.ReleaseAll
	case n < 81:
		op.Kind, op.Args = storage.DeleteKey, key
	case n < 84:
		op.Kind, op.Args = storage.PeekKey, key
	case n < 87:
		op.Kind, op.Args = storage.FindKey, key
	case n < 90:
		op.Kind, op.Args = storage.SetPolicy, &storage.Args{Policy: j.randomPolicy()}
	case n < 92:
		op.Kind = []storage.Kind{storage.GetPolicy, storage.Policies}[r.IntN(2)]
	case n < 96:
		op.Kind = storage.JobStats
	default:
		j.advance(t, []int{1, 2, 6}[r.IntN(3)])
		return
	}
	j.do(t, h, op)
}

// all compares all jobs, tubes and totals.
func (j *modelTest) all(t *testing.T) {
	t.Helper()
	for id := uint64(1); id <= j.model.LastID(); id++ {
		j.do(t, 1, storage.Op{Kind: storage.JobStats, ID: id}, storage.Op{Kind: storage.Peek, ID: id})
	}
	for _, name := range []string{"a", "b", "c"} {
		j.do(t, 1, storage.Op{Kind: storage.TubeStats, Tube: name})
		for n := range 4 {
			j.do(t, 1, storage.Op{Kind: storage.PeekKey, Tube: name, Args: &storage.Args{Key: fmt.Sprint("key", n)}})
		}
	}
	if j.ids != nil {
		return // tubes of several partitions are dropped in another order, and so totals differ
	}
	totals := do(j.stores[0], storage.Op{Kind: storage.Stats}).Stats.Totals
	want := j.model.Totals()
	if totals.Tubes = want.Tubes; totals != want {
		t.Fatalf("totals %+v, want %+v", totals, want)
	}
}

// checkWhole runs fsck, which must find nothing.
func checkWhole(t *testing.T, url, namespace string) {
	t.Helper()
	_, err := fsck.Check(context.Background(), fsck.Options{URL: url, Namespace: namespace}, false, fsck.Report{Found: func(at int, what string) {
		t.Errorf("partition %d: %s", at, what)
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTaggedAgainstMachine compares the script with the rules of package tube.
func TestTaggedAgainstMachine(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	server := redistest.Start(t)
	for seed := range *taggedScripts {
		for instances := 1; instances <= 2; instances++ {
			name := fmt.Sprintf("tagged%d-%d", instances, seed)
			o := Options{URL: server.URL(), Namespace: name, noBodyCache: seed%2 == 0}
			if seed%3 == 0 {
				o.largeFrom = 60
			}
			if seed%4 == 0 {
				o.Partitions = 16
			}
			t.Run(name, func(t *testing.T) {
				j := newModelTest(t, o, instances, seed)
				if o.largeFrom > 0 || o.Partitions > 0 {
					j.client, j.prefix = server.Client(t), o.Namespace+":{"
				}
				for range 250 {
					j.randomStep(t)
					if os.Getenv("ALL") != "" {
						j.all(t)
					}
				}
				j.all(t)
				checkWhole(t, server.URL(), o.Namespace)
			})
		}
	}
}
