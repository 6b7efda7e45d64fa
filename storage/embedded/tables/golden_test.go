package tables

import (
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"redstalk/tube"
)

const ms = tube.Instant(time.Millisecond)

// everyRule has a value in every field.
var everyRule = tube.Rules{
	Retry: []time.Duration{time.Second, time.Minute}, Doubled: 9, Jitter: tube.JitterOf(10), Max: 5, Dead: "dead",
	KeyTTL: time.Second, HasKeyTTL: true, OnExpire: tube.ExpirePark,
}

// TestGolden checks the bytes of blocks with a value in every field, as released versions have written them. They must
// never change.
func TestGolden(t *testing.T) {
	metadata := &tube.Metadata{
		Key: "key", Group: "group", Rules: everyRule, FailuresBefore: 1, DeliveriesBefore: 2, Parked: tube.ParkedRetries, PendingDead: "dead",
		Lease: 3, FromTube: "from", FromID: 4, Occurrence: &tube.Occurrence{Schedule: "nightly", Nominal: 5 * ms}, Batch: "import", After: "before",
		Expires: 6 * ms, Notes: &tube.Notes{Meta: []tube.Meta{{Name: "a", Value: "b"}, {Name: "c", Value: "d"}}, Trace: "trace", Reason: "why", FailedAt: 7 * ms},
	}
	failed := &tube.Metadata{Notes: &tube.Notes{FirstPut: 8 * ms, Attempts: []tube.Attempt{
		{At: 9 * ms, How: tube.FailedByRelease, Holder: "w", Reason: "why"}, {At: 8 * ms, How: tube.FailedByTTR, Reason: "ttr"},
	}}}
	saved := &tube.Metadata{Checkpoint: tube.CheckpointRef{Number: 300, Size: 4096}, Progress: "1/2"}
	policy := &tube.Policy{
		Rules: everyRule, Expire: tube.LifetimeOf(time.Second), OnDuplicate: tube.Replace, QuotaJobs: 10, HasQuotaJobs: true, HasQuotaBytes: true,
		Limits: tube.Limits{Concurrency: 50, Rates: tube.Rates{200, 0, 0}}, GroupLimits: tube.Limits{Concurrency: 3, Rates: tube.Rates{0, 100, 1000}},
		GroupOrder: tube.Strict,
		Push:       tube.Push{URL: "https://example.org/hook", Concurrency: 8, Timeout: 3 * time.Second, Rate: 100, RateEvery: time.Second},
	}
	group := &tube.GroupRecord{
		Config:   &tube.GroupConfig{Limits: tube.Limits{Concurrency: 2, Rates: tube.Rates{1, 2, 3}}, Weight: 7, TTL: time.Hour},
		ForgetAt: 8 * ms, PauseSeconds: 9, PauseUntil: 10 * ms,
	}
	tally := tube.Tally{1, 200, 3, 4, 5, 6, 7, 1 << 40, 9}
	for what, b := range map[string]struct {
		got  []byte
		want string
	}{
		"metadata": {appendMetadata(nil, metadata), "6d0101036b65790202e807e0d403030504046465616405e8070601070208010904646561640a030b0466726f6d0413020161016201630164140574726163651503776879071609170b18021a061b0567726f757023076e696768746c79052406696d706f727425066265666f7265"},
		"failed":   {appendMetadata(nil, failed), "140129020901017703776879080200037474722a08"},
		"saved":    {appendMetadata(nil, saved), "0b012bac0280202c03312f32"},
		"policy":   {AppendPolicy(nil, policy), "53010202e807e0d403030504046465616405e8070c020d0a0e000f1868747470733a2f2f6578616d706c652e6f72672f686f6f6b100811b8171264e8071609170b180219e8071c32c80100001d030064e8071e02"},
		"tally":    {AppendTally(nil, &tally), "100101c801030405060780808080802009"},
		"group":    {AppendGroup(nil, group), "18011d020102031f072080dddb012180a4e803220980ade204"},
	} {
		if got := hex.EncodeToString(b.got); got != b.want {
			t.Errorf("%s is\n%s, want\n%s", what, got, b.want)
		}
	}
	for _, f := range []*tube.Metadata{metadata, failed, saved} {
		if got, _, err := decodeMetadata(appendMetadata(nil, f), name); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("the metadata is read as %+v, %v", got, err)
		}
	}
	if got, _, err := DecodePolicy("t", AppendPolicy(nil, policy), name); err != nil || !reflect.DeepEqual(got, policy) {
		t.Errorf("the policy is read as %+v, %v", got, err)
	}
	if got, rest, err := DecodeTally(AppendTally(nil, &tally)); err != nil || got != tally || len(rest) > 0 {
		t.Errorf("the tally is read as %v, %v", got, err)
	}
	if got := hex.EncodeToString((TallyKey{Period: tube.Days, Number: 0x123456, Tube: "t"}).tablesKey()); got != "4801000000000012345674" {
		t.Errorf("the key of a tally is %s", got)
	}
	if got, _, err := DecodeGroup(AppendGroup(nil, group)); err != nil || !reflect.DeepEqual(&got, group) {
		t.Errorf("the group is read as %+v, %v", got, err)
	}
}
