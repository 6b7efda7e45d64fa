package tables

import (
	"cmp"
	"encoding/binary"

	"redstalk/tube"
)

// Pause is the record of a paused tube. If Until is 0, the pause is over.
type Pause struct {
	Seconds uint32
	Until   tube.Instant
}

// PauseSize is the length of an encoded Pause in bytes.
const PauseSize = 12

// AppendPause appends a pause: Seconds in 4 bytes, Until in 8.
func AppendPause(to []byte, p Pause) []byte {
	to = binary.BigEndian.AppendUint32(to, p.Seconds)
	return binary.BigEndian.AppendUint64(to, uint64(p.Until))
}

// DecodePause reads a pause from PauseSize bytes.
func DecodePause(b []byte) Pause {
	return Pause{binary.BigEndian.Uint32(b), tube.Instant(binary.BigEndian.Uint64(b[4:]))}
}

// Tombstone is the record of a key that stays taken although its job is gone. ID is the job
// that had it. If Until is 0, the key is free.
type Tombstone struct {
	ID    uint64
	Until tube.Instant
}

// TombstoneSize is the length of an encoded Tombstone in bytes.
const TombstoneSize = 16

// AppendTombstone appends a tombstone: ID and Until in 8 bytes each.
func AppendTombstone(to []byte, t Tombstone) []byte {
	to = binary.BigEndian.AppendUint64(to, t.ID)
	return binary.BigEndian.AppendUint64(to, uint64(t.Until))
}

// DecodeTombstone reads a tombstone from TombstoneSize bytes.
func DecodeTombstone(b []byte) Tombstone {
	return Tombstone{binary.BigEndian.Uint64(b), tube.Instant(binary.BigEndian.Uint64(b[8:]))}
}

// TubeKey is a key of jobs in a tube, or a group. The name of a tube never contains a zero byte.
type TubeKey struct{ Tube, Key string }

// tablesKey returns the key in the tables of what is known of it, of that kind.
func (k TubeKey) tablesKey(kind byte) []byte {
	return append(append(append([]byte{kind}, k.Tube...), 0), k.Key...)
}

// compare orders keys as the tables do.
func (k TubeKey) compare(other TubeKey) int {
	return cmp.Or(cmp.Compare(k.Tube, other.Tube), cmp.Compare(k.Key, other.Key))
}

// ImportMark says how far an import is: what is added to the ids that its jobs had, and how
// many of them have been imported.
type ImportMark struct{ Offset, Done uint64 }

// ImportMarkSize is the length of an encoded ImportMark in bytes.
const ImportMarkSize = 16

// AppendImportMark appends an import mark: Offset and Done in 8 bytes each.
func AppendImportMark(to []byte, m ImportMark) []byte {
	to = binary.BigEndian.AppendUint64(to, m.Offset)
	return binary.BigEndian.AppendUint64(to, m.Done)
}

// DecodeImportMark reads an import mark from ImportMarkSize bytes.
func DecodeImportMark(b []byte) ImportMark {
	return ImportMark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}
