package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/storage/redis/schema"
	"redstalk/tools/redistest"
	"redstalk/tube"
)

// saveOp saves a checkpoint of a job.
func saveOp(h tube.Holder, id, lease uint64, data string) storage.Op {
	op := move(tube.SaveCheckpoint, h, id)
	op.Args = &storage.Args{Lease: lease, Data: []byte(data)}
	return op
}

// TestLateCheckpoint: an instance that was paused, and is declared dead, does not save a checkpoint that has waited meanwhile: the owner of
// the lease has gone on through another instance.
func TestLateCheckpoint(t *testing.T) {
	lt := newLeaseSetTest(t)
	paused := lt.open(lt.redis.URL(), patient)
	id := do(paused, put("x")).ID
	lease := do(paused, storage.Op{Kind: storage.Take, Holder: tube.LeaseHolder, Tubes: []string{"t"}}).Result.Lease
	save := func(s *Store, data string) storage.Answer { return do(s, saveOp(tube.LeaseHolder, id, lease, data)) }
	if a := save(paused, "first"); a.Err != nil || a.NotFound {
		t.Fatalf("the first checkpoint: %+v", a)
	}
	do(paused, put("held by a connection"))
	if a := do(paused, take(1)); a.NotFound {
		t.Fatalf("a second job: %+v", a)
	}
	assumeAlive(lt.s)
	lt.ahead.Add(int64(10 * time.Second))
	lt.s.Tick()
	awaitReserved(t, lt.s, 1) // the other one is dead
	if a := save(lt.s, "third"); a.Err != nil || a.NotFound {
		t.Fatalf("through the other instance: %+v", a)
	}
	if a := save(paused, "second"); !errors.Is(a.Err, storage.ErrUnavailable) {
		t.Errorf("a checkpoint that has waited: %+v", a)
	}
	if a := do(paused, storage.Op{Kind: storage.GetCheckpoint, ID: id}); string(a.Body) != "third" {
		t.Errorf("the checkpoint is %q", a.Body)
	}
	lt.ahead.Add(int64(3 * time.Second))
	if a := save(paused, "fourth"); a.Err != nil || a.NotFound {
		t.Errorf("later: %+v", a)
	}
}

// sayOp says how far a job is.
func sayOp(h tube.Holder, id uint64, text string) storage.Op {
	op := move(tube.Touch, h, id)
	op.Args = &storage.Args{Progress: &text}
	return op
}

// checkpointOf returns the checkpoint of a job, "" if it has none.
func (t *endedTest) checkpointOf(id uint64) string {
	t.Helper()
	a := do(t.Store, storage.Op{Kind: storage.GetCheckpoint, ID: id})
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return string(a.Body)
}

// wantReports checks what is reported of a job.
func (t *endedTest) wantReports(what string, id uint64, progress, checkpoint string) {
	t.Helper()
	f := t.ok(storage.Op{Kind: storage.JobStats, ID: id}).Job.Metadata
	if f == nil {
		f = &tube.Metadata{}
	}
	if got := t.checkpointOf(id); got != checkpoint || f.CheckpointSize() != len(checkpoint) || f.Progress != progress {
		t.Errorf("%s: progress %q, checkpoint %.20q of %d bytes (stats: %d), want %q and %.20q", what, f.Progress, got, len(got), f.CheckpointSize(), progress, checkpoint)
	}
}

// TestReportsGo: what is reported of a job goes when the job ends, whatever way it ends, and with whatever moves it.
func TestReportsGo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := 0
	for name, way := range endedWays {
		for kind, tags := range map[string]*tube.Tags{"plain": nil, "large": nil, "group": {Group: "g"}, "tags": {Key: "key", Batch: "b", Group: "g"}} {
			if n++; !inThisHalf(n) {
				continue
			}
			o := Options{URL: server.URL(), Namespace: fmt.Sprint("go", n), Partitions: n%2*2 + 1}
			t.Run(name+" "+kind, func(t *testing.T) {
				s := newEndedTest(t, o)
				s.keep("t", tube.Policy{Rules: keepAnHour})
				s.checkReportsGo(server, way.how, way.end, kind, tags)
			})
		}
	}
}

