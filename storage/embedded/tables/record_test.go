package tables

import (
	"reflect"
	"testing"
	"time"

	"redstalk/tube"
)

func name(b []byte) string { return string(b) }

// fullRules have a value in every field.
var fullRules = tube.Rules{Retry: []time.Duration{0, time.Second, 87600 * time.Hour}, Max: 7, Dead: "morgue", KeyTTL: time.Minute, HasKeyTTL: true}

// records are records of all kinds.
var records = []tube.Record{
	{ID: 1, Tube: "t", State: tube.Ready, Pri: 1, TTR: 1, Created: 5},
	{ID: 2, Tube: "t", State: tube.Ready, Held: true, Size: 1 << 30},
	{ID: 3, Tube: "t", State: tube.Delayed, Rank: 1 << 60, Metadata: &tube.Metadata{Key: "key"}},
	{ID: 4, Tube: "t", State: tube.Reserved, Rank: 77, Metadata: &tube.Metadata{Lease: 1<<63 + 1, Rules: tube.Rules{HasKeyTTL: true}}},
	{ID: 5, Tube: "t", State: tube.Buried, Rank: 3, Metadata: &tube.Metadata{
		Key: "k", Rules: fullRules, FailuresBefore: 1, DeliveriesBefore: 1<<32 - 1,
		Parked: tube.ParkedDeliveries, PendingDead: "morgue", Lease: 9, FromTube: "from", FromID: 1 << 50,
	}},
	{ID: 6, Tube: "t", State: tube.Ready, Metadata: &tube.Metadata{}},
	{ID: 7, Tube: "t", State: tube.Ready, Metadata: &tube.Metadata{
		Group: "g", Occurrence: &tube.Occurrence{Schedule: "s", Nominal: 1_790_000_000_123 * tube.Instant(time.Millisecond)},
	}},
}

// TestRecords: a record is decoded as it was encoded, and the bytes behind it are returned.
func TestRecords(t *testing.T) {
	for _, r := range records {
		b := append(AppendRecord(nil, &r), "rest"...)
		got, rest, err := DecodeRecord(r.ID, b, name)
		if err != nil || string(rest) != "rest" || !reflect.DeepEqual(got, r) {
			t.Errorf("it is %+v %+v, %q, %v; want %+v %+v", got, got.Metadata, rest, err, r, r.Metadata)
		}
		for n := range len(b) - len("rest") {
			if _, _, err := DecodeRecord(r.ID, b[:n], name); err == nil {
				t.Errorf("%d bytes of record %d are taken for all of it", n, r.ID)
			}
		}
	}
}

// TestPlainRecord: the record of a job without metadata has exactly these bytes.
func TestPlainRecord(t *testing.T) {
	const want = "\x01\x01\x00\x01\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x05" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x01t"
	if got := string(AppendRecord(nil, &records[0])); got != want {
		t.Errorf("it is %x, want %x", got, want)
	}
}

// TestImpossibleRecords: they are refused.
func TestImpossibleRecords(t *testing.T) {
	plain, full := AppendRecord(nil, &records[0]), AppendRecord(nil, &records[4])
	change := func(b []byte, at int, to byte) []byte {
		b = append([]byte(nil), b...)
		b[at] = to
		return b
	}
	for what, b := range map[string][]byte{
		"no state":                    change(plain, 0, 0),
		"an unknown state":            change(plain, 0, 9),
		"an unknown bit":              change(plain, 0, 0x11),
		"reserved without lease":      change(plain, 0, byte(tube.Reserved)),
		"held and buried":             change(plain, 0, byte(tube.Buried)|heldBit),
		"metadata of another version": change(full, len(full)-len(appendMetadata(nil, records[4].Metadata))+1, blockVersion+1),
		"metadata that is not there":  change(plain, 0, byte(tube.Ready)|metadataBit),
	} {
		if r, _, err := DecodeRecord(1, b, name); err == nil {
			t.Errorf("%s: it is taken for %+v", what, r)
		}
	}
}

// TestPolicies: a policy is decoded as it was encoded.
func TestPolicies(t *testing.T) {
	for _, p := range []tube.Policy{
		{},
		{Rules: fullRules, OnDuplicate: tube.Fail, QuotaJobs: 1<<64 - 1, QuotaBytes: 0, HasQuotaJobs: true, HasQuotaBytes: true},
		{HasQuotaJobs: true},
	} {
		got, rest, err := DecodePolicy("t", append(AppendPolicy(nil, &p), 1), name)
		if err != nil || len(rest) != 1 || !reflect.DeepEqual(*got, p) {
			t.Errorf("it is %+v, %v; want %+v", got, err, p)
		}
	}
}

// TestSchedules: the record of a schedule is decoded as it was encoded.
func TestSchedules(t *testing.T) {
	for _, s := range []tube.Schedule{
		{Name: "s", Version: 1},
		{
			Name: "s", Version: 1<<64 - 1, Body: []byte("\x00body"), Tube: "t", Pri: 1, TTR: 2, Tags: &tube.Tags{Key: "k", Rules: fullRules},
			Timing: tube.Timing{Cron: "@daily", Zone: "Europe/Berlin"}, Due: tube.Never, Next: tube.Latest, Results: tube.ScheduleResults{
				Put: 1, Overlapped: 1<<64 - 1, Refused: 3, At: tube.Latest, Nominal: 5e6, Result: tube.PutRefused, ID: 1 << 60,
			},
		},
	} {
		b := append(AppendSchedule(nil, &s), "rest"...)
		got, rest, err := DecodeSchedule("s", b)
		if err != nil || string(rest) != "rest" || !reflect.DeepEqual(*got, s) {
			t.Errorf("it is %+v, %q, %v; want %+v", got, rest, err, s)
		}
		for n := range len(b) - len("rest") {
			if _, _, err := DecodeSchedule("s", b[:n]); err == nil {
				t.Errorf("%d bytes of a schedule are taken for all of it", n)
			}
		}
	}
}

// FuzzRecord: whatever the bytes, a record is refused or can be written again.
func FuzzRecord(f *testing.F) {
	for _, r := range records {
		f.Add(AppendRecord(nil, &r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := DecodeRecord(1, b, name)
		if err != nil {
			return
		}
		again, behind, err := DecodeRecord(1, append(AppendRecord(nil, &r), rest...), name)
		if err != nil || !reflect.DeepEqual(r, again) || string(rest) != string(behind) {
			t.Errorf("%x: %+v became %+v, %v", b, r, again, err)
		}
	})
}
