package schema

import (
	"errors"
	"fmt"

	"redstalk/tube"
)

// MessageMark begins a message between the wake-ups of an instance, see lua/keys.md: no tube has such a name. EndedMessage is
// the beginning of one that names awaited jobs which have ended, or are buried: ids follow, with commas between them.
const (
	MessageMark  = "?"
	EndedMessage = MessageMark + "e - - "
)

// The record of an ended job is what remained of its own record, without the body, behind how it has ended. Numbers are big-endian,
// times ms since the epoch, and texts come after their length in a byte:
//
//	seq, until, at, started   as in tube.Ended; started is only good if there was one delivery
//	to id
//	bytes                     as tube.Ended.Bytes counts
//	how, reserved             1 if the header does not count the delivery yet in which it was
//	batch, holder, to tube
//	header                    with the name of the tube
//	metadata                  without its length, which is in 2 bytes before it; 0: it had none
//	result                    the rest
//
// So the script that ends a job copies more than it looks at. It is never changed.
const (
	// EndedFormat is the fixed part for Lua's struct.pack, and EndedFixed its size.
	EndedFormat = ">I8I8I8I8I8I4BB"
	EndedFixed  = 5*8 + 4 + 2

	// EndedHead is an upper limit of the size up to the name of the tube.
	EndedHead = EndedFixed + 3*(1+255) + NameAt + LongestName
)

var errBrokenEnded = errors.New("the record of an ended job is broken")

// ParseEnded reads the record of an ended job. When it started is as an instance has estimated the clock of Redis, so not before its put.
func ParseEnded(id uint64, text string) (*tube.Ended, error) {
	r, e := &metadataReader{rest: text}, &tube.Ended{ID: id}
	e.Seq, e.Until, e.At, e.Started, e.ToID = r.number(8), tube.Instant(r.ms()), tube.Instant(r.ms()), tube.Instant(r.ms()), r.number(8)
	r.number(4)
	e.How = tube.How(r.number(1))
	reserved := r.number(1) == 1
	e.Batch, e.Holder, e.ToTube = r.short(), r.short(), r.short()
	head := Record(r.rest)
	if r.bad || !head.Valid() || e.How == tube.NotEnded || e.How >= tube.StillParked {
		return nil, errBrokenEnded
	}
	r.text(head.bodyAt())
	counters, f := head.Counters(), &tube.Metadata{}
	if reserved {
		counters[tube.Reserves]++
	}
	if block := r.long(); block != "" {
		var err error
		if f, err = ParseMetadata(block); err != nil {
			return nil, fmt.Errorf("%w: %w", errBrokenEnded, err)
		}
	}
	if r.bad {
		return nil, errBrokenEnded
	}
	notes := f.AllNotes()
	e.Tube, e.Key, e.Group, e.Occurrence, e.Meta, e.Reason = head.Tube(), f.Key, f.Group, f.Occurrence, notes.Meta, notes.Reason
	e.Put, e.Deliveries, e.Failures = head.Created(), f.Deliveries(&counters), f.Failures(&counters)
	if e.Started = max(e.Started, e.Put); !reserved || e.Deliveries != 1 || e.Started > e.At {
		e.Started = 0
	}
	if r.rest != "" {
		e.Result = []byte(r.rest)
	}
	return e, nil
}

// KeepText returns what of a policy concerns the records of ended jobs: for how many ms they are kept, and how many bytes they can
// have, "KEEP BYTES", where - is not set; "" if neither is.
func KeepText(p *tube.Policy) string {
	if p == nil || p.Keep == tube.NoLifetime && !p.HasKeepBytes {
		return ""
	}
	keep, bytes := "-", "-"
	if p.Keep != tube.NoLifetime {
		keep = fmt.Sprint(p.Keep.Duration().Milliseconds())
	}
	if p.HasKeepBytes {
		bytes = fmt.Sprint(p.KeepBytes)
	}
	return keep + " " + bytes
}