func (t *endedTest) checkReportsGo(server *redistest.Server, how tube.How, end func(*endedTest, uint64), kind string, tags *tube.Tags) {
	op := storage.Op{Kind: storage.Put, Tube: "t", TTR: 600, Body: []byte("body")}
	if kind == "large" {
		op.Body = make([]byte, 3*schema.LargeFrom)
	}
	if tags != nil {
		op.Args = &storage.Args{Tags: tags}
	}
	id := t.ok(op).ID
	t.take("t")
	t.ok(saveOp(1, id, 0, "saved"))
	t.ok(sayOp(1, id, "half"))
	t.wantReports("held", id, "half", "saved")
	t.ok(storage.Op{Kind: storage.ReleaseAll, Holder: 1})
	t.wantReports("given back", id, "half", "saved")
	end(t, id)
	if how == tube.Moved {
		moved := t.ok(storage.Op{Kind: storage.PeekHead, Tube: "other", State: tube.Ready}).ID
		t.wantReports("moved", moved, "half", "saved")
		t.ok(move(tube.ReserveJob, 2, moved))
		t.wantReports("taken", moved, "", "saved")
		t.ok(move(tube.Delete, 2, moved))
	}
	if keys := server.Client(t).Keys(t.Context(), t.parts[0].options.Namespace+":*:[cp][hr]*o*:0*").Val(); len(keys) > 0 {
		t.Errorf("left: %q", keys)
	}
}

// TestProgressAfterDeath: the progress of a job stays when its server dies or ends, which counts as no delivery, and is gone when the job starts again.
func TestProgressAfterDeath(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	s := newEndedTest(t, Options{URL: url})
	id := s.ok(put("x")).ID
	for round := range 4 {
		other := openAt(t, url, patient)
		if a := do(other, take(1)); a.ID != id {
			t.Fatalf("%+v", a)
		}
		s.wantReports("reserved", id, "", "")
		want := ""
		if round != 2 { // in which it says nothing
			want = fmt.Sprint("round ", round)
			do(other, sayOp(1, id, want))
		}
		s.wantReports("held", id, want, "")
		if round == 1 {
			do(other, move(tube.Release, 1, id))
		}
		other.Close()
		s.wantReports("given back", id, want, "")
	}
}

// TestCheckpointInBatch: what a connection does with a job in one batch, in its order.
func TestCheckpointInBatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEndedTest(t, Options{URL: server.URL()})
	for _, tags := range []*storage.Args{nil, {Tags: &tube.Tags{Group: "g"}}} {
		op := put("x")
		op.Args = tags
		id := s.ok(op).ID
		s.take("t")
		ops := []storage.Op{saveOp(1, id, 0, "one"), sayOp(1, id, "1"), saveOp(1, id, 0, "two"), {Kind: storage.GetCheckpoint, ID: id}, move(tube.Delete, 1, id), saveOp(1, id, 0, "three")}
		storage.DoWait(s, ops)
		if string(ops[3].Answer.Body) != "two" || ops[4].Answer.NotFound || !ops[5].Answer.NotFound {
			t.Errorf("%+v", ops)
		}
	}
}

// TestManyCheckpoints: many large checkpoints in a batch are saved and read in calls of a limited size.
func TestManyCheckpoints(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEndedTest(t, Options{URL: server.URL()})
	const n = 100
	large := strings.Repeat("x", tube.MaxCheckpoint)
	ids, saves, reads := make([]uint64, n), make([]storage.Op, n), make([]storage.Op, n)
	for i := range ids {
		ids[i] = s.ok(put("x")).ID
		s.take("t")
		saves[i], reads[i] = saveOp(1, ids[i], 0, large), storage.Op{Kind: storage.GetCheckpoint, ID: ids[i]}
	}
	for name, ops := range map[string][]storage.Op{"save": saves, "read": reads} {
		if name == "read" {
			storage.DoWait(s, saves)
		}
		calls, used := scriptCalls(t, server), commandStat(t, server, "evalsha", "usec")
		storage.DoWait(s, ops)
		calls, used = scriptCalls(t, server)-calls, commandStat(t, server, "evalsha", "usec")-used
		t.Logf("%s: %d calls, %d µs each", name, calls, used/calls)
		if calls < n*tube.MaxCheckpoint/maxBytes {
			t.Errorf("%s: %d checkpoints in %d calls", name, n, calls)
		}
		for i := range ops {
			if a := ops[i].Answer; a.Err != nil || a.NotFound || name == "read" && string(a.Body) != large {
				t.Fatalf("%s %d: %v", name, i, a.Err)
			}
		}
	}
}

