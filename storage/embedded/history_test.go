package embedded

import (
	"testing"
	"time"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// fullRules have a value in every field.
var fullRules = tube.Rules{Retry: []time.Duration{0, time.Second, 87600 * time.Hour}, Max: 7, Dead: "morgue", KeyTTL: time.Minute, HasKeyTTL: true}

// loggedRecords are records of all kinds.
var loggedRecords = []tube.Record{
	{ID: 1, Tube: "t", State: tube.Ready, Pri: 1, TTR: 1, Created: 5},
	{ID: 2, Tube: "t", State: tube.Ready, Held: true, Size: 1 << 30},
	{ID: 3, Tube: "t", State: tube.Delayed, Rank: 1 << 60, Metadata: &tube.Metadata{Key: "key"}},
	{ID: 4, Tube: "t", State: tube.Reserved, Rank: 77, Metadata: &tube.Metadata{Lease: 1<<63 + 1, Rules: tube.Rules{HasKeyTTL: true}}},
	{ID: 5, Tube: "t", State: tube.Buried, Rank: 3, Metadata: &tube.Metadata{
		Key: "k", Rules: fullRules, FailuresBefore: 1, DeliveriesBefore: 1<<32 - 1,
		Parked: tube.ParkedDeliveries, PendingDead: "morgue", Lease: 9, FromTube: "from", FromID: 1 << 50,
	}},
	{ID: 6, Tube: "t", State: tube.Ready, Metadata: &tube.Metadata{}},
}

// FuzzLog: whatever the bytes, a frame is refused or replayed.
func FuzzLog(f *testing.F) {
	f.Add(append(appendTubeEntry(nil, policyEntry, "t"), 0))
	f.Add(tables.AppendPolicy(append(appendTubeEntry(nil, policyEntry, "t"), 1), &tube.Policy{Rules: fullRules}))
	f.Add(tables.AppendTombstone(append(appendTubeEntry(nil, tombstoneEntry, "t"), "\x01k"...), tables.Tombstone{ID: 1, Until: 2}))
	f.Add(tables.AppendPause(appendTubeEntry(nil, pausedEntry, "t"), tables.Pause{Seconds: 1, Until: 2}))
	for _, r := range loggedRecords {
		f.Add(tables.AppendRecord(appendEntry(nil, changedEntry, r.ID), &r))
	}
	f.Fuzz(func(t *testing.T, b []byte) { newHistory(make(interner)).replay(b) })
}
