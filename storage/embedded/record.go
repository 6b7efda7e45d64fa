package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/tube"
)

// The keys of the journal. Numbers in keys are big-endian, so that jobs are
// found in the order of their ids.
//
//	v          layout version, one byte
//	n          8 bytes: the largest id ever given out
//	j ID       record of a job, see encodeRecord
//	b ID       its body; missing if empty; written once
//	p TUBE     pause: seconds (4 bytes), until (8 bytes, ns since the epoch)
const (
	layoutKey byte = 'v'
	lastIDKey byte = 'n'
	jobKey    byte = 'j'
	bodyKey   byte = 'b'
	pauseKey  byte = 'p'

	layoutVersion = 1
)

// idKey appends the key of a job's record or body.
func idKey(to []byte, kind byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(to, kind), id)
}

// encodeRecord appends a record: the state, pri, delay, ttr, size and the five
// counters as varints, created and rank in 8 bytes each, the name of the tube.
func encodeRecord(to []byte, r *tube.Record) []byte {
	to = append(to, byte(r.State))
	for _, n := range [...]uint32{r.Pri, r.Delay, r.TTR, r.Size} {
		to = binary.AppendUvarint(to, uint64(n))
	}
	for _, n := range r.Counters {
		to = binary.AppendUvarint(to, uint64(n))
	}
	to = binary.BigEndian.AppendUint64(to, uint64(r.Created))
	to = binary.BigEndian.AppendUint64(to, uint64(r.Rank))
	return append(to, r.Tube...)
}

var errRecord = errors.New("it is not a record of a job")

// decodeRecord reads a record. name makes a string of the tube's name.
func decodeRecord(key, value []byte, name func([]byte) string) (tube.Record, error) {
	var r tube.Record
	if len(key) != 9 || len(value) < 1 {
		return r, fmt.Errorf("reading the record %x: %w", key, errRecord)
	}
	r.ID, r.State = binary.BigEndian.Uint64(key[1:]), tube.State(value[0])
	rest := value[1:]
	fields := []*uint32{&r.Pri, &r.Delay, &r.TTR, &r.Size}
	for c := range r.Counters {
		fields = append(fields, &r.Counters[c])
	}
	for _, field := range fields {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > 1<<32-1 {
			return r, fmt.Errorf("reading the record of job %d: %w", r.ID, errRecord)
		}
		*field, rest = uint32(n), rest[size:]
	}
	if len(rest) < 16 {
		return r, fmt.Errorf("reading the record of job %d: %w", r.ID, errRecord)
	}
	r.Created = tube.Instant(binary.BigEndian.Uint64(rest))
	r.Rank = int64(binary.BigEndian.Uint64(rest[8:]))
	r.Tube = name(rest[16:])
	return r, nil
}
