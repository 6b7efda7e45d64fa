package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/storage/embedded/ended"
	"redstalk/storage/embedded/tables"
	"redstalk/tube"
)

// history is what a part of the log says after all of it was replayed.
type history struct {
	jobs  images
	ended []*tube.Ended // records of ended jobs
	tables.TubeChanges
	lastID  uint64
	latest  tube.Instant // when the latest job was put
	names   interner
	entries int
}

func newHistory(names interner) *history {
	return &history{jobs: newImages(), TubeChanges: tables.NewTubeChanges(), names: names}
}

var errEntry = errors.New("not an entry of the log")

// replay applies a frame.
func (h *history) replay(frame []byte) (err error) {
	for len(frame) > 0 {
		kind := frame[0]
		switch frame = frame[1:]; kind {
		case pausedEntry, tombstoneEntry, policyEntry, groupEntry, importEntry, scheduleEntry, batchEntry, endedEntry, tallyEntry:
			frame, err = h.tubeEntry(kind, frame)
		case checkpointEntry:
			frame, err = h.checkpoint(frame)
		default:
			frame, err = h.entry(kind, frame)
		}
		if err != nil {
			return err
		}
		h.entries++
	}
	return nil
}

// entry applies an entry about a job. It returns the bytes behind it.
func (h *history) entry(kind byte, b []byte) (rest []byte, err error) {
	id, n := binary.Uvarint(b)
	if n <= 0 || id == 0 {
		return nil, errEntry
	}
	im, rest := h.jobs.open(id), b[n:]
	if kind == deletedEntry {
		im.gone, im.body = true, nil
		return rest, nil
	}
	record := rest
	r, rest, err := tables.DecodeRecord(id, record, h.names.name)
	if err != nil {
		return nil, err
	}
	h.latest = max(h.latest, r.Created)
	im.record = string(record[:len(record)-len(rest)])
	switch kind {
	case changedEntry:
		return rest, nil
	case putEntry:
		return h.body(im, &r, rest)
	}
	return nil, errEntry
}

// body applies the body of a job that was put. It returns the bytes behind it.
func (h *history) body(im *image, r *tube.Record, b []byte) (rest []byte, err error) {
	id, size := r.ID, r.Size
	if uint64(len(b)) < uint64(size) {
		return nil, fmt.Errorf("reading the body of job %d: %w", id, errEntry)
	}
	im.put, im.body = true, bytes.Clone(b[:size])
	h.lastID = max(h.lastID, id)
	return b[size:], nil
}

// tubeEntry applies an entry about a tube. It returns the bytes behind it.
func (h *history) tubeEntry(kind byte, b []byte) (rest []byte, err error) {
	name, b, err := cutShort(b)
	if err != nil {
		return nil, err
	}
	of := h.names.name(name)
	switch kind {
	case tombstoneEntry:
		return h.tombstone(of, b)
	case policyEntry:
		return h.policySet(of, b)
	case groupEntry:
		return h.groupSet(of, b)
	case importEntry:
		return h.imported(of, b)
	case scheduleEntry:
		return h.recordSet(tube.Schedules, of, b)
	case batchEntry:
		return h.recordSet(tube.JobBatches, of, b)
	case endedEntry:
		var r *tube.Ended
		if r, rest, err = ended.Decode(of, b); err == nil {
			h.ended = append(h.ended, r)
		}
		return rest, err
	case tallyEntry:
		return h.tallySet(of, b)
	}
	if len(b) < tables.PauseSize {
		return nil, errEntry
	}
	h.Pauses[of] = tables.DecodePause(b)
	return b[tables.PauseSize:], nil
}

// tombstone applies an entry about a key of a tube.
func (h *history) tombstone(of string, b []byte) (rest []byte, err error) {
	key, b, err := cutShort(b)
	if err != nil || len(b) < tables.TombstoneSize {
		return nil, errEntry
	}
	h.Tombstones[tables.TubeKey{Tube: of, Key: string(key)}] = tables.DecodeTombstone(b)
	return b[tables.TombstoneSize:], nil
}

// policySet applies an entry about the policy of a tube.
func (h *history) policySet(of string, b []byte) (rest []byte, err error) {
	if len(b) < 1 || b[0] > 1 {
		return nil, errEntry
	}
	var p *tube.Policy
	if rest = b[1:]; b[0] == 1 {
		p, rest, err = tables.DecodePolicy(of, rest, h.names.name)
	}
	h.Policies[of] = p
	return rest, err
}

// groupSet applies an entry about a group of a tube.
func (h *history) groupSet(of string, b []byte) (rest []byte, err error) {
	group, b, err := cutShort(b)
	if err != nil {
		return nil, err
	}
	r, rest, err := tables.DecodeGroup(b)
	h.Groups[tables.TubeKey{Tube: of, Key: string(group)}] = r
	return rest, err
}

// recordSet applies an entry about a named record.
func (h *history) recordSet(kind tube.RecordKind, name string, b []byte) (rest []byte, err error) {
	if len(b) < 1 || b[0] > 1 {
		return nil, errEntry
	}
	var r tube.NamedRecord
	if rest = b[1:]; b[0] == 1 {
		r, rest, err = tables.DecodeNamed(kind, name, rest)
	}
	h.Named[kind][name] = r
	return rest, err
}

// tallySet applies an entry about a tally.
func (h *history) tallySet(of string, b []byte) (rest []byte, err error) {
	if len(b) < 1 || tube.Period(b[0]) >= tube.NumPeriods {
		return nil, errEntry
	}
	number, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return nil, errEntry
	}
	k := tables.TallyKey{Period: tube.Period(b[0]), Number: number, Tube: of}
	h.Tallies[k], rest, err = tables.DecodeTally(b[1+n:])
	return rest, err
}

// checkpoint applies an entry about a checkpoint.
func (h *history) checkpoint(b []byte) (rest []byte, err error) {
	number, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errEntry
	}
	b = b[n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || uint64(len(b)-n) < size {
		return nil, fmt.Errorf("reading the checkpoint %d: %w", number, errEntry)
	}
	if h.Checkpoints[number] = nil; size > 0 {
		h.Checkpoints[number] = bytes.Clone(b[n : n+int(size)])
	}
	return b[n+int(size):], nil
}

// imported applies an entry about an import.
func (h *history) imported(source string, b []byte) (rest []byte, err error) {
	if len(b) < tables.ImportMarkSize+8 {
		return nil, errEntry
	}
	h.Imports[source] = tables.DecodeImportMark(b)
	h.lastID = max(h.lastID, binary.BigEndian.Uint64(b[tables.ImportMarkSize:]))
	return b[tables.ImportMarkSize+8:], nil
}

// cutShort reads a string that is preceded by its length in one byte.
func cutShort(b []byte) (s, rest []byte, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return nil, nil, errEntry
	}
	end := 1 + int(b[0])
	return b[1:end], b[end:], nil
}

// interner makes one string for each name of a tube, however often it is read.
type interner map[string]string

func (in interner) name(b []byte) string {
	if s, have := in[string(b)]; have {
		return s
	}
	s := string(b)
	in[s] = s
	return s
}
