package schema

import (
	"encoding/binary"
	"errors"
	"time"

	"redstalk/tube"
)

// A job that was put with tags, or that a rule has changed, has a metadata block at
// the end of its record, after the body. Then the letter of its state is in lower case. So the
// header is where it always is, a job without metadata costs nothing more, and a block can be
// added to a record of any size without moving its body.
//
// The block, with big-endian numbers, and texts of up to 255 bytes after their length:
//
//	flags, key         what else is there, by these bits
//	retry              1: how many delays; and each, ms
//	max                2: deliveries
//	dead               4: tube
//	key-ttl            8: ms
//	from               16: tube, and id of the job that was exhausted
//	status             tube.Parked, and KeyVoid
//	failures before, deliveries before, lease
//	length             of everything before it
//
// Only status and what follows it ever change, in place.
const (
	HasRetry = 1 << iota
	HasMax
	HasDead
	HasKeyTTL
	HasFrom
)

const (
	// KeyVoid in the status means that the job does not own the key in its block: another job
	// has it.
	KeyVoid = 1 << 7

	// ChangingMetadata is the size of the part that changes, including the length after it.
	// MaxMetadata is an upper limit of the size of a block.
	ChangingMetadata = 1 + 4 + 4 + 8 + 2
	MaxMetadata      = 1100

	// LowerCase is added to the letter of a job with metadata.
	LowerCase = 'a' - 'A'
)

// AppendMetadata appends a block.
func AppendMetadata(b []byte, f *tube.Metadata) []byte {
	from := len(b)
	flags := metadataFlags(f)
	b = appendShort(append(b, flags), f.Key)
	if flags&HasRetry != 0 {
		b = append(b, byte(len(f.Retry)))
		for _, wait := range f.Retry {
			b = binary.BigEndian.AppendUint64(b, uint64(wait.Milliseconds()))
		}
	}
	if flags&HasMax != 0 {
		b = binary.BigEndian.AppendUint32(b, f.Max)
	}
	if flags&HasDead != 0 {
		b = appendShort(b, f.Dead)
	}
	if flags&HasKeyTTL != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(f.KeyTTL.Milliseconds()))
	}
	if flags&HasFrom != 0 {
		b = binary.BigEndian.AppendUint64(appendShort(b, f.FromTube), f.FromID)
	}
	b = append(b, byte(f.Parked))
	b = binary.BigEndian.AppendUint32(b, f.FailuresBefore)
	b = binary.BigEndian.AppendUint32(b, f.DeliveriesBefore)
	b = binary.BigEndian.AppendUint64(b, f.Lease)
	return binary.BigEndian.AppendUint16(b, uint16(len(b)-from))
}

func metadataFlags(f *tube.Metadata) (flags byte) {
	for flag, ok := range map[byte]bool{
		HasRetry: len(f.Retry) > 0, HasMax: f.Max > 0, HasDead: f.Dead != "", HasKeyTTL: f.HasKeyTTL, HasFrom: f.FromTube != "",
	} {
		if ok {
			flags |= flag
		}
	}
	return flags
}

func appendShort(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }

// metadataReader reads a block from its beginning. Missing fields read as zero and set bad.
type metadataReader struct {
	rest string
	bad  bool
}

func (r *metadataReader) text(n int) string {
	if r.bad = r.bad || n > len(r.rest); r.bad {
		return ""
	}
	head := r.rest[:n]
	r.rest = r.rest[n:]
	return head
}

func (r *metadataReader) number(bytes int) (n uint64) {
	for _, b := range []byte(r.text(bytes)) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (r *metadataReader) short() string     { return r.text(int(r.number(1))) }
func (r *metadataReader) ms() time.Duration { return time.Duration(r.number(8)) * time.Millisecond }

var errBrokenMetadata = errors.New("a block of metadata is broken")

// ParseMetadata reads a block without its length.
func ParseMetadata(block string) (*tube.Metadata, error) {
	r, f := &metadataReader{rest: block}, new(tube.Metadata)
	flags := byte(r.number(1))
	f.Key = r.short()
	if flags&HasRetry != 0 {
		for range r.number(1) {
			f.Retry = append(f.Retry, r.ms())
		}
	}
	if flags&HasMax != 0 {
		f.Max = uint32(r.number(4))
	}
	if flags&HasDead != 0 {
		f.Dead = r.short()
	}
	if f.HasKeyTTL = flags&HasKeyTTL != 0; f.HasKeyTTL {
		f.KeyTTL = r.ms()
	}
	if flags&HasFrom != 0 {
		f.FromTube, f.FromID = r.short(), r.number(8)
	}
	status := byte(r.number(1))
	if status&KeyVoid != 0 {
		f.Key = ""
	}
	f.Parked = tube.Parked(status &^ KeyVoid)
	f.FailuresBefore, f.DeliveriesBefore, f.Lease = uint32(r.number(4)), uint32(r.number(4)), r.number(8)
	if r.bad || r.rest != "" || f.Parked > tube.LastParked {
		return nil, errBrokenMetadata
	}
	return f, nil
}

// HasMetadata returns whether a record has a metadata block.
func (r Record) HasMetadata() bool { return r[LetterAt] >= 'a' }

// MetadataLength returns the size of the block of a whole record, including its length field; 0
// if there is none, or it is broken.
func (r Record) MetadataLength() int {
	if !r.HasMetadata() {
		return 0
	}
	n := 2 + int(r[len(r)-2])<<8 + int(r[len(r)-1])
	if n > len(r)-r.bodyAt() {
		return 0
	}
	return n
}
