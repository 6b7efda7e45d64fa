package storage

import (
	"time"

	"redstalk/storage/telemetry"
	"redstalk/tube"
)

// Reporter is a Store that counts what it does.
type Reporter interface {
	Store

	// NameTubes sets how many tubes are counted by name; the others are counted together.
	// It must be called before the first Do.
	NameTubes(n int)

	// Report returns what was counted since the store was opened. It waits for no disk
	// and no other process, so it also works while the store is unavailable.
	Report() Report
}

// Report is what a Store has counted. A value that a store does not have, such as the syncs of
// one without a disk, is nil or zero.
type Report struct {
	Named []tube.NamedFlow // tubes that are counted by name, in no particular order
	Rest  tube.Flow        // all others together

	Calls      *telemetry.Reading // duration of its calls, ns: on Redis, from sending to the answer; else of Do
	Operations *telemetry.Reading // operations per call
	Syncs      *telemetry.Reading // duration of syncs to disk, ns
	Retries    uint64             // calls that were sent again after a failure
	Replays    uint64             // retries that turned out to have been carried out the first time

	// Unavailable says why the store is unavailable at present; nil if it is available, as far as
	// is known.
	Unavailable error

	// Refusing says why the store takes no new jobs at present, without an address or a secret; nil if it takes them, as far as is
	// known.
	Refusing error

	// SinceContact is how long ago another process that the store needs has answered last;
	// negative if there is no such process.
	SinceContact time.Duration

	Disk *Disk // nil if it has none
}

// Disk is the disk usage of a store, in bytes.
type Disk struct {
	Log  uint64 // segments of its log, including those kept for reuse
	Free uint64 // free space on the file system of its files; 0 if that is not known

	Refusing string // why puts are refused for lack of room, for operators; "": they are not
}
