package storetest

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"redstalk/storage"
	"redstalk/tube"
)

// DataVersions are the released versions whose data are in testdata, by the number of the layout.
var DataVersions = map[int]string{1: "0.1.0", 2: "0.2.0"}

// CheckData checks that a store has what is in testdata of the version with a layout, and that a job of it can get
// notes. lease is the token of its leased job.
func CheckData(t testing.TB, s storage.Store, layout int, lease uint64) {
	b := &harness{TB: t, engine: &Engine{}, store: s}
	b.checkPlainData()
	b.checkTaggedData(lease)
	if layout >= 2 {
		b.checkGroupedData()
	}
	b.fail(tube.Bury, 4, "it fails with the new program")
	b.wantNotes("buried now", 4, tube.Notes{Reason: "it fails with the new program"})
	if id := b.put("plain", 1); id <= 11 || layout >= 2 && id <= 12 {
		b.Errorf("a new job has the id %d", id)
	}
}

// wantJob checks a job without its metadata.
func (b *harness) wantJob(id uint64, body string, want tube.JobStats) {
	b.Helper()
	got := b.job(id)
	if peeked := b.do(storage.Op{Kind: storage.Peek, ID: id}); string(peeked.Body) != body {
		b.Errorf("the body of job %d is %.40q", id, peeked.Body)
	}
	want.ID = id
	got.Created, got.Age, got.TimeLeft, got.File, got.Metadata, got.Rules, got.Holder = 0, 0, 0, 0, nil, tube.Rules{}, 0
	if !reflect.DeepEqual(got, want) {
		b.Errorf("job %d is %+v\nwant %+v", id, got, want)
	}
}

func (b *harness) checkPlainData() {
	b.Helper()
	b.wantJob(1, "plain", tube.JobStats{Tube: "plain", State: tube.Ready, Pri: 5, TTR: 60})
	b.wantJob(2, "delayed", tube.JobStats{Tube: "plain", State: tube.Delayed, Pri: 9, Delay: 300_000_000, TTR: 60})
	b.wantJob(3, "buried", tube.JobStats{Tube: "plain", State: tube.Buried, Pri: 4, TTR: 60, Counters: tube.Counters{tube.Reserves: 1, tube.Buries: 1}})
	b.wantJob(11, "released", tube.JobStats{Tube: "plain", State: tube.Ready, Pri: 6, TTR: 60, Counters: tube.Counters{tube.Reserves: 1, tube.Releases: 1}})
	policy := tube.Policy{
		Rules:     tube.Rules{Retry: []time.Duration{10 * time.Second, time.Minute}, Max: 7, Dead: "graves", KeyTTL: time.Hour, HasKeyTTL: true},
		QuotaJobs: 1000, HasQuotaJobs: true, OnDuplicate: tube.Fail,
	}
	if got := b.policy("t"); !reflect.DeepEqual(*got, policy) {
		b.Errorf("the policy is %+v", got)
	}
}

// checkGroupedData checks what 0.2.0 has beyond 0.1.0.
func (b *harness) checkGroupedData() {
	b.Helper()
	b.wantJob(12, "grouped", tube.JobStats{Tube: "groups", State: tube.Buried, Pri: 1, TTR: 60, Counters: tube.Counters{tube.Reserves: 1, tube.Buries: 1}})
	m := *b.job(12).Metadata
	want := tube.Notes{Meta: []tube.Meta{{Name: "a", Value: "1"}}, Trace: aTrace, Reason: "no such user", FailedAt: m.AllNotes().FailedAt}
	if m.Group != "g" || m.Batch != "import" || want.FailedAt == 0 || !reflect.DeepEqual(*m.AllNotes(), want) {
		b.Errorf("the metadata of job 12 are %+v, with %+v", m, m.AllNotes())
	}
	if s := b.schedule("nightly"); s == nil || s.Cron != "0 3 * * *" || s.Tube != "later" || string(s.Body) != "body" {
		b.Errorf("the schedule is %+v", s)
	}
	b.failBy(tube.Release, 12, "w", "")
	b.wantAttempts("failed again", 12, tube.Attempt{How: tube.FailedByRelease, Holder: "w"})
}

func (b *harness) checkTaggedData(lease uint64) {
	b.Helper()
	rules := tube.Rules{Retry: []time.Duration{0, 250 * time.Millisecond}, Max: 9, Dead: "nowhere", KeyTTL: 3650 * 24 * time.Hour, HasKeyTTL: true}
	b.wantJob(4, "one", tube.JobStats{Tube: "tagged", State: tube.Ready, Pri: 1, TTR: 60})
	if m := b.job(4).Metadata; !reflect.DeepEqual(*m, tube.Metadata{Key: "k1", Rules: rules}) {
		b.Errorf("the metadata of job 4 are %+v", m)
	}
	b.wantRetries("parked", 5, tube.Buried, tube.ParkedRetries, 2, 2)
	b.wantPut("tagged", tube.Tags{Key: "gone"}, tube.PutExisting, 6, tube.Gone)
	b.wantJob(8, "dead", tube.JobStats{Tube: "morgue", State: tube.Ready, Pri: 8, TTR: 60})
	if m := b.job(8).Metadata; !reflect.DeepEqual(*m, tube.Metadata{Key: "k3", FromTube: "tagged", FromID: 7}) {
		b.Errorf("the metadata of job 8 are %+v", m)
	}
	b.wantJob(10, strings.Repeat("x", 20_000), tube.JobStats{Tube: "large", State: tube.Ready, Pri: 4, TTR: 60})
	b.wantJob(9, "lease", tube.JobStats{
		Tube: "leased", State: tube.Reserved, TTR: 300_000_000, Counters: tube.Counters{tube.Reserves: 1}, Leased: true,
	})
	if !b.leased(tube.Release, 9, lease) {
		b.Error("the lease is not found")
	}
}
