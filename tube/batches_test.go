package tube

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// putInBatch puts a job with tags into tube "t".
func putInBatch(t testing.TB, m *Machine, now Instant, tags Tags) *Job {
	t.Helper()
	a := m.PutTagged(now, NewJob{Tube: "t", TTR: 60}, &tags)
	if a.Result != PutNew {
		t.Fatalf("a put with %+v: %+v", tags, a)
	}
	return m.Find(a.ID)
}

func dueBatches(m *Machine, now Instant) (due []*JobBatch) {
	for _, r := range m.DueRecords(now, JobBatches, 10) {
		due = append(due, r.(*JobBatch))
	}
	return due
}

// TestAfterJob: a job after a batch runs once all members are done, not by time and not by kick.
func TestAfterJob(t *testing.T) {
	m, now := NewMachine(), Instant(time.Hour)
	member := putInBatch(t, m, now, Tags{Batch: "b"}).ID
	after := putInBatch(t, m, now, Tags{After: "b", HasDelay: true, Delay: time.Second}).ID
	now += Instant(time.Hour)
	m.Tick(now, 10)
	if n := m.Kick(now, "t", 10); n != 0 || m.Find(after).state != Delayed || m.Reschedule(now, after, 0) {
		t.Errorf("it does not wait: %d kicked, %v", n, m.Find(after).state)
	}
	m.SealBatch(now, "b")
	if a := m.PutTagged(now, NewJob{Tube: "t"}, &Tags{Batch: "b"}); a.Result != PutSealed {
		t.Errorf("a put into a sealed batch: %+v", a)
	}
	m.Move(now, Delete, 0, member, Terms{})
	due := dueBatches(m, now)
	if len(due) != 1 || due[0].Pending != 0 || due[0].Done != 1 || due[0].AfterHeld != 1 {
		t.Fatalf("due: %+v", due)
	}
	s := Settlement{Stamp: due[0].Stamp + 1, Verdict: BatchDone, Due: Never}
	if _, _, ok := m.SettleBatch(now, "b", &s, 10); ok || m.Find(after).batch&isHeld == 0 {
		t.Error("it was settled with another stamp")
	}
	s.Stamp--
	if n, more, ok := m.SettleBatch(now, "b", &s, 10); n != 1 || more || !ok {
		t.Errorf("settled: %d, %v, %v", n, more, ok)
	}
	if j := m.Find(after); j.state != Delayed || Instant(j.rank) != now+Instant(time.Second) || j.batch != 0 {
		t.Errorf("let go: %+v", j)
	}
	s.Forget = true
	if _, _, ok := m.SettleBatch(now, "b", &s, 10); !ok || m.Batch(now, "b") != nil {
		t.Error("it was not forgotten")
	}
}

// TestAfterList: of many jobs after a batch, which leave in any order, those that are left run in the order of their ids.
func TestAfterList(t *testing.T) {
	m, now := NewMachine(), Instant(time.Hour)
	var ids []uint64
	for i := range 2000 {
		ids = append(ids, putInBatch(t, m, now, Tags{After: "b", AfterAll: i%3 == 0}).ID)
	}
	for i := 0; i < len(ids); i += 2 {
		m.Move(now, []Move{Delete, KickJob}[i/2%2], 0, ids[i], Terms{})
	}
	for i := 1; i < len(ids); i += 2 {
		b := m.Batch(now, "b")
		if b.AfterHeld != uint64(len(ids)-i)/2+uint64(len(ids)-i)%2 || b.After[0].ID != ids[i] {
			t.Fatalf("%d are held, the first is %d; want %d", b.AfterHeld, b.After[0].ID, ids[i])
		}
		m.SettleBatch(now, "b", &Settlement{Verdict: BatchDone, Due: Never}, 1)
		if m.Find(ids[i]).state != Ready {
			t.Fatalf("job %d is %v", ids[i], m.Find(ids[i]).state)
		}
	}
}

// TestMillionMembers: a batch of many members needs little memory, and is cancelled in parts.
func TestMillionMembers(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	measure := func(tags *Tags) (m *Machine, bytes uint64, took time.Duration) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m = NewMachine()
		begun := time.Now()
		for range n {
			if tags == nil {
				m.Put(1, NewJob{Tube: "t", TTR: 60})
			} else {
				m.PutTagged(1, NewJob{Tube: "t", TTR: 60}, tags)
			}
		}
		took = time.Since(begun)
		runtime.GC()
		runtime.ReadMemStats(&after)
		return m, after.HeapAlloc - before.HeapAlloc, took
	}
	_, plain, plainTook := measure(nil)
	m, members, took := measure(&Tags{Batch: "b"})
	t.Logf("%d plain jobs: %v, %d B each; members: %v, %d B each", n, plainTook, plain/uint64(n), took, members/uint64(n))
	if members > plain+40*uint64(n) {
		t.Errorf("a member needs %d bytes more than a plain job", (members-plain)/uint64(n))
	}
	c, longest := m.CancelBatch(2, "b"), time.Duration(0)
	for ended := false; !ended; {
		begun := time.Now()
		ended = m.CancelSome(2, c, 512)
		longest = max(longest, time.Since(begun))
	}
	if b := m.Batch(2, "b"); c.Removed() != n || b.Gone != uint64(n) || b.Pending != 0 || m.Totals().Ready != 0 {
		t.Errorf("removed: %d, %+v", c.Removed(), b)
	}
	t.Logf("the longest part of the cancellation took %v", longest)
}

// TestMembersListed: members are listed once, however their ids are spread over batches.
func TestMembersListed(t *testing.T) {
	m := NewMachine()
	for i := range 3000 {
		putInBatch(t, m, 1, Tags{Batch: fmt.Sprint(i % 7)})
		if i%10 == 0 {
			m.Remove(1, m.Find(uint64(i/2+1)))
		}
	}
	seen := make(map[uint64]bool)
	for i := range 7 {
		name := fmt.Sprint(i)
		for cursor, more := "", true; more; more = cursor != "" {
			var jobs []JobStats
			jobs, cursor = m.ListMembers(1, name, cursor, 50, 100)
			for _, j := range jobs {
				if seen[j.ID] || j.Metadata == nil || j.Metadata.Batch != name {
					t.Fatalf("job %d is listed: %+v", j.ID, j.Metadata)
				}
				seen[j.ID] = true
			}
		}
	}
	if len(seen) != 2700 {
		t.Errorf("%d members are listed", len(seen))
	}
}

// TestRestoredBatchIsDue: a restored batch is examined at once, also if the clock is behind that of its beginning.
func TestRestoredBatchIsDue(t *testing.T) {
	m := NewMachine()
	m.RestoreBatch(JobBatch{Name: "b", Created: Instant(24 * time.Hour), Verdict: BatchUnsealed, Since: Instant(48 * time.Hour)})
	if due := dueBatches(m, Instant(time.Hour)); len(due) != 1 || due[0].Due > Instant(time.Hour) {
		t.Errorf("due: %+v", due)
	}
}
