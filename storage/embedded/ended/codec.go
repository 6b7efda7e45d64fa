package ended

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"redstalk/tube"
)

// An encoded record is its length, a version, and the fields: numbers as varints, times in ms since the epoch, texts after their
// lengths. The tube is not in it. The fields of Head come first.
const version = 1

var errRecord = errors.New("not the record of an ended job")

// Head is the beginning of a record: what is needed to keep or drop it.
type Head struct {
	Seq, ID uint64
	Until   tube.Instant
	Bytes   uint64 // as tube.Ended.Bytes counts
	Batch   string
}

// Append appends an encoded record.
func Append(to []byte, e *tube.Ended) []byte {
	var room [256]byte
	b := append(room[:0], version)
	for _, n := range [...]uint64{e.Seq, e.ID, ms(e.Until), uint64(e.Bytes())} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendText(b, e.Batch)
	var occurrence tube.Occurrence
	if e.Occurrence != nil {
		occurrence = *e.Occurrence
	}
	for _, n := range [...]uint64{
		uint64(e.How), ms(e.Put), ms(e.Started), ms(e.At), uint64(e.Deliveries), uint64(e.Failures), e.ToID, ms(occurrence.Nominal), uint64(len(e.Meta)),
	} {
		b = binary.AppendUvarint(b, n)
	}
	for _, m := range e.Meta {
		b = appendText(appendText(b, m.Name), m.Value)
	}
	for _, text := range [...]string{e.Key, e.Group, occurrence.Schedule, e.Holder, e.Reason, e.ToTube} {
		b = appendText(b, text)
	}
	return appendText(to, appendText(b, e.Result))
}

func ms(t tube.Instant) uint64 { return uint64(t / tube.Instant(time.Millisecond)) }

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// ReadHead reads the beginning of an encoded record.
func ReadHead(from []byte) (h Head, err error) {
	r, _ := begin(from)
	if h = r.head(); r.bad {
		return h, errRecord
	}
	return h, nil
}

// Decode reads the encoded record of a job of a tube. It also returns the bytes behind it.
func Decode(tubeName string, from []byte) (e *tube.Ended, rest []byte, err error) {
	r, rest := begin(from)
	h := r.head()
	e = &tube.Ended{
		Tube: tubeName, Seq: h.Seq, ID: h.ID, Until: h.Until, Batch: h.Batch,
		How: tube.How(r.number()), Put: r.instant(), Started: r.instant(), At: r.instant(),
		Deliveries: uint32(r.number()), Failures: uint32(r.number()), ToID: r.number(),
	}
	nominal := r.instant()
	for n := r.number(); n > 0 && !r.bad; n-- {
		e.Meta = append(e.Meta, tube.Meta{Name: string(r.text()), Value: string(r.text())})
	}
	e.Key, e.Group = string(r.text()), string(r.text())
	if schedule := string(r.text()); schedule != "" {
		e.Occurrence = &tube.Occurrence{Schedule: schedule, Nominal: nominal}
	}
	e.Holder, e.Reason, e.ToTube = string(r.text()), string(r.text()), string(r.text())
	if result := r.text(); len(result) > 0 {
		e.Result = bytes.Clone(result)
	}
	if r.bad || len(r.rest) > 0 {
		return nil, nil, fmt.Errorf("reading the record of an ended job of tube %q: %w", tubeName, errRecord)
	}
	return e, rest, nil
}

// reader reads an encoded record. After the first error bad is set, and all that is read is zero.
type reader struct {
	rest []byte
	bad  bool
}

// begin begins to read a record. It also returns the bytes behind it.
func begin(from []byte) (r reader, rest []byte) {
	all := reader{rest: from}
	r = reader{rest: all.text(), bad: all.bad}
	r.bad = r.number() != version || r.bad
	return r, all.rest
}

func (r *reader) head() Head {
	return Head{Seq: r.number(), ID: r.number(), Until: r.instant(), Bytes: r.number(), Batch: string(r.text())}
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if r.bad = r.bad || size <= 0; r.bad {
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) instant() tube.Instant {
	const limit = math.MaxInt64 / uint64(time.Millisecond)
	return tube.Instant(min(r.number(), limit)) * tube.Instant(time.Millisecond)
}

func (r *reader) text() []byte {
	n := r.number()
	if r.bad = r.bad || n > uint64(len(r.rest)); r.bad {
		return nil
	}
	text := r.rest[:n]
	r.rest = r.rest[n:]
	return text
}