// TestCheckpointWithoutMemory: a Redis without memory refuses a checkpoint; the old one stays, and the reservation too. It can still be removed.
func TestCheckpointWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEndedTest(t, Options{URL: server.URL()})
	first, second := s.ok(put("x")).ID, s.ok(put("x")).ID
	s.take("t")
	lease := s.ok(takeOf(tube.LeaseHolder, "t")).Result.Lease
	s.ok(saveOp(1, first, 0, "old"))
	s.ok(saveOp(tube.LeaseHolder, second, lease, "old"))
	server.Client(t).ConfigSet(t.Context(), "maxmemory", "1")
	ops := []storage.Op{
		move(tube.Touch, 1, first), saveOp(1, first, 0, "new"), sayOp(1, first, "half"), saveOp(tube.LeaseHolder, second, lease, strings.Repeat("x", 5000)), saveOp(tube.LeaseHolder, second, lease, ""),
	}
	storage.DoWait(s, ops)
	for i, refused := range []bool{false, true, false, true, false} {
		if a := ops[i].Answer; errors.Is(a.Err, storage.ErrNoSpace) != refused || !refused && (a.Err != nil || a.NotFound) {
			t.Errorf("operation %d: %+v", i, a)
		}
	}
	if n := figures(t, s.Store).Reserved; n != 2 {
		t.Errorf("%d are reserved", n)
	}
	s.wantReports("refused", first, "half", "old")
	s.wantReports("removed", second, "", "")
	server.Client(t).ConfigSet(t.Context(), "maxmemory", "0")
	s.ok(saveOp(1, first, 0, "new"))
	s.wantReports("saved", first, "half", "new")
}

// TestCheckpointTooLarge: a checkpoint that Redis does not take is too large, and nothing else is held up.
func TestCheckpointTooLarge(t *testing.T) {
	t.Parallel()
	s := newEndedTest(t, Options{URL: redistest.Start(t, "--proto-max-bulk-len", "1mb").URL()})
	id := s.ok(put("x")).ID
	s.take("t")
	ops := []storage.Op{saveOp(1, id, 0, "old"), saveOp(1, id, 0, strings.Repeat("x", 2<<20)), sayOp(1, id, "half")}
	storage.DoWait(s, ops)
	if ops[0].Answer.Err != nil || !errors.Is(ops[1].Answer.Err, storage.ErrTooBig) || ops[2].Answer.Err != nil {
		t.Errorf("%v, %v, %v", ops[0].Answer.Err, ops[1].Answer.Err, ops[2].Answer.Err)
	}
	s.wantReports("refused", id, "half", "old")
}

// TestCheckpointSavedOnce: the reply to a save is lost. It is sent again, and does not replace the next one.
func TestCheckpointSavedOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := newEndedTest(t, Options{URL: proxy.URL()})
	id := s.ok(put("x")).ID
	s.take("t")
	client := server.Client(t)
	key := "redstalk:{0}:checkpoint:" + string(schema.AppendID(nil, id))
	for n, size := range []int{5, 3 * schema.LargeFrom} {
		newer := strings.Repeat("n", size) // as long as what it replaces
		cutBehind(proxy, "reporting", func() { client.Set(t.Context(), key, newer, 0) })
		s.ok(saveOp(1, id, 0, strings.Repeat("f", size)))
		if got := s.parts[0].stats.replays.Load(); got != uint64(n+1) {
			t.Errorf("%d replies were repeated", got)
		}
		s.wantReports("sent twice", id, "", newer)
		s.ok(saveOp(1, id, 0, "second"))
		s.wantReports("saved", id, "", "second")
	}
	if left := client.Keys(t.Context(), "*:put:*").Val(); len(left) > 0 {
		t.Errorf("staged records are left: %q", left)
	}
}

