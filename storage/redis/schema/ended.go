package schema

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redstalk/tube"
)

// MessageMark begins a message between the wake-ups of an instance, see lua/keys.md: no tube has such a name. EndedMessage is
// the beginning of one that names awaited jobs which have ended, or are buried: ids follow, with commas between them; or * for all
// awaited jobs, because policies have changed.
const (
	MessageMark  = "?"
	EndedMessage = MessageMark + "e - - "
)

// Records of ended jobs are stored in chunks. The record of an ended job is what remained of its own record, without the body, behind how it has ended.
// So the script that ends a job copies more than it looks at. Numbers are big-endian, times ms since the epoch, and texts come after their length in a
// byte. A chunk:
//
//	seq, at           of the first record, as in tube.Ended
//	keep              how long each record is kept
//	bytes, n          of all records, as tube.Ended.Bytes counts, and how many there are
//	tube, batch
//	records           each behind its length in 4 bytes
//
// The seq of the records ascend by the number of partitions, and at is the same, until there is EndedMark instead of a length: then follow the
// differences of those of the next record from seq and at, in 4 bytes each.
//
// A record:
//
//	id
//	started           only good if there was one delivery
//	to id
//	how, reserved     1 if the header does not count the delivery yet in which it was
//	holder, to tube
//	header            without the name of the tube
//	metadata          without its length, which is in 2 bytes before it; 0: it had none
//	result            the rest
const (
	// EndedFormat is what precedes the records, for Lua's struct.pack, and EndedHead an upper limit of its size and that of the id of the first one.
	EndedFormat = ">I8I8I8I4I2Bc0Bc0"
	EndedHead   = 3*8 + 4 + 2 + 2*(1+255) + 4 + 8
	EndedCounts = 3 * 8 // the index of bytes, n
	EndedMark   = 8

	// EndedRecord is the fixed part of a record for Lua's struct.pack, and EndedFixed its size.
	EndedRecord = "I8I8I8BB"
	EndedFixed  = 3*8 + 2

	// EndedOpen is how long after a chunk was begun records are appended to it at most, and a tenth of how long they are kept.
	EndedOpen = time.Minute
)

var errBrokenEnded = errors.New("the record of an ended job is broken")

// EndedChunk is records of ended jobs that are stored together.
type EndedChunk struct {
	Seq         uint64
	At          tube.Instant
	Keep        time.Duration
	Bytes, N    int
	Tube, Batch string
	records     string
}

// ParseEndedChunk reads a chunk up to its records.
func ParseEndedChunk(text string) (*EndedChunk, error) {
	r, c := &metadataReader{rest: text}, &EndedChunk{}
	c.Seq, c.At = r.number(8), tube.Instant(r.ms())
	c.Keep = r.ms()
	c.Bytes, c.N = int(r.number(4)), int(r.number(2))
	c.Tube, c.Batch = r.short(), r.short()
	if c.records = r.rest; r.bad {
		return nil, errBrokenEnded
	}
	return c, nil
}

// Records reads the records, in their order. Those of one call have the step as the difference between their Seq.
func (c *EndedChunk) Records(step int) (all []*tube.Ended, err error) {
	seq, at := c.Seq, c.At
	for r := (&metadataReader{rest: c.records}); r.rest != ""; {
		length := int(r.number(4))
		if length == EndedMark {
			seq, at = c.Seq+r.number(4), c.At.Plus(time.Duration(r.number(4))*time.Millisecond)
			continue
		}
		e, err := c.Record(r.text(length), seq, at)
		if r.bad || err != nil {
			return nil, errBrokenEnded
		}
		all, seq = append(all, e), seq+uint64(step)
	}
	if len(all) != c.N {
		return nil, errBrokenEnded
	}
	return all, nil
}

// CheckEndedChunk reads a chunk with that name, and returns when its last record goes, and the runs of the ids of its jobs, each the first one and how
// many there are. The error says that it is broken.
func CheckEndedChunk(name, text string, partitions int) (c *EndedChunk, until tube.Instant, runs [][2]uint64, err error) {
	if c, err = ParseEndedChunk(text); err != nil {
		return nil, 0, nil, err
	}
	records, err := c.Records(partitions)
	bytes, ids := 0, make([]uint64, len(records))
	for k, e := range records {
		bytes, until, ids[k] = bytes+e.Bytes(), e.Until, e.ID
	}
	slices.Sort(ids)
	for _, id := range ids {
		if n := len(runs) - 1; n >= 0 && id == runs[n][0]+runs[n][1]*uint64(partitions) {
			runs[n][1]++
		} else {
			runs = append(runs, [2]uint64{id, 1})
		}
	}
	if err == nil && (len(records) == 0 || bytes != c.Bytes || strconv.FormatUint(c.Seq, 10) != name) {
		err = errBrokenEnded
	}
	return c, until, runs, err
}

// Record reads a record of the chunk.
func (c *EndedChunk) Record(text string, seq uint64, at tube.Instant) (*tube.Ended, error) {
	r, e := &metadataReader{rest: text}, &tube.Ended{Seq: seq, Tube: c.Tube, Batch: c.Batch, At: at, Until: at.Plus(c.Keep)}
	e.ID, e.Started, e.ToID = r.number(8), tube.Instant(r.ms()), r.number(8)
	e.How = tube.How(r.number(1))
	reserved := r.number(1) == 1
	e.Holder, e.ToTube = strings.Clone(r.short()), strings.Clone(r.short())
	head := Record(r.text(NameAt))
	f, err := readEndedMetadata(r.long())
	if r.bad || err != nil || e.How == tube.NotEnded || e.How >= tube.StillParked {
		return nil, errors.Join(errBrokenEnded, err)
	}
	counters := head.Counters()
	if reserved {
		counters[tube.Reserves]++
	}
	notes := f.AllNotes()
	e.Key, e.Group, e.Occurrence, e.Meta, e.Reason = f.Key, f.Group, f.Occurrence, notes.Meta, notes.Reason
	e.Put, e.Deliveries, e.Failures = head.Created(), f.Deliveries(&counters), f.Failures(&counters)
	// An instance has estimated by the clock of Redis when it started.
	if e.Started = max(e.Started, e.Put); !reserved || e.Deliveries != 1 || e.Started > e.At {
		e.Started = 0
	}
	if r.rest != "" {
		e.Result = []byte(r.rest)
	}
	return e, nil
}

// readEndedMetadata reads the metadata in a record of an ended job.
func readEndedMetadata(block string) (*tube.Metadata, error) {
	if block == "" {
		return &tube.Metadata{}, nil
	}
	return ParseMetadata(strings.Clone(block))
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
