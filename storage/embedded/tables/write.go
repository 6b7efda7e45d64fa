package tables

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"redstalk/tube"
)

// PutJob writes a job that the tables do not have. recent says that its id is larger than
// all ids that were given out before the window. Recent jobs must come in the order of their
// ids, and so must all others.
func (in *Ingest) PutJob(r *tube.Record, body []byte, recent bool) error {
	in.records++
	in.key = idKey(in.key[:0], jobKey, r.ID)
	in.value = AppendRecord(in.value[:0], r)
	jobs, bodies := oldJobs, oldBodies
	if recent {
		jobs, bodies = newJobs, newBodies
	}
	if Inline(r.Size) {
		in.value = append(in.value, body...)
		return in.set(jobs, in.key, in.value)
	}
	if err := in.set(jobs, in.key, in.value); err != nil {
		return err
	}
	in.key[0] = bodyKey
	return in.set(bodies, in.key, body)
}

// ChangeJob writes the new record of a job that the tables have. The ids that are given to
// ChangeJob and RemoveJob must be in ascending order.
func (in *Ingest) ChangeJob(r *tube.Record) error {
	in.records++
	in.key = idKey(in.key[:0], changeKey, r.ID)
	in.value = AppendRecord(in.value[:0], r)
	return in.set(changes, in.key, in.value)
}

// RemoveJob removes all keys of a job that the tables have. large says that its body is not
// inline.
func (in *Ingest) RemoveJob(id uint64, large bool) error {
	in.records++
	in.key = idKey(in.key[:0], jobKey, id)
	err := in.delete(oldJobs, in.key)
	in.key[0] = changeKey
	err = errors.Join(err, in.delete(changes, in.key))
	if large {
		in.key[0] = bodyKey
		err = errors.Join(err, in.delete(oldBodies, in.key))
	}
	return err
}

// TubeChanges are changes of everything but jobs.
type TubeChanges struct {
	Pauses     map[string]Pause
	Tombstones map[TubeKey]Tombstone
	Policies   map[string]*tube.Policy // nil: the tube no longer has one
	Imports    map[string]ImportMark   // by source
	Groups     map[TubeKey]tube.GroupRecord
	Named      [tube.NumRecordKinds]map[string]tube.NamedRecord // nil: there is none any more
	Tallies    map[TallyKey]tube.Tally                          // zero: there is none any more

	Checkpoints map[uint64][]byte // of jobs, by tube.CheckpointRef.Number; nil: it is gone
}

// NewTubeChanges returns TubeChanges without any change.
func NewTubeChanges() TubeChanges {
	c := TubeChanges{
		Pauses: make(map[string]Pause), Tombstones: make(map[TubeKey]Tombstone), Policies: make(map[string]*tube.Policy),
		Imports: make(map[string]ImportMark), Groups: make(map[TubeKey]tube.GroupRecord), Tallies: make(map[TallyKey]tube.Tally),
		Checkpoints: make(map[uint64][]byte),
	}
	for kind := range c.Named {
		c.Named[kind] = make(map[string]tube.NamedRecord)
	}
	return c
}

// SetOthers writes everything that is not about a job. lastID is what LastID will return, and
// first what FirstSegment will return. The keys of a file are in ascending order.
func (in *Ingest) SetOthers(c TubeChanges, lastID, first uint64) error {
	return errors.Join(
		in.setCheckpoints(c.Checkpoints),
		in.setTallies(c.Tallies),
		in.setTombstones(c.Tombstones),
		in.setGroups(c.Groups),
		in.setImports(c.Imports),
		in.set(others, []byte{lastIDKey}, binary.BigEndian.AppendUint64(nil, lastID)),
		in.setNamed(tube.Schedules, c.Named[tube.Schedules]),
		in.setPauses(c.Pauses),
		in.setNamed(tube.JobBatches, c.Named[tube.JobBatches]),
		in.setPolicies(c.Policies),
		in.set(others, []byte{segmentKey}, binary.BigEndian.AppendUint64(nil, first)),
	)
}

// comparesPerYield is how many comparisons of a sort are made between two calls of yield.
const comparesPerYield = 64

// yielding returns compare for a long sort, with calls of yield.
func yielding[T any](in *Ingest, compare func(a, b T) int) func(a, b T) int {
	n := 0
	return func(a, b T) int {
		if n++; n%comparesPerYield == 0 {
			in.yield()
		}
		return compare(a, b)
	}
}

func (in *Ingest) setNamed(kind tube.RecordKind, records map[string]tube.NamedRecord) (err error) {
	for _, name := range slices.SortedFunc(maps.Keys(records), yielding(in, cmp.Compare[string])) {
		r, key := records[name], append([]byte{namedForms[kind].key}, name...)
		if r == nil {
			err = errors.Join(err, in.delete(others, key))
		} else {
			err = errors.Join(err, in.set(others, key, AppendNamed(nil, kind, r)))
		}
	}
	return err
}

func (in *Ingest) setTallies(all map[TallyKey]tube.Tally) (err error) {
	for _, k := range slices.SortedFunc(maps.Keys(all), yielding(in, TallyKey.compare)) {
		if t := all[k]; t == (tube.Tally{}) {
			err = errors.Join(err, in.delete(tallies, k.tablesKey()))
		} else {
			err = errors.Join(err, in.set(tallies, k.tablesKey(), AppendTally(nil, &t)))
		}
	}
	return err
}

func (in *Ingest) setTombstones(tombs map[TubeKey]Tombstone) (err error) {
	for _, k := range slices.SortedFunc(maps.Keys(tombs), yielding(in, TubeKey.compare)) {
		if tomb := tombs[k]; tomb.Until == 0 {
			err = errors.Join(err, in.delete(others, k.tablesKey(tombstoneKey)))
		} else {
			err = errors.Join(err, in.set(others, k.tablesKey(tombstoneKey), AppendTombstone(nil, tomb)))
		}
	}
	return err
}

func (in *Ingest) setGroups(groups map[TubeKey]tube.GroupRecord) (err error) {
	for _, k := range slices.SortedFunc(maps.Keys(groups), TubeKey.compare) {
		if r := groups[k]; r == (tube.GroupRecord{}) {
			err = errors.Join(err, in.delete(others, k.tablesKey(groupKey)))
		} else {
			err = errors.Join(err, in.set(others, k.tablesKey(groupKey), AppendGroup(nil, &r)))
		}
	}
	return err
}

func (in *Ingest) setImports(imports map[string]ImportMark) (err error) {
	for _, source := range slices.Sorted(maps.Keys(imports)) {
		key := append([]byte{importKey}, source...)
		err = errors.Join(err, in.set(others, key, AppendImportMark(nil, imports[source])))
	}
	return err
}

func (in *Ingest) setPauses(pauses map[string]Pause) (err error) {
	for _, name := range slices.Sorted(maps.Keys(pauses)) {
		p, key := pauses[name], append([]byte{pauseKey}, name...)
		if p.Until == 0 {
			err = errors.Join(err, in.delete(others, key))
		} else {
			err = errors.Join(err, in.set(others, key, AppendPause(nil, p)))
		}
	}
	return err
}

func (in *Ingest) setPolicies(policies map[string]*tube.Policy) (err error) {
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		p, key := policies[name], append([]byte{policyKey}, name...)
		if p == nil {
			err = errors.Join(err, in.delete(others, key))
		} else {
			err = errors.Join(err, in.set(others, key, AppendPolicy(nil, p)))
		}
	}
	return err
}
