package redis

import (
	"encoding/binary"
	"fmt"
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
//	status             tube.Parked, and keyVoid
//	failures before, deliveries before, lease
//	length             of everything before it
//
// Only status and what follows it ever change, in place.
const (
	hasRetry = 1 << iota
	hasMax
	hasDead
	hasKeyTTL
	hasFrom
)

const (
	// keyVoid in the status means that the job does not own the key in its block: another job
	// has it.
	keyVoid = 1 << 7

	// changingMetadata is the size of the part that changes, including the length after it.
	// mostMetadata is an upper limit of the size of a block.
	changingMetadata = 1 + 4 + 4 + 8 + 2
	mostMetadata     = 1100

	// smallLetter is added to the letter of a job with metadata.
	lowerCase = 'a' - 'A'
)

// appendMetadata appends a block.
func appendMetadata(b []byte, f *tube.Metadata) []byte {
	from := len(b)
	flags := metadataFlags(f)
	b = appendShort(append(b, flags), f.Key)
	if flags&hasRetry != 0 {
		b = append(b, byte(len(f.Retry)))
		for _, wait := range f.Retry {
			b = binary.BigEndian.AppendUint64(b, uint64(wait.Milliseconds()))
		}
	}
	if flags&hasMax != 0 {
		b = binary.BigEndian.AppendUint32(b, f.Max)
	}
	if flags&hasDead != 0 {
		b = appendShort(b, f.Dead)
	}
	if flags&hasKeyTTL != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(f.KeyTTL.Milliseconds()))
	}
	if flags&hasFrom != 0 {
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
		hasRetry: len(f.Retry) > 0, hasMax: f.Max > 0, hasDead: f.Dead != "", hasKeyTTL: f.HasKeyTTL, hasFrom: f.FromTube != "",
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

// parseMetadata reads a block without its length.
func parseMetadata(block string) (*tube.Metadata, error) {
	r, f := &metadataReader{rest: block}, new(tube.Metadata)
	flags := byte(r.number(1))
	f.Key = r.short()
	if flags&hasRetry != 0 {
		for range r.number(1) {
			f.Retry = append(f.Retry, r.ms())
		}
	}
	if flags&hasMax != 0 {
		f.Max = uint32(r.number(4))
	}
	if flags&hasDead != 0 {
		f.Dead = r.short()
	}
	if f.HasKeyTTL = flags&hasKeyTTL != 0; f.HasKeyTTL {
		f.KeyTTL = r.ms()
	}
	if flags&hasFrom != 0 {
		f.FromTube, f.FromID = r.short(), r.number(8)
	}
	status := byte(r.number(1))
	if status&keyVoid != 0 {
		f.Key = ""
	}
	f.Parked = tube.Parked(status &^ keyVoid)
	f.FailuresBefore, f.DeliveriesBefore, f.Lease = uint32(r.number(4)), uint32(r.number(4)), r.number(8)
	if r.bad || r.rest != "" || f.Parked > tube.LastParked {
		return nil, fmt.Errorf("%w: a block of metadata", errReply)
	}
	return f, nil
}

// hasMetadata returns whether a record has a metadata block.
func (r record) hasMetadata() bool { return r[letterAt] >= 'a' }

// metadataLength returns the size of the block of a whole record, including its length field; 0
// if there is none, or it is broken.
func (r record) metadataLength() int {
	if !r.hasMetadata() {
		return 0
	}
	n := 2 + int(r[len(r)-2])<<8 + int(r[len(r)-1])
	if n > len(r)-r.bodyAt() {
		return 0
	}
	return n
}