// TestReportsOnTheirWay: a dead letter that goes to another partition in steps has its checkpoint and its progress there, whatever step was the last.
func TestReportsOnTheirWay(t *testing.T) {
	t.Parallel()
	for steps := range 4 {
		t.Run(fmt.Sprint("steps ", steps), func(t *testing.T) {
			url := redistest.Start(t).URL()
			from, to := tubesInTwoPartitions(3)
			o := Options{URL: url, Partitions: 3}
			s := newEndedTest(t, o)
			for _, p := range s.parts {
				p.deadLetters.sending.Store(true) // it sends none
			}
			op := storage.Op{Kind: storage.Put, Tube: from, TTR: 600, Body: []byte("x"), Args: &storage.Args{Tags: &tube.Tags{Rules: tube.Rules{Max: 1, Dead: to}}}}
			id, large := s.ok(op).ID, strings.Repeat("x", tube.MaxCheckpoint)
			s.take(from)
			s.ok(saveOp(1, id, 0, large))
			s.ok(sayOp(1, id, "half"))
			s.ok(move(tube.Release, 1, id))
			s.wantReports("on its way", id, "half", large)
			s.sendFirst(s.parts[schema.PartitionOf(from, 3)], steps)
			s.crash()
			other := newEndedTest(t, o)
			awaitSent(t, other.Store, from, to, 1)
			dead := other.ok(storage.Op{Kind: storage.PeekHead, Tube: to, State: tube.Ready}).ID
			other.wantReports("arrived", dead, "half", large)
			other.ok(storage.Op{Kind: storage.Replay, ID: dead, Args: &storage.Args{KeepCheckpoint: steps%2 == 0}})
			awaitSent(t, other.Store, to, from, 1)
			checkpoint := ""
			if steps%2 == 0 {
				checkpoint = large
			}
			other.wantReports("sent back", other.ok(storage.Op{Kind: storage.PeekHead, Tube: from, State: tube.Ready}).ID, "", checkpoint)
		})
	}
}

// sendFirst does the first steps of sending a dead letter.
func (t *endedTest) sendFirst(p *partition, steps int) {
	var some []*deadLetter
	if err := p.do(func(c *call) { p.encodePending(c, scanStart, func(_ string, read []*deadLetter) { some = read }) }); err != nil || len(some) != 1 {
		t.Fatal(len(some), err)
	}
	wait := func(begin func(func(error))) {
		ended := make(chan error)
		begin(func(err error) { ended <- err })
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	l := some[0]
	if steps > 0 {
		wait(l.readReports)
	}
	if steps > 1 {
		arrived := false
		if err := l.target().do(func(c *call) { l.target().encodeArrive(c, l, &arrived) }); err != nil || !arrived {
			t.Fatal(err)
		}
	}
	if steps > 2 {
		wait(func(ended func(error)) { l.depart(l.target(), ended) })
	}
}

// TestCheckOfReports: fsck finds what is wrong about checkpoints and progress, both ways, and repairs it.
func TestCheckOfReports(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newEndedTest(t, Options{URL: server.URL()})
	ids := make([]uint64, 4)
	for i := range ids {
		ids[i] = s.ok(put("x")).ID
	}
	for _, id := range ids[:3] {
		s.take("t")
		s.ok(saveOp(1, id, 0, "saved"))
		s.ok(sayOp(1, id, "half"))
	}
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Fatalf("%q", wrong)
	}
	s.Close()
	client, p := server.Client(t), "redstalk:{0}:"
	key := func(what string, id uint64) string { return p + what + ":" + string(schema.AppendID(nil, id)) }
	client.Del(t.Context(), key("checkpoint", ids[0]), key("progress", ids[0]), key("progress", ids[1]))
	client.Set(t.Context(), key("checkpoint", ids[3]), "it has none", 0)
	client.Set(t.Context(), key("progress", 99), "1 there is no such job", 0)
	client.Append(t.Context(), key("checkpoint", ids[2]), "longer")
	_, wrong := checkAt(t, server.URL(), false)
	text := strings.Join(wrong, "\n")
	for _, want := range []string{
		fmt.Sprintf("job %s: it has neither", schema.AppendID(nil, ids[0])), fmt.Sprintf("checkpoint:%s: there is no", schema.AppendID(nil, ids[3])),
		"progress:0000000000000099: there is no", "bytes of tube:t is 19, and should be 20",
		"checkpoints of counts is 3, and should be 2", "checkpoint-bytes of counts is 15, and should be 16",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not found: %s", want)
		}
	}
	if len(wrong) != 6 {
		t.Errorf("found: %s", text)
	}
	checkAt(t, server.URL(), true)
	if _, wrong := checkAt(t, server.URL(), false); len(wrong) > 0 {
		t.Errorf("after the repair: %q", wrong)
	}
}

// checkpointLedger is what the workers of TestCheckpointsSurviveKills know of a job. A checkpoint is 'ATTEMPT NUMBER'.
type checkpointLedger struct {
	attempt      int // the present one
	acknowledged int // the number of the last checkpoint that was
	sent         int // the last number that was sent
}

