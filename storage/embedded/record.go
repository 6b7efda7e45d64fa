package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"

	"redstalk/tube"
)

// encodeRecord appends a record: the state in one byte; pri, delay, ttr, size and the five
// counters as varints; created and rank in 8 bytes each; the length of the tube's name in
// one byte, and the name.
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
	return append(append(to, byte(len(r.Tube))), r.Tube...)
}

var errRecord = errors.New("it is not a record of a job")

// decodeRecord reads the record of a job. It returns what is behind it, too. name makes a
// string of the tube's name.
func decodeRecord(id uint64, value []byte, name func([]byte) string) (r tube.Record, rest []byte, err error) {
	fail := func() (tube.Record, []byte, error) {
		return r, nil, fmt.Errorf("reading the record of job %d: %w", id, errRecord)
	}
	if len(value) < 1 {
		return fail()
	}
	r.ID, r.State = id, tube.State(value[0])
	rest = value[1:]
	fields := [4 + len(r.Counters)]*uint32{&r.Pri, &r.Delay, &r.TTR, &r.Size}
	for c := range r.Counters {
		fields[4+c] = &r.Counters[c]
	}
	for _, field := range fields {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > 1<<32-1 {
			return fail()
		}
		*field, rest = uint32(n), rest[size:]
	}
	if len(rest) < 17 || len(rest) < 17+int(rest[16]) {
		return fail()
	}
	r.Created = tube.Instant(binary.BigEndian.Uint64(rest))
	r.Rank = int64(binary.BigEndian.Uint64(rest[8:]))
	end := 17 + int(rest[16])
	r.Tube = name(rest[17:end])
	return r, rest[end:], nil
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
