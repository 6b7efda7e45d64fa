package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"redstalk/tube"
)

var errBatch = errors.New("not the record of a batch")

// AppendBatch appends the block of what survives of a batch: Created, TTL and Since in ms, Sealed as 0 or 1, Done, Gone and Verdict, as
// varints.
func AppendBatch(to []byte, r *tube.JobBatch) []byte {
	var room [blockRoom]byte
	b, sealed := append(room[:0], blockVersion), uint64(0)
	if r.Sealed {
		sealed = 1
	}
	for _, n := range [...]uint64{inMS(r.Created), uint64(r.TTL / time.Millisecond), sealed, r.Done, r.Gone, uint64(r.Verdict), inMS(r.Since)} {
		b = binary.AppendUvarint(b, n)
	}
	return appendBlock(to, b)
}

// DecodeBatch reads the block of the batch of that name. It also returns the bytes behind it.
func DecodeBatch(name string, from []byte) (r *tube.JobBatch, rest []byte, err error) {
	b, rest := cutBlock(from)
	r = &tube.JobBatch{
		Name: name, Created: b.instant(), TTL: b.duration(), Sealed: b.number(1) == 1, Done: b.number(math.MaxUint64), Gone: b.number(math.MaxUint64),
		Verdict: tube.Verdict(b.number(uint64(tube.LastVerdict))), Since: b.instant(),
	}
	if b.bad || len(b.rest) > 0 {
		return nil, nil, fmt.Errorf("reading the batch %q: %w", name, errBatch)
	}
	return r, rest, nil
}
