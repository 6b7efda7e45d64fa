package tables

import (
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/tube"
)

// The first byte of a record has the state of the job in stateBits. heldBit says that the job
// was reserved, and metadataBit that metadata follows.
const (
	stateBits   byte = 0x0f
	heldBit     byte = 0x40
	metadataBit byte = 0x80
)

// AppendRecord appends a record: the state byte; pri, delay, ttr, size and the five
// counters as varints; created and rank in 8 bytes each; the length of the tube's name in
// one byte, and the name; and the block of its metadata if it has any (metadata.go).
func AppendRecord(to []byte, r *tube.Record) []byte {
	state := byte(r.State)
	if r.Held {
		state |= heldBit
	}
	if r.Metadata != nil {
		state |= metadataBit
	}
	to = append(to, state)
	for _, n := range [...]uint32{r.Pri, r.Delay, r.TTR, r.Size} {
		to = binary.AppendUvarint(to, uint64(n))
	}
	for _, n := range r.Counters {
		to = binary.AppendUvarint(to, uint64(n))
	}
	to = binary.BigEndian.AppendUint64(to, uint64(r.Created))
	to = binary.BigEndian.AppendUint64(to, uint64(r.Rank))
	to = append(append(to, byte(len(r.Tube))), r.Tube...)
	if r.Metadata != nil {
		to = appendMetadata(to, r.Metadata)
	}
	return to
}

var (
	errRecord = errors.New("not the record of a job")
	errPolicy = errors.New("not a policy")
)

// DecodeRecord reads the record of a job. It also returns the bytes behind it. name makes a
// string of the tube's name.
func DecodeRecord(id uint64, value []byte, name func([]byte) string) (r tube.Record, rest []byte, err error) {
	rest, err = decodeCommon(&r, value, name)
	if err == nil && value[0]&metadataBit != 0 {
		r.Metadata, rest, err = decodeMetadata(rest, name)
	}
	if err != nil || !plausible(&r) {
		return tube.Record{}, nil, fmt.Errorf("reading the record of job %d: %w", id, errRecord)
	}
	r.ID = id
	return r, rest, nil
}

// plausible reports whether a record is in a state that a job can have.
func plausible(r *tube.Record) bool {
	leased := r.Metadata != nil && r.Metadata.Lease != 0
	switch r.State {
	case tube.Ready:
		return true
	case tube.Reserved:
		return leased && !r.Held
	}
	return !r.Held && (r.State == tube.Delayed || r.State == tube.Buried)
}

// decodeCommon reads the fields that every record has. It returns the bytes behind them.
func decodeCommon(r *tube.Record, value []byte, name func([]byte) string) (rest []byte, err error) {
	if len(value) < 1 || value[0]&^(stateBits|heldBit|metadataBit) != 0 {
		return nil, errRecord
	}
	r.State, r.Held = tube.State(value[0]&stateBits), value[0]&heldBit != 0
	rest = value[1:]
	fields := [4 + len(r.Counters)]*uint32{&r.Pri, &r.Delay, &r.TTR, &r.Size}
	for c := range r.Counters {
		fields[4+c] = &r.Counters[c]
	}
	for _, field := range fields {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > 1<<32-1 {
			return nil, errRecord
		}
		*field, rest = uint32(n), rest[size:]
	}
	if len(rest) < 17 || len(rest) < 17+int(rest[16]) {
		return nil, errRecord
	}
	r.Created = tube.Instant(binary.BigEndian.Uint64(rest))
	r.Rank = int64(binary.BigEndian.Uint64(rest[8:]))
	end := 17 + int(rest[16])
	r.Tube = name(rest[17:end])
	return rest[end:], nil
}
