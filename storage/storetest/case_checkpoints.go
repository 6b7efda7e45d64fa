package storetest

import (
	"fmt"
	"strings"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// saves saves a checkpoint of a job, and reports whether that was possible.
func (b *harness) saves(h tube.Holder, id, lease uint64, data string) bool {
	b.Helper()
	return !b.do(storage.Op{
		Kind: storage.Move, Move: tube.SaveCheckpoint, Holder: h, ID: id, Args: &storage.Args{Lease: lease, Data: []byte(data)},
	}).NotFound
}

// save is saves, which must be possible.
func (b *harness) save(h tube.Holder, id, lease uint64, data string) {
	b.Helper()
	if !b.saves(h, id, lease, data) {
		b.Fatalf("the checkpoint of job %d was not saved", id)
	}
}

// wantCheckpoint checks the checkpoint of a job; "": it has none.
func (b *harness) wantCheckpoint(what string, id uint64, want string) {
	b.Helper()
	a := b.do(storage.Op{Kind: storage.GetCheckpoint, ID: id})
	if a.Err != nil || a.NotFound != (want == "") || string(a.Body) != want {
		b.Fatalf("%s: the checkpoint of job %d has %d bytes (not found: %v, %v), not the %d that were saved", what, id, len(a.Body), a.NotFound, a.Err, len(want))
	}
	s := b.job(id)
	if got := s.Metadata.CheckpointSize(); got != len(want) {
		b.Fatalf("%s: job %d says that its checkpoint has %d bytes, not %d", what, id, got, len(want))
	}
}

// progress lets a holder say how far it is.
func (b *harness) progress(h tube.Holder, id, lease uint64, text string) bool {
	b.Helper()
	args := &storage.Args{Lease: lease, Progress: &text}
	return !b.do(storage.Op{Kind: storage.Move, Move: tube.Touch, Holder: h, ID: id, Args: args}).NotFound
}

// wantProgress checks the progress of a job.
func (b *harness) wantProgress(what string, id uint64, want string) {
	b.Helper()
	if s := b.job(id); s.Metadata == nil && want != "" || s.Metadata != nil && s.Metadata.Progress != want {
		b.Fatalf("%s: the progress of job %d is %+v, not %q", what, id, s.Metadata, want)
	}
}

// ofManySizes are jobs whose bodies and metadata differ.
func (b *harness) ofManySizes(name string) map[string]uint64 {
	return map[string]uint64{
		"plain": b.putWith(name, 5, 0, 60, "body"), "empty": b.putWith(name, 5, 0, 60, ""),
		"large": b.putWith(name, 5, 0, 60, strings.Repeat("body", 20_000)), "tagged": b.putNew(name, tube.Tags{Key: "k", Meta: someMeta(), Group: "g"}),
	}
}

// testCheckpoints: the checkpoint of a job outlives what ends a delivery, and only its holder saves it.
func testCheckpoints(b *harness) {
	largest := strings.Repeat("0123456789abcdef", tube.MaxCheckpoint/16)
	for what, id := range b.ofManySizes("t") {
		body := string(b.do(storage.Op{Kind: storage.Peek, ID: id}).Body)
		b.wantCheckpoint("put", id, "")
		if b.saves(1, id, 0, "x") {
			b.Fatalf("%s: a checkpoint was saved of a job that nobody holds", what)
		}
		b.must(tube.ReserveJob, 1, id)
		for _, data := range []string{"first", largest, "", "x", "last"} {
			b.save(1, id, 0, data)
			b.wantCheckpoint(what, id, data)
		}
		if b.saves(2, id, 0, "of another holder") {
			b.Fatalf("%s: another holder has saved a checkpoint", what)
		}
		b.must(tube.Release, 1, id)
		b.wantCheckpoint("released", id, "last")
		b.must(tube.ReserveJob, 2, id)
		b.wantCheckpoint("reserved again", id, "last")
		b.advance(61 * time.Second)
		b.wantCheckpoint("after its TTR", id, "last")
		if b.saves(2, id, 0, "too late") {
			b.Fatalf("%s: a checkpoint was saved after the TTR", what)
		}
		b.fail(tube.Bury, id, "a reason")
		b.wantCheckpoint("buried", id, "last")
		if got := string(b.do(storage.Op{Kind: storage.Peek, ID: id}).Body); got != body {
			b.Errorf("%s: the body has %d bytes, and had %d", what, len(got), len(body))
		}
		b.must(tube.Delete, 0, id)
		if a := b.do(storage.Op{Kind: storage.GetCheckpoint, ID: id}); !a.NotFound {
			b.Errorf("%s: a deleted job has a checkpoint", what)
		}
	}
	if s := b.tube("t"); s != nil {
		b.Errorf("the tube is left: %+v", s)
	}
}

// testCheckpointTouches: saving a checkpoint starts the TTR again.
func testCheckpointTouches(b *harness) {
	id := b.put("t", 5)
	b.must(tube.ReserveJob, 1, id)
	for range 3 {
		b.advance(40 * time.Second)
		b.save(1, id, 0, "x")
	}
	if s := b.job(id); s.State != tube.Reserved || s.Counters.Failures() != 0 {
		b.Errorf("after 120 s with checkpoints: %s", showJob(&s))
	}
}

// testCheckpointLeased: only the present lease saves a checkpoint.
func testCheckpointLeased(b *harness) {
	id := b.put("t", 5)
	_, token := b.lease("t")
	b.save(tube.LeaseHolder, id, token, "mine")
	if b.saves(tube.LeaseHolder, id, token+1, "not mine") || b.progress(tube.LeaseHolder, id, token+1, "not mine") {
		b.Fatal("a wrong token was accepted")
	}
	b.advance(61 * time.Second)
	_, next := b.lease("t")
	if b.saves(tube.LeaseHolder, id, token, "too late") {
		b.Fatal("a lease that has ended has saved a checkpoint")
	}
	b.wantCheckpoint("leased again", id, "mine")
	if !b.progress(tube.LeaseHolder, id, next, "half") {
		b.Fatal("the present lease cannot say how far it is")
	}
	b.wantProgress("leased again", id, "half")
}

// testCheckpointsKicked: kicks and replays drop checkpoints, unless they are to be kept.
func testCheckpointsKicked(b *harness) {
	for _, keep := range []bool{false, true} {
		want := ""
		if keep {
			want = "saved"
		}
		args := &storage.Args{KeepCheckpoint: keep}
		for what, id := range b.ofManySizes("t") {
			for name, op := range map[string]storage.Op{
				"kick-job": {Kind: storage.Move, Move: tube.KickJob, ID: id, Args: args}, "kick": {Kind: storage.Kick, Tube: "t", MaxJobs: 1, Args: args},
				"replay": {Kind: storage.Replay, ID: id, Args: args},
			} {
				b.must(tube.ReserveJob, 1, id)
				b.save(1, id, 0, "saved")
				b.must(tube.Bury, 1, id)
				if b.do(op).NotFound {
					b.Fatalf("%s of a buried job was not possible", name)
				}
				b.wantCheckpoint(what+": "+name, id, want)
			}
			b.must(tube.Delete, 0, id)
		}
	}
}

// testCheckpointsMoved: a checkpoint goes on with the job that is made of another one, and is counted in its tube.
func testCheckpointsMoved(b *harness) {
	b.setPolicy("t", &tube.Policy{Rules: tube.Rules{Max: 1, Dead: "dead"}})
	id := b.putNew("t", tube.Tags{Key: "moved"})
	b.must(tube.ReserveJob, 1, id)
	b.save(1, id, 0, "saved")
	b.must(tube.Release, 1, id)
	b.awaitSent(id)
	dead := b.head("dead", tube.Ready)
	b.wantCheckpoint("dead letter", dead, "saved")
	if b.do(storage.Op{Kind: storage.Replay, ID: dead, Args: &storage.Args{KeepCheckpoint: true}}).NotFound {
		b.Fatal("the dead letter cannot be replayed")
	}
	b.awaitSent(dead)
	back := b.head("t", tube.Ready)
	b.wantCheckpoint("sent back", back, "saved")
	for _, to := range []string{"other", "third"} {
		if b.do(storage.Op{Kind: storage.MoveJob, ID: back, Args: &storage.Args{To: to}}).NotFound {
			b.Fatalf("the job cannot be moved to %s", to)
		}
		b.awaitSent(back)
		back = b.head(to, tube.Ready)
		b.wantCheckpoint("moved", back, "saved")
	}
	b.must(tube.ReserveJob, 1, back)
	b.save(1, back, 0, "saved again")
	b.wantCheckpoint("saved again", back, "saved again")
	b.must(tube.Delete, 1, back)
	if a := b.do(storage.Op{Kind: storage.GetCheckpoint, ID: back}); !a.NotFound {
		b.Error("a deleted job has a checkpoint")
	}
}

// testCheckpointQuota: checkpoints count for the quota of bytes, which refuses puts, but no checkpoint.
func testCheckpointQuota(b *harness) {
	b.setPolicy("t", &tube.Policy{HasQuotaBytes: true, QuotaBytes: 1000})
	put := storage.Op{Kind: storage.Put, Tube: "t", TTR: 60, Body: []byte(strings.Repeat("x", 100))}
	id := b.do(put).ID
	b.must(tube.ReserveJob, 1, id)
	b.save(1, id, 0, strings.Repeat("y", 850))
	if !b.refused(put) {
		b.Error("a put is accepted that is beyond the quota because of a checkpoint")
	}
	b.save(1, id, 0, strings.Repeat("z", 2000))
	b.save(1, id, 0, "short")
	if b.refused(put) {
		b.Error("a put is refused although the checkpoint is short")
	}
	b.save(1, id, 0, strings.Repeat("z", 2000))
	b.must(tube.Delete, 1, id)
	if b.refused(put) {
		b.Error("a put is refused although the job with the checkpoint is gone")
	}
}

// testProgress: the progress of a job stays until it starts again.
func testProgress(b *harness) {
	longest := strings.Repeat("é", tube.MaxProgress/2)
	for what, id := range b.ofManySizes("t") {
		if b.progress(1, id, 0, "nobody") {
			b.Fatalf("%s: somebody who does not hold the job has said how far it is", what)
		}
		b.must(tube.ReserveJob, 1, id)
		for _, text := range []string{"1/3", longest, "", "2/3"} {
			if !b.progress(1, id, 0, text) {
				b.Fatalf("%s: the holder cannot say how far it is", what)
			}
			b.wantProgress(what, id, text)
		}
		b.must(tube.Touch, 1, id)
		b.wantProgress("touched", id, "2/3")
		b.save(1, id, 0, "x")
		b.wantProgress("with a checkpoint", id, "2/3")
		b.must(tube.Release, 1, id)
		b.wantProgress("released", id, "2/3")
		list := b.do(storage.Op{Kind: storage.ListJobs, Tube: "t", State: tube.Ready, MaxJobs: 9, Args: &storage.Args{}}).Result.Jobs
		if i := find(list, id); i < 0 || list[i].Metadata == nil || list[i].Metadata.Progress != "2/3" || list[i].Metadata.CheckpointSize() != 1 {
			b.Errorf("%s: listed: %+v", what, list)
		}
		b.must(tube.ReserveJob, 1, id)
		b.wantProgress("reserved again", id, "")
		b.wantCheckpoint("reserved again", id, "x")
		b.must(tube.Delete, 1, id)
	}
}

// find returns the index of a job in a list; -1 if it is not there.
func find(list []tube.JobStats, id uint64) int {
	for i := range list {
		if list[i].ID == id {
			return i
		}
	}
	return -1
}

// testCheckpointsSurvive: what is saved survives a restart and a crash.
func testCheckpointsSurvive(b *harness) {
	if !b.engine.Durable {
		b.Skip("keeps nothing")
	}
	large := strings.Repeat("0123456789abcdef", 2000)
	ids := b.ofManySizes("t")
	for what, id := range ids {
		b.must(tube.ReserveJob, 1, id)
		b.save(1, id, 0, "before")
		b.save(1, id, 0, large+what)
	}
	b.put("leased", 5)
	id, token := b.lease("leased")
	b.save(tube.LeaseHolder, id, token, "leased")
	removed := b.put("t", 5)
	b.must(tube.ReserveJob, 1, removed)
	b.save(1, removed, 0, "removed")
	b.save(1, removed, 0, "")
	for _, end := range []func(){func() { b.close() }, func() { b.engine.Crash(b.store); b.store = nil }} {
		end()
		b.open()
		for what, id := range ids {
			b.wantCheckpoint("after a restart", id, large+what)
		}
		b.wantCheckpoint("after a restart", id, "leased")
		b.wantCheckpoint("after a restart", removed, "")
		b.save(tube.LeaseHolder, id, token, "leased")
	}
	for what, id := range ids {
		b.must(tube.ReserveJob, 1, id)
		b.save(1, id, 0, what)
		b.must(tube.Delete, 1, id)
	}
	b.close()
	b.open()
	b.wantCheckpoint("after the last restart", id, "leased")
}

// wantExtras checks how many keys are held by no job, and how many checkpoints there are with how many bytes. A store in other processes
// can forget a key a little later than its time is over.
func (b *harness) wantExtras(what string, held, jobs, bytes uint64) {
	b.Helper()
	want := tube.CheckpointTotals{Jobs: jobs, Bytes: bytes}
	for limit := time.Now().Add(learnLimit); ; time.Sleep(time.Millisecond) {
		s := b.do(storage.Op{Kind: storage.Stats}).Stats
		if s.HeldKeys == held && s.Checkpoints == want {
			return
		}
		if s.HeldKeys < held || s.Checkpoints != want || time.Now().After(limit) {
			b.Fatalf("%s: %d keys are held, and checkpoints are %+v; want %d, and %+v", what, s.HeldKeys, s.Checkpoints, held, want)
		}
		b.advance(0)
	}
}

// testFiguresOfExtras: the figures of checkpoints and of keys without jobs follow what happens to jobs, also when a checkpoint goes on
// with another job.
func testFiguresOfExtras(b *harness) {
	var ids []uint64
	for i := range 5 {
		ids = append(ids, b.putNew("t", tube.Tags{Key: fmt.Sprint("k", i), Rules: tube.Rules{HasKeyTTL: true, KeyTTL: 30 * time.Second}}))
	}
	b.wantExtras("without any", 0, 0, 0)
	for i, id := range ids {
		b.must(tube.ReserveJob, 1, id)
		b.save(1, id, 0, strings.Repeat("x", 10*(i+1)))
	}
	b.save(1, ids[0], 0, "short")
	b.wantExtras("saved", 0, 5, 145)
	b.save(1, ids[3], 0, "")
	b.wantExtras("one was removed", 0, 4, 105)
	b.must(tube.Delete, 1, ids[0])
	b.wantExtras("a job was deleted", 1, 3, 100)
	b.must(tube.Bury, 1, ids[4])
	b.kick("t", 1)
	b.wantExtras("a job was kicked", 1, 2, 50)
	b.must(tube.Release, 1, ids[1])
	b.do(storage.Op{Kind: storage.MoveJob, ID: ids[1], Args: &storage.Args{To: "other"}})
	b.awaitSent(ids[1])
	b.wantExtras("a job was moved", 2, 2, 50)
	b.flush("t", tube.Ready)
	b.flush("t", tube.Reserved)
	b.wantExtras("its tube was flushed", 5, 1, 20)
	b.advance(33 * time.Second)
	b.wantExtras("the keys are free again", 0, 1, 20)
}