// TestCheckpointsSurviveKills: Redis, with appendfsync always, and instances are killed while jobs save checkpoints. A job never starts from an older
// checkpoint than the last acknowledged one, and never from one that an attempt has saved after the next one had begun.
func TestCheckpointsSurviveKills(t *testing.T) {
	t.Parallel()
	rounds := 25
	if testing.Short() {
		rounds = 4
	}
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	var ahead atomic.Int64
	o := Options{URL: server.URL(), Timeout: hasty, skew: func() time.Duration { return time.Duration(ahead.Load()) }}
	s := newEndedTest(t, o)
	ledgers := make(map[uint64]*checkpointLedger)
	for i := range 4 {
		op := put("x")
		op.TTR = 1
		if i%2 == 1 {
			op.Args = &storage.Args{Tags: &tube.Tags{Group: fmt.Sprint(i), Key: fmt.Sprint(i)}}
		}
		ledgers[s.ok(op).ID] = &checkpointLedger{}
	}
	starts := 0
	for round := range rounds {
		server.Kill()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			s = newEndedTest(t, o)
		}
		ahead.Add(int64(schema.HeartbeatTimeout + 2*time.Second))
		starts += s.attemptUntilKilled(ledgers, server)
		if round%2 == 1 {
			s.crash()
		}
	}
	t.Logf("%d starts, %d acknowledged", starts, sumOf(ledgers))
	server.Restart()
	wantNoFaults(t, Options{URL: server.URL()})
}

// attemptUntilKilled makes attempts, and kills Redis at any moment after the second start of a job. It returns how many have started.
func (t *endedTest) attemptUntilKilled(ledgers map[uint64]*checkpointLedger, server *redistest.Server) (starts int) {
	var kill *time.Timer
	var killed atomic.Bool
	for n, end := 0, time.Now().Add(time.Minute); !killed.Load(); n++ {
		if time.Now().After(end) {
			t.Fatalf("only %d starts in a minute", starts)
		}
		t.TickAll()
		started, _ := t.attempt(ledgers, n) // there are errors while Redis ends, and when it is slow
		if starts += started; kill == nil && starts >= 2 {
			kill = time.AfterFunc(time.Duration(rand.IntN(300))*time.Millisecond, func() { server.Kill(); killed.Store(true) })
		}
	}
	return starts
}

func sumOf(ledgers map[uint64]*checkpointLedger) (n int) {
	for _, l := range ledgers {
		n += l.acknowledged
	}
	return n
}

// attempt takes a job, checks its checkpoint, saves others, and releases it. It returns how many jobs have started, and the first error.
func (t *endedTest) attempt(ledgers map[uint64]*checkpointLedger, n int) (started int, err error) {
	h, lease := tube.Holder(1), uint64(0)
	if n%2 == 0 {
		h = tube.LeaseHolder
	}
	a := do(t.Store, takeOf(h, "t"))
	if a.Err != nil || a.NotFound {
		return 0, a.Err
	}
	if a.Result != nil {
		lease = a.Result.Lease
	}
	l := ledgers[a.ID]
	l.attempt++
	read := do(t.Store, storage.Op{Kind: storage.GetCheckpoint, ID: a.ID})
	if read.Err != nil {
		return 1, read.Err
	}
	attempt, number := 0, 0
	fmt.Sscan(string(read.Body), &attempt, &number)
	if number < l.acknowledged || number > l.sent || attempt >= l.attempt {
		t.Errorf("attempt %d of job %d starts from %.20q; %d is acknowledged, %d was sent", l.attempt, a.ID, read.Body, l.acknowledged, l.sent)
	}
	for range rand.IntN(4) {
		l.sent++
		text := fmt.Sprintf("%d %d %s", l.attempt, l.sent, strings.Repeat("x", rand.IntN(3)*4000))
		b := do(t.Store, saveOp(h, a.ID, lease, text))
		if b.Err == nil && !b.NotFound {
			l.acknowledged = l.sent
		}
		if b.Err != nil {
			return 1, b.Err
		}
	}
	if rand.IntN(4) == 0 {
		return 1, nil // its TTR ends
	}
	end := move(tube.Release, h, a.ID)
	end.Args = &storage.Args{Lease: lease, Reason: strconv.Itoa(n)}
	if b := do(t.Store, end); b.Err != nil {
		return 1, b.Err
	}
	b := do(t.Store, saveOp(h, a.ID, lease, fmt.Sprint(l.attempt+1, " ", l.sent+1000)))
	if b.Err == nil && !b.NotFound {
		t.Errorf("attempt %d of job %d has saved a checkpoint after its end", l.attempt, a.ID)
	}
	return 1, b.Err
}
