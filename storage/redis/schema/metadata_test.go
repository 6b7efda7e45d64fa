package schema

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"redstalk/tube"
)

// TestMetadataBytes checks the bytes of a block with a value in every field, as released versions have written it. They
// must never change.
func TestMetadataBytes(t *testing.T) {
	const ms = tube.Instant(time.Millisecond)
	f := &tube.Metadata{
		Key: "key", Group: "group", Rules: fullPolicy.Rules, FailuresBefore: 1, DeliveriesBefore: 2, Parked: tube.ParkedRetries,
		Lease: 3, FromTube: "from", FromID: 4, Occurrence: &tube.Occurrence{Schedule: "nightly", Nominal: 5 * ms}, Batch: "import", After: "before",
		Expires: 6 * ms, Notes: &tube.Notes{Meta: []tube.Meta{{Name: "a", Value: "b"}, {Name: "c", Value: "d"}}, Trace: "trace", Reason: "why", FailedAt: 7 * ms},
	}
	const want = "ff036b65790200000000000003e800000000000007d0000000050967726176657961726400000000000003e80466726f6d0000000000000004ff090a020567726f7570076e696768746c79000000000000000506696d706f7274066265666f72650000000000000000060010057472616365016100016201630001640010000000000000000700037768790000000000000000000000010000000100000002000000000000000300a7"
	b := AppendMetadata(nil, f)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("it is\n%s, want\n%s", got, want)
	}
	if got, err := ParseMetadata(string(b[:len(b)-2])); err != nil || !reflect.DeepEqual(got, f) {
		t.Errorf("it is read as %+v, %v", got, err)
	}
}

// TestPastBytes checks the bytes of the block of a job that has failed: with a reason or without, and with every number of bytes
// behind it.
func TestPastBytes(t *testing.T) {
	const ms = tube.Instant(time.Millisecond)
	notes := &tube.Notes{Reason: "ttr", FailedAt: 9 * ms, FirstPut: 7 * ms, Attempts: []tube.Attempt{
		{At: 9 * ms, How: tube.FailedByTTR, Reason: "ttr"}, {At: 8 * ms, How: tube.FailedByRelease, Holder: "w", Reason: "why"},
	}}
	const want = "4000003000000000000000090003747472002500000000000000070200000000000000090003747472010000000000000008017703776879000000000000000000000000000000000000000000004d"
	if got := hex.EncodeToString(AppendMetadata(nil, &tube.Metadata{Notes: notes})); got != want {
		t.Errorf("it is\n%s, want\n%s", got, want)
	}
	for n := range 2 * ReasonStep {
		for _, notes := range []*tube.Notes{
			{Reason: strings.Repeat("r", n+1), FailedAt: ms}, {Reason: strings.Repeat("r", n+1), FailedAt: ms, FirstPut: ms},
			{Attempts: []tube.Attempt{{At: ms, How: tube.FailedByBury, Reason: strings.Repeat("r", n)}}},
		} {
			b := AppendMetadata(nil, &tube.Metadata{Notes: notes})
			if got, err := ParseMetadata(string(b[:len(b)-2])); err != nil || !reflect.DeepEqual(got.Notes, notes) {
				t.Errorf("%+v is read as %+v, %v", notes, got.AllNotes(), err)
			}
		}
	}
}
