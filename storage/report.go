package storage

import (
	"time"

	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Reporter is a Store that counts what it does.
type Reporter interface {
	Store

	// NameTubes has what happens in tubes counted by name for up to n of them; the others
	// are counted together. It must be called before the first Do.
	NameTubes(n int)

	// Report returns what was counted since the store was opened. It waits for no disk
	// and no other process, so it also answers while the store is away.
	Report() Report
}

// Report is what a Store has counted. What a store does not have, such as syncs in one
// that has no disk, is nil or zero.
type Report struct {
	Named []tube.NamedFlow // tubes that are counted by name, in no order
	Rest  tube.Flow        // all others together

	Calls      *telemetry.Reading // how long its calls took, ns: of Redis, from sending to the answer; else of Do
	Operations *telemetry.Reading // how many operations each of these had
	Syncs      *telemetry.Reading // how long syncs of the disk took, ns
	Retries    uint64             // calls that were sent again because they had failed
	Replays    uint64             // of these, those that turned out to have been carried out before

	// Away says why the store cannot be used at present; nil if it can, as far as is known.
	Away error

	// Silence is how long ago another process that the store needs has last answered;
	// negative if there is none.
	Silence time.Duration

	Disk *Disk // nil if it has none
}

// Disk is what a store has on its disk, in bytes.
type Disk struct {
	Log  uint64 // segments of its log, those included that are kept to be used again
	Free uint64 // what others may still write where its files are; 0 if that is not known
}
