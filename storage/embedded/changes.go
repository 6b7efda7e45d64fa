package embedded

import (
	"encoding/binary"

	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// A frame of the log contains what one or several calls of the engine have changed. It is a
// sequence of entries. Each begins with its kind in one byte. In an entry about a job, its id
// follows as a varint; in one about a tube, the length of its name in one byte, and the name.
const (
	putEntry       byte = 1 // record, body
	changedEntry   byte = 2 // record
	deletedEntry   byte = 3
	pausedEntry    byte = 4 // pause (see tables.AppendPause)
	tombstoneEntry byte = 5 // length of the key in one byte, key, tombstone (see tables.AppendTombstone)
	policyEntry    byte = 6 // 1 and the policy (see tables.AppendPolicy), or 0: the tube no longer has one

	importEntry byte = 7 // like an entry about a tube, with the source in place of its name; an import mark, and the last id in 8 bytes
	groupEntry  byte = 8 // length of the group in one byte, group, and what is set for it (see tables.AppendGroup)

	// Like an entry about a tube, with the name of the record; 1 and the record (see tables.AppendNamed), or 0: there is none any more.
	scheduleEntry byte = 9
	batchEntry    byte = 10

	endedEntry byte = 11 // like an entry about a tube, with that of the job; the record of an ended job (see ended.Append)
	tallyEntry byte = 12 // like an entry about a tube; period in one byte, its number as a varint, and the tally (see tables.AppendTally)

	checkpointEntry byte = 13 // like an entry about a job, with tube.CheckpointRef.Number in place of its id; size as a varint, and the checkpoint; 0: it is gone
)

// namedEntries are the kinds of entries about named records.
var namedEntries = [tube.NumRecordKinds]byte{tube.Schedules: scheduleEntry, tube.JobBatches: batchEntry}

func appendEntry(to []byte, kind byte, id uint64) []byte {
	return binary.AppendUvarint(append(to, kind), id)
}

func appendTubeEntry(to []byte, kind byte, tube string) []byte {
	return append(append(to, kind, byte(len(tube))), tube...)
}

// The methods of the journal that the machine calls, see tube.Journal. Each adds an entry to
// the group that is being filled, and records in the window what the tables lack. The lock is
// held.

// Put implements tube.Journal.
func (j *journal) Put(r tube.Record, body []byte, buffer tube.Buffer) {
	g := j.filling
	if g.size > 0 && g.size+len(body) > maxBatch {
		g.cut()
	}
	start := len(g.frame)
	g.frame = tables.AppendRecord(appendEntry(g.frame, putEntry, r.ID), &r)
	if len(body) < minLarge {
		g.frame = append(g.frame, body...)
		g.size += len(g.frame) - start
	} else {
		if buffer != nil {
			buffer.Retain()
		}
		g.large = append(g.large, largeBody{len(g.frame), body, buffer})
		g.size += len(g.frame) - start + len(body)
	}
	g.mustSync = true // also for a dead letter, for which no batch waits
	g.bodies += int64(len(body))
	j.unwritten += int64(len(body))
	j.window.put(r.ID, r.Size)
	j.countEntry()
}

// Changed implements tube.Journal.
func (j *journal) Changed(r tube.Record) {
	g := j.filling
	start := len(g.frame)
	g.frame = tables.AppendRecord(appendEntry(g.frame, changedEntry, r.ID), &r)
	g.size += len(g.frame) - start
	j.window.changed(r.ID)
	j.countEntry()
}

// Deleted implements tube.Journal.
func (j *journal) Deleted(id uint64, size uint32) {
	g := j.filling
	start := len(g.frame)
	g.frame = appendEntry(g.frame, deletedEntry, id)
	g.size += len(g.frame) - start
	if j.neverStored(id) {
		j.window.forget(id)
	} else {
		j.window.deleted(id, tables.Inline(size))
		j.cold.deleted(id)
	}
	j.countEntry()
}

// Paused implements tube.Journal.
func (j *journal) Paused(name string, seconds uint32, until tube.Instant) {
	g, p := j.filling, tables.Pause{Seconds: seconds, Until: until}
	start := len(g.frame)
	g.frame = tables.AppendPause(appendTubeEntry(g.frame, pausedEntry, name), p)
	g.size += len(g.frame) - start
	j.window.Pauses[name] = p
	j.countEntry()
}

// KeyTombstone implements tube.Journal.
func (j *journal) KeyTombstone(name, key string, id uint64, until tube.Instant) {
	g, k := j.filling, tables.Tombstone{ID: id, Until: until}
	start := len(g.frame)
	g.frame = append(appendTubeEntry(g.frame, tombstoneEntry, name), byte(len(key)))
	g.frame = tables.AppendTombstone(append(g.frame, key...), k)
	g.size += len(g.frame) - start
	j.window.Tombstones[tables.TubeKey{Tube: name, Key: key}] = k
	j.countEntry()
}

// PolicySet implements tube.Journal.
func (j *journal) PolicySet(name string, p *tube.Policy) {
	g := j.filling
	start := len(g.frame)
	g.frame = appendTubeEntry(g.frame, policyEntry, name)
	if p == nil {
		g.frame = append(g.frame, 0)
	} else {
		g.frame = tables.AppendPolicy(append(g.frame, 1), p)
	}
	g.size += len(g.frame) - start
	j.window.Policies[name] = p
	j.countEntry()
}

// GroupSet implements tube.Journal.
func (j *journal) GroupSet(name, group string, r tube.GroupRecord) {
	g := j.filling
	start := len(g.frame)
	g.frame = append(appendTubeEntry(g.frame, groupEntry, name), byte(len(group)))
	g.frame = tables.AppendGroup(append(g.frame, group...), &r)
	g.size += len(g.frame) - start
	j.window.Groups[tables.TubeKey{Tube: name, Key: group}] = r
	j.countEntry()
}

// RecordSet implements tube.Journal. The frame never ends between a change of jobs and a record that follows from it: a put of a
// schedule leaves at most maxBatch bytes in it.
func (j *journal) RecordSet(kind tube.RecordKind, name string, r tube.NamedRecord) {
	g := j.filling
	if kind == tube.Schedules && g.size > maxBatch {
		g.cut()
	}
	start := len(g.frame)
	g.frame = appendTubeEntry(g.frame, namedEntries[kind], name)
	if r == nil {
		g.frame = append(g.frame, 0)
	} else {
		g.frame = tables.AppendNamed(append(g.frame, 1), kind, r)
	}
	g.size += len(g.frame) - start
	j.window.Named[kind][name] = r
	j.countEntry()
}

// tallySet adds an entry about a tally; a zero one is removed.
func (j *journal) tallySet(k tables.TallyKey, t tube.Tally) {
	g := j.filling
	start := len(g.frame)
	g.frame = binary.AppendUvarint(append(appendTubeEntry(g.frame, tallyEntry, k.Tube), byte(k.Period)), k.Number)
	g.frame = tables.AppendTally(g.frame, &t)
	g.size += len(g.frame) - start
	j.window.Tallies[k] = t
	j.countEntry()
}

// countEntry counts an entry. The lock is held.
func (j *journal) countEntry() {
	j.written++
	j.window.entries++
}

// endFrame is called between batches. It ends the frame that is being filled if it is large.
// The lock is held.
func (j *journal) endFrame() {
	limit := maxFrame
	if j.frameLimit > 0 {
		limit = j.frameLimit
	}
	if g := j.filling; g.size > limit || len(g.frame) > maxEntries {
		g.cut()
	}
}
