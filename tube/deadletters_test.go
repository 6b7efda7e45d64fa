package tube

import (
	"slices"
	"testing"
	"time"
)

// at returns the instant that is d after the beginning of a test.
func at(d time.Duration) Instant { return Instant(time.Hour) + Instant(d) }

// putTagged puts a job with tags, which must succeed.
func putTagged(t *testing.T, m *Machine, now Instant, in string, tags Tags) uint64 {
	t.Helper()
	a := m.PutTagged(now, NewJob{Tube: in, Pri: 10, TTR: 60, Body: []byte("body")}, &tags)
	if a.Result != PutNew {
		t.Fatalf("a put was answered %+v", a)
	}
	return a.ID
}

// minutes returns the waits of a retry list.
func minutes(n ...int) (waits []time.Duration) {
	for _, m := range n {
		waits = append(waits, time.Duration(m)*time.Minute)
	}
	return waits
}

// TestPaymentSchedule checks that a job with the list of waits of docs/extensions.md is delivered
// eight times, at the documented offsets, and is then parked.
func TestPaymentSchedule(t *testing.T) {
	m := NewMachine()
	id := putTagged(t, m, at(0), "pay", Tags{Rules: Rules{Retry: minutes(2, 10, 10, 60, 120, 360, 900)}})
	var offsets []time.Duration
	for now := at(0); ; now = m.Next() {
		if now == Never {
			break
		}
		m.Tick(now, 10)
		for j, _ := m.Take(now, 1, []string{"pay"}); j != nil; j, _ = m.Take(now, 1, []string{"pay"}) {
			offsets = append(offsets, time.Duration(now-at(0)))
			m.Move(now, Release, 1, id, Terms{Pri: 10})
		}
	}
	want := append([]time.Duration{0}, minutes(2, 12, 22, 82, 202, 562, 1462)...)
	if !slices.Equal(offsets, want) {
		t.Errorf("delivered at %v, want %v", offsets, want)
	}
	s, _ := m.JobStats(at(0), id)
	if s.State != Buried || s.Metadata.Parked != ParkedRetries || s.Metadata.Failures(&s.Counters) != 8 || s.Counters[Buries] != 0 {
		t.Errorf("in the end the job is %+v, %+v", s, s.Metadata)
	}
	if j := m.Move(at(0), KickJob, 0, id, Terms{}); j.State() != Ready {
		t.Fatal("not kicked")
	}
	if s, _ = m.JobStats(at(0), id); s.Metadata.Failures(&s.Counters) != 0 || s.Counters[Releases] != 8 || s.Metadata.Parked != NotParked {
		t.Errorf("after the kick the job is %+v, %+v", s, s.Metadata)
	}
}

// TestOutcomes checks what counts as a failure and what as a delivery.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name                 string
		rules                Rules
		end                  func(m *Machine, now Instant, id uint64)
		state                State
		parked               Parked
		wait                 time.Duration
		failures, deliveries uint32
	}{
		{"released", Rules{Retry: minutes(5)}, release(0), Delayed, NotParked, 5 * time.Minute, 1, 1},
		{"released with a delay", Rules{Retry: minutes(5)}, release(7), Delayed, NotParked, 7 * time.Second, 1, 1},
		{"TTR over", Rules{Retry: minutes(5)}, func(m *Machine, now Instant, _ uint64) { m.Tick(now.After(60), 10) },
			Delayed, NotParked, 5*time.Minute + 60*time.Second, 1, 1},
		{"connection closed", Rules{Retry: minutes(5)}, disconnect, Ready, NotParked, 0, 0, 1},
		{"the same, the last delivery", Rules{Retry: minutes(5), Max: 1}, disconnect, Buried, ParkedDeliveries, 0, 0, 1},
		{"buried by its holder", Rules{Max: 1}, func(m *Machine, now Instant, id uint64) { m.Move(now, Bury, 1, id, Terms{}) },
			Buried, NotParked, 0, 0, 1},
		{"no wait", Rules{Retry: []time.Duration{0}}, release(0), Ready, NotParked, 0, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMachine()
			id := putTagged(t, m, at(0), "t", Tags{Rules: c.rules})
			m.Take(at(0), 1, []string{"t"})
			c.end(m, at(0), id)
			s, _ := m.JobStats(at(0), id)
			f := s.Metadata
			if s.State != c.state || f.Parked != c.parked || s.TimeLeft != c.wait ||
				f.Failures(&s.Counters) != c.failures || f.Deliveries(&s.Counters) != c.deliveries {
				t.Errorf("the job is %+v, %+v", s, f)
			}
		})
	}
}

func release(delay uint32) func(*Machine, Instant, uint64) {
	return func(m *Machine, now Instant, id uint64) { m.Move(now, Release, 1, id, Terms{Pri: 1, Delay: delay}) }
}

func disconnect(m *Machine, now Instant, _ uint64) { m.ReleaseAll(now, 1) }

