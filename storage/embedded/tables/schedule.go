package tables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"redstalk/tube"
)

var errSchedule = errors.New("not the record of a schedule")

// AppendSchedule appends the block of a schedule: its version and its results as varints, times in
// ms since the epoch, and Schedule.Text and the body, each preceded by its length.
func AppendSchedule(to []byte, s *tube.Schedule) []byte {
	text, r := s.Text(), &s.Results
	b := append(make([]byte, 0, blockRoom+len(text)+len(s.Body)), blockVersion)
	for _, n := range [...]uint64{s.Version, r.Put, r.Overlapped, r.Refused, inMS(r.At), inMS(r.Nominal), uint64(r.Result), r.ID} {
		b = binary.AppendUvarint(b, n)
	}
	return appendBlock(to, appendLong(appendLong(b, text), s.Body))
}

func inMS(t tube.Instant) uint64 { return uint64(t / tube.Instant(time.Millisecond)) }

// DecodeSchedule reads the block of the schedule of that name. It also returns the bytes behind it.
func DecodeSchedule(name string, from []byte) (s *tube.Schedule, rest []byte, err error) {
	b, rest := cutBlock(from)
	version := b.number(math.MaxUint64)
	r := tube.ScheduleResults{
		Put: b.number(math.MaxUint64), Overlapped: b.number(math.MaxUint64), Refused: b.number(math.MaxUint64),
		At: b.instant(), Nominal: b.instant(),
		Result: tube.PutResult(b.number(uint64(tube.PutSealed))), ID: b.number(math.MaxUint64),
	}
	text, body := b.long(), b.long()
	if b.bad || len(b.rest) > 0 {
		return nil, nil, fmt.Errorf("reading the schedule %q: %w", name, errSchedule)
	}
	if s, err = tube.ParseSchedule(string(text)); err != nil {
		return nil, nil, fmt.Errorf("reading the schedule %q: %w", name, err)
	}
	s.Name, s.Version, s.Results = name, version, r
	if len(body) > 0 {
		s.Body = bytes.Clone(body)
	}
	return s, rest, nil
}

// instant reads a time in ms since the epoch.
func (b *block) instant() tube.Instant { return tube.Instant(b.duration()) }
