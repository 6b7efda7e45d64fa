package redis

import (
	"encoding/binary"

	"redstalk/storage"
	"redstalk/tube"
)

// The record of a job as lua/rare/20_record.lua describes it.
const (
	ttrAt      = 1
	priAt      = 5
	delayAt    = 9
	createdAt  = 13
	countersAt = 21
	nameAt     = countersAt + 4*int(tube.NumCounters) + 1
)

// appendRecord appends the record of a new job.
func appendRecord(b []byte, op *storage.Op, created int64) []byte {
	letter := stateLetter[tube.Ready][0]
	if op.Delay > 0 {
		letter = stateLetter[tube.Delayed][0]
	}
	b = append(b, letter)
	b = binary.BigEndian.AppendUint32(b, max(op.TTR, tube.MinTTR))
	b = binary.BigEndian.AppendUint32(b, op.Pri)
	b = binary.BigEndian.AppendUint32(b, op.Delay)
	b = binary.BigEndian.AppendUint64(b, uint64(created))
	for range tube.NumCounters {
		b = binary.BigEndian.AppendUint32(b, 0)
	}
	b = append(b, byte(len(op.Tube)))
	b = append(b, op.Tube...)
	return append(b, op.Body...)
}

// record is a job's record as read; it may be cut off behind the name.
type record string

// valid returns whether r is long enough to be one.
func (r record) valid() bool { return len(r) >= nameAt && len(r) >= nameAt+int(r[nameAt-1]) }

func (r record) uint32(at int) uint32 {
	return uint32(r[at])<<24 | uint32(r[at+1])<<16 | uint32(r[at+2])<<8 | uint32(r[at+3])
}

func (r record) ttr() uint32   { return r.uint32(ttrAt) }
func (r record) pri() uint32   { return r.uint32(priAt) }
func (r record) delay() uint32 { return r.uint32(delayAt) }
func (r record) tube() string  { return string(r[nameAt : nameAt+int(r[nameAt-1])]) }
func (r record) body() []byte  { return []byte(r[nameAt+int(r[nameAt-1]):]) }

func (r record) counters() (c tube.Counters) {
	for i := range c {
		c[i] = r.uint32(countersAt + 4*i)
	}
	return c
}