// TestDeadLetters checks that an exhausted job goes to its dead-letter tube with a new id, whether
// the job's own tags or the policy name the tube.
func TestDeadLetters(t *testing.T) {
	m := NewMachine()
	m.SetPolicy("t", &Policy{Rules: Rules{Max: 1, Dead: "morgue"}})
	id := putTagged(t, m, at(0), "t", Tags{Key: "k"})
	plain := m.Put(at(0), NewJob{Tube: "t", Pri: 3, TTR: 7, Body: []byte("plain")}).ID
	for range 2 {
		j, _ := m.Take(at(0), 1, []string{"t"})
		m.Move(at(0), Release, 1, j.ID, Terms{Pri: j.pri})
	}
	if m.Find(id) != nil || m.Find(plain) != nil {
		t.Fatal("an exhausted job still exists")
	}
	j := m.ByKey("morgue", "k")
	if j == nil || string(m.Body(j)) != "body" || j.state != Ready || j.pri != 10 || j.ttr != 60 {
		t.Fatalf("the one with the key: %+v", j)
	}
	if f := m.allMetadata(j); f.FromTube != "t" || f.FromID != id {
		t.Errorf("its metadata: %+v", f)
	}
	first, _ := m.Take(at(0), 1, []string{"morgue"})
	if f := m.allMetadata(first); string(m.Body(first)) != "plain" || f.FromID != plain {
		t.Errorf("the one without tags: %+v, %+v", first, f)
	}
}

// TestKeys checks that no two jobs of a tube have the same key, and that a key stays taken for as
// long as the rules say.
func TestKeys(t *testing.T) {
	m := NewMachine()
	put := func(now Instant, in string, onDuplicate OnDuplicate) PutAnswer {
		return m.PutTagged(now, NewJob{Tube: in, TTR: 60}, &Tags{
			Key: "k", OnDuplicate: onDuplicate, Rules: Rules{KeyTTL: time.Minute, HasKeyTTL: true}})
	}
	want := func(what string, got, want PutAnswer) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	want("the first", put(at(0), "t", NotSaid), PutAnswer{PutNew, 1, Ready})
	want("in another tube", put(at(0), "u", NotSaid), PutAnswer{PutNew, 2, Ready})
	want("again", put(at(0), "t", NotSaid), PutAnswer{PutExisting, 1, Ready})
	want("again, to fail", put(at(0), "t", Fail), PutAnswer{PutDuplicate, 1, Ready})
	m.Take(at(0), 1, []string{"t"})
	want("while reserved", put(at(0), "t", Keep), PutAnswer{PutExisting, 1, Reserved})
	want("to replace", put(at(0), "t", Replace), PutAnswer{PutNew, 3, Ready})
	if m.Move(at(0), Delete, 1, 1, Terms{}) != nil {
		t.Error("the job that was replaced still exists")
	}
	m.Move(at(0), Delete, 0, 3, Terms{})
	want("when it is gone", put(at(59*time.Second), "t", Keep), PutAnswer{PutExisting, 3, Gone})
	want("the same, before a tick", put(at(time.Minute), "t", Keep), PutAnswer{PutNew, 4, Ready})
	m.Move(at(time.Minute), Delete, 0, 4, Terms{})
	for next := m.Next(); next != Never; next = m.Tick(next, 1) {
	}
	if len(m.keys.tombstones) != 0 || m.keys.ends.len() != 0 || m.tubes["t"] != nil {
		t.Errorf("what is left: %v", m.keys.tombstones)
	}
}

// TestQuotas checks that a put beyond a quota creates no job. If it replaces a job, that job does
// not count.
func TestQuotas(t *testing.T) {
	m := NewMachine()
	m.SetPolicy("t", &Policy{QuotaJobs: 2, HasQuotaJobs: true, QuotaBytes: 9, HasQuotaBytes: true})
	put := func(key string, size int, onDuplicate OnDuplicate) PutResult {
		return m.PutTagged(at(0), NewJob{Tube: "t", Body: make([]byte, size)}, &Tags{Key: key, OnDuplicate: onDuplicate}).Result
	}
	got := []PutResult{put("a", 5, Keep), put("b", 5, Keep), put("b", 4, Keep), put("c", 0, Keep), put("b", 5, Replace), put("b", 3, Replace)}
	want := []PutResult{PutNew, PutRefused, PutNew, PutRefused, PutRefused, PutNew}
	if !slices.Equal(got, want) {
		t.Errorf("puts were answered %v, want %v", got, want)
	}
	if m.Admits("t", 0) || !m.Admits("u", 0) {
		t.Error("puts without tags do not behave as those with tags")
	}
}

// TestLeases checks that a lease token is valid for one delivery, from any connection.
func TestLeases(t *testing.T) {
	m := NewMachine()
	id := m.Put(at(0), NewJob{Tube: "t", TTR: 10}).ID
	j, _ := m.Take(at(0), LeaseHolder, []string{"t"})
	token := m.Lease(j)
	if token == 0 || m.Move(at(0), Delete, 1, id, Terms{}) != nil || m.MoveLeased(at(0), Delete, token+1, id, Terms{}) != nil {
		t.Fatal("a leased job was finished without its token")
	}
	if m.MoveLeased(at(time.Second), Touch, token, id, Terms{}) == nil {
		t.Error("the token is not valid")
	}
	m.Tick(at(11*time.Second), 10)
	if j.state != Ready || j.counters[Timeouts] != 1 || m.MoveLeased(at(11*time.Second), Touch, token, id, Terms{}) != nil {
		t.Errorf("after its TTR the job is %+v", j)
	}
	j, _ = m.Take(0, LeaseHolder, []string{"t"}) // the clock has gone back
	if next := m.Lease(j); next <= token {
		t.Errorf("token %d after %d", next, token)
	} else if m.MoveLeased(0, Delete, next, id, Terms{}) == nil {
		t.Error("the second token is not valid")
	}
}
