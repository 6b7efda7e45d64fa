package embedded

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/tube"
)

// The state byte of a record has the state in these bits, and beside them whether the job
// was reserved, and whether facts follow.
const (
	stateBits   byte = 0x0f
	heldBit     byte = 0x40
	metadataBit byte = 0x80
)

// encodeRecord appends a record: the state byte; pri, delay, ttr, size and the five
// counters as varints; created and rank in 8 bytes each; the length of the tube's name in
// one byte, and the name; and the block of its facts if it has any (facts.go).
func encodeRecord(to []byte, r *tube.Record) []byte {
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
	errRecord = errors.New("it is not a record of a job")
	errPolicy = errors.New("it is not a policy")
)

// decodeRecord reads the record of a job. It returns what is behind it, too. name makes a
// string of the tube's name.
func decodeRecord(id uint64, value []byte, name func([]byte) string) (r tube.Record, rest []byte, err error) {
	rest, err = decodeCommon(&r, value, name)
	if err == nil && value[0]&metadataBit != 0 {
		r.Metadata, rest, err = decodeMetadata(rest, name)
	}
	if err != nil || !likely(&r) {
		return tube.Record{}, nil, fmt.Errorf("reading the record of job %d: %w", id, errRecord)
	}
	r.ID = id
	return r, rest, nil
}

// likely reports whether a record says nothing that cannot be.
func likely(r *tube.Record) bool {
	leased := r.Metadata != nil && r.Metadata.Lease != 0
	switch r.State {
	case tube.Ready:
		return true
	case tube.Reserved:
		return leased && !r.Held
	}
	return !r.Held && (r.State == tube.Delayed || r.State == tube.Buried)
}

// decodeCommon reads what all records have. It returns what is behind it.
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

// pause is what is recorded of a paused tube. If until is 0, the pause is over.
type pause struct {
	seconds uint32
	until   tube.Instant
}

// pauseSize is the length of an encoded pause in bytes.
const pauseSize = 12

// encodePause appends a pause: seconds in 4 bytes, until in 8.
func encodePause(to []byte, p pause) []byte {
	to = binary.BigEndian.AppendUint32(to, p.seconds)
	return binary.BigEndian.AppendUint64(to, uint64(p.until))
}

func decodePause(b []byte) pause {
	return pause{binary.BigEndian.Uint32(b), tube.Instant(binary.BigEndian.Uint64(b[4:]))}
}

// keptKey is what is recorded of a key that stays taken although its job is gone: which job
// had it. If until is 0, the key is free.
type keptKey struct {
	id    uint64
	until tube.Instant
}

// keptKeySize is the length of an encoded keptKey in bytes.
const keptKeySize = 16

// encodeKeptKey appends a kept key: id and until in 8 bytes each.
func encodeKeptKey(to []byte, k keptKey) []byte {
	to = binary.BigEndian.AppendUint64(to, k.id)
	return binary.BigEndian.AppendUint64(to, uint64(k.until))
}

func decodeKeptKey(b []byte) keptKey {
	return keptKey{binary.BigEndian.Uint64(b), tube.Instant(binary.BigEndian.Uint64(b[8:]))}
}

// keyOfTube names a key of a tube. No name of a tube has a zero byte in it.
type keyOfTube struct{ tube, key string }

// tablesKey returns the key of the tables for a key of a tube.
func (k keyOfTube) tablesKey() []byte {
	return append(append(append([]byte{keptKeyKey}, k.tube...), 0), k.key...)
}

// compare orders keys of tubes as the tables do.
func (k keyOfTube) compare(other keyOfTube) int {
	return cmp.Or(cmp.Compare(k.tube, other.tube), cmp.Compare(k.key, other.key))
}

// interner makes one string for each name of a tube, however often that is read.
type interner map[string]string

func (in interner) name(b []byte) string {
	if s, have := in[string(b)]; have {
		return s
	}
	s := string(b)
	in[s] = s
	return s
}
