package schema

import (
	"encoding/binary"
	"errors"
	"strings"
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
//	more flags         128: what else is there, by the bits of the next four
//	doubled            1: Rules.Doubled
//	jitter             2: per cent
//	on-expire          4: a tube.OnExpire
//	group              16: its name
//	occurrence         32: schedule, and its nominal time, ms
//	batch              64: its name
//	after              128: name of the batch, and 1 for AfterAll, else 0
//	expires            8: when, ms since the epoch
//	headers            32: size of what follows in 2 bytes; trace, '' if none; and of each meta its
//	                   name, and its value after 2 bytes of length
//	still more flags   in the status 32: what else is there, by these bits
//	keep               1: 8, ms
//	reason             64: capacity in 2 bytes; when it was said, ms; and as many bytes as the
//	                   capacity says: the text after 2 bytes of length; its past after 2 bytes of
//	                   length, if there is any; and zeros
//	status             tube.Parked, HasReports, HasStill, KeyVoid and AfterVoid
//	failures before, deliveries before, lease
//	length             of everything before it
//
// The past of a job is Notes.FirstPut, ms, and of each of Notes.Attempts: a tube.Failed, when, ms, and
// the texts of holder and reason.
//
// Only reason, status and what follows ever change: in place, unless a reason is longer than the
// capacity: then the block is written anew, with a larger one. Expires can become 0.
//
// The bits of the rules are those of field.OfRules: the low byte has those of the flags, the second one those of
// the more flags, the third one those of the still more flags. They are in the block in the order of their bits.
const (
	HasFrom = 1 << (iota + 4)
	HasHeaders
	HasReason
	HasMore
)

// The bits of the flags after HasMore that are not in field.OfRules.
const (
	HasExpires = 1 << (iota + 3)
	HasGroup
	HasOccurrence
	HasBatch
	HasAfter
)

const (
	// KeyVoid in the status means that the job does not own the key in its block: another job
	// has it.
	KeyVoid = 1 << 7

	// HasReports in the status means that the job has a checkpoint or a progress: in keys of their own, see lua/keys.md.
	HasReports = 1 << 4

	// HasStill in the status means that the block has still more flags.
	HasStill = 1 << 5

	// AfterVoid in the status means that the job does not wait for the batch in its block any more.
	AfterVoid = 1 << 6

	// ChangingMetadata is the size of status and what follows it.
	ChangingMetadata = 1 + 4 + 4 + 8 + 2

	// statusToLength is how many bytes there are from status to the length.
	statusToLength = ChangingMetadata - 2

	// LeaseToEnd is the size of lease and what follows it.
	LeaseToEnd = 8 + 2

	// ReasonHead is the size of the reason before its capacity of bytes, and ReasonStep the unit of
	// that capacity, which includes 2 bytes of length.
	ReasonHead = 2 + 8
	ReasonStep = 16

	// MaxGrowth is an upper limit of how much a record can grow after its put, without its past, and
	// of the size of most blocks: of those without headers.
	MaxGrowth = 1100

	// MaxMetadata is an upper limit of the size of a block.
	MaxMetadata = MaxGrowth + maxPast + 2 + 1 + 55 + 1024 + 16*(1+2) + 1 + 255 + 8 + 2*(1+255) + 1

	maxPast = 2 + 8 + tube.MaxAttempts*(1+8+1+tube.MaxHolder+1+tube.MaxAttemptReason) + ReasonStep

	// LowerCase is added to the letter of a job with metadata.
	LowerCase = 'a' - 'A'
)

// AppendMetadata appends a block.
func AppendMetadata(b []byte, f *tube.Metadata) []byte {
	from := len(b)
	flags, more, still := metadataFlags(f)
	b = appendShort(append(b, flags), f.Key)
	b = appendRules(b, &f.Rules, uint32(flags))
	if flags&HasFrom != 0 {
		b = binary.BigEndian.AppendUint64(appendShort(b, f.FromTube), f.FromID)
	}
	if more != 0 {
		b = appendMore(b, f, more)
	}
	if flags&HasHeaders != 0 {
		b = appendHeaders(b, f.Notes)
	}
	if still != 0 {
		b = appendRules(append(b, still), &f.Rules, uint32(still)<<16)
	}
	if flags&HasReason != 0 {
		b = appendReason(b, f.Notes)
	}
	b = append(b, byte(f.Parked)|bit(HasStill, still != 0)|bit(HasReports, f.Progress != "" || f.Checkpoint.Size > 0))
	b = binary.BigEndian.AppendUint32(b, f.FailuresBefore)
	b = binary.BigEndian.AppendUint32(b, f.DeliveriesBefore)
	b = binary.BigEndian.AppendUint64(b, f.Lease)
	return binary.BigEndian.AppendUint16(b, uint16(len(b)-from))
}

// AppendGroup appends the block of a job whose metadata says only that it is in a group.
func AppendGroup(b []byte, group string) []byte {
	b = appendShort(append(b, HasMore, 0, HasGroup), group)
	return binary.BigEndian.AppendUint16(append(b, unchanged[:]...), uint16(groupBlock+len(group)))
}

// MaxGroupBlock is an upper limit of the size of that block in bytes.
const MaxGroupBlock = 4 + ChangingMetadata + 255

// AppendBatch appends the block of a job whose metadata says only that it is a member of a batch.
func AppendBatch(b []byte, name string) []byte {
	b = appendShort(append(b, HasMore, 0, HasBatch), name)
	return binary.BigEndian.AppendUint16(append(b, unchanged[:]...), uint16(groupBlock+len(name)))
}

// unchanged is the part of a block that changes, before its length, of a job that has just been put.
var unchanged [ChangingMetadata - 2]byte

// groupBlock is the length field of a block with an empty group.
const groupBlock = 4 + len(unchanged)

// appendHeaders appends meta and trace.
func appendHeaders(b []byte, n *tube.Notes) []byte {
	at := len(b)
	b = appendShort(append(b, 0, 0), n.Trace)
	for _, m := range n.Meta {
		b = appendText(appendShort(b, m.Name), m.Value)
	}
	binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	return b
}

// appendReason appends the reason and the past, with the capacity that they need.
func appendReason(b []byte, n *tube.Notes) []byte {
	at := len(b)
	b = appendText(appendMs(append(b, 0, 0), n.FailedAt), n.Reason)
	if hasPast(n) {
		b = appendPast(b, n)
	}
	size := len(b) - at - ReasonHead
	capacity := (size + ReasonStep - 1) / ReasonStep * ReasonStep
	binary.BigEndian.PutUint16(b[at:], uint16(capacity))
	return append(b, make([]byte, capacity-size)...)
}

func hasPast(n *tube.Notes) bool { return len(n.Attempts) > 0 || n.FirstPut != 0 }

// appendPast appends the past of a job after its length.
func appendPast(b []byte, n *tube.Notes) []byte {
	at := len(b)
	b = appendMs(append(b, 0, 0), n.FirstPut)
	for _, a := range n.Attempts {
		b = appendShort(appendShort(appendMs(append(b, byte(a.How)), a.At), a.Holder), a.Reason)
	}
	binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	return b
}

// past reads the past of a job, if there is any, into n.
func (r *metadataReader) past(n *tube.Notes) {
	if len(r.rest) < 2 {
		return
	}
	p := &metadataReader{rest: r.long()}
	if p.rest == "" {
		return
	}
	for n.FirstPut = tube.Instant(p.ms()); p.rest != "" && !p.bad; {
		a := tube.Attempt{How: tube.Failed(p.number(1)), At: tube.Instant(p.ms()), Holder: p.short(), Reason: p.short()}
		n.Attempts = append(n.Attempts, a)
		p.bad = p.bad || a.How > tube.LastFailed
	}
	r.bad = r.bad || p.bad || len(n.Attempts) > tube.MaxAttempts
}

// appendText appends a text after 2 bytes of length.
func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

// metadataFlags returns what f has: the flags of the block, those after HasMore, and those that HasStill announces.
func metadataFlags(f *tube.Metadata) (flags, more, still byte) {
	notes := f.AllNotes()
	rules := rulesFlags(&f.Rules)
	more = byte(rules>>8) | bit(HasExpires, f.Expires != 0) | bit(HasGroup, f.Group != "") | bit(HasOccurrence, f.Occurrence != nil) |
		bit(HasBatch, f.Batch != "") | bit(HasAfter, f.After != "")
	flags = byte(rules) | bit(HasFrom, f.FromTube != "") | bit(HasHeaders, notes.Meta != nil || notes.Trace != "") |
		bit(HasReason, notes.Reason != "" || hasPast(notes)) | bit(HasMore, more != 0)
	return flags, more, byte(rules >> 16)
}

func bit(flag byte, is bool) byte {
	if is {
		return flag
	}
	return 0
}

// appendMore appends the fields that HasMore announces.
func appendMore(b []byte, f *tube.Metadata, flags byte) []byte {
	b = appendRules(append(b, flags), &f.Rules, uint32(flags)<<8)
	if flags&HasGroup != 0 {
		b = appendShort(b, f.Group)
	}
	if flags&HasOccurrence != 0 {
		b = appendMs(appendShort(b, f.Occurrence.Schedule), f.Occurrence.Nominal)
	}
	if flags&HasBatch != 0 {
		b = appendShort(b, f.Batch)
	}
	if flags&HasAfter != 0 {
		b = append(appendShort(b, f.After), bit(1, f.AfterAll))
	}
	if flags&HasExpires != 0 {
		b = appendMs(b, f.Expires)
	}
	return b
}

// readMore reads the fields that HasMore announces.
func (r *metadataReader) readMore(f *tube.Metadata) {
	flags := byte(r.number(1))
	r.rules(&f.Rules, uint32(flags)<<8)
	if flags&HasGroup != 0 {
		f.Group = r.short()
	}
	if flags&HasOccurrence != 0 {
		f.Occurrence = &tube.Occurrence{Schedule: r.short(), Nominal: tube.Instant(r.ms())}
	}
	if flags&HasBatch != 0 {
		f.Batch = r.short()
	}
	if flags&HasAfter != 0 {
		f.After, f.AfterAll = r.short(), r.number(1) == 1
	}
	if flags&HasExpires != 0 {
		f.Expires = tube.Instant(r.ms())
	}
	r.bad = r.bad || f.Doubled > 0 && len(f.Retry) != 2
}

func appendMs(b []byte, at tube.Instant) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(at/tube.Instant(time.Millisecond)))
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
func (r *metadataReader) long() string      { return r.text(int(r.number(2))) }
func (r *metadataReader) ms() time.Duration { return time.Duration(r.number(8)) * time.Millisecond }

var errBrokenMetadata = errors.New("a block of metadata is broken")

// ParseMetadata reads a block without its length. What the holders of the job have reported is not in it.
func ParseMetadata(block string) (*tube.Metadata, error) {
	r, f := &metadataReader{rest: block}, new(tube.Metadata)
	flags := byte(r.number(1))
	f.Key = r.short()
	r.rules(&f.Rules, uint32(flags))
	if flags&HasFrom != 0 {
		f.FromTube, f.FromID = r.short(), r.number(8)
	}
	if flags&HasMore != 0 {
		r.readMore(f)
	}
	if flags&HasHeaders != 0 {
		f.Notes = r.headers()
	}
	if at := len(block) - statusToLength; at >= 0 && block[at]&HasStill != 0 {
		r.rules(&f.Rules, uint32(r.number(1))<<16)
	}
	if flags&HasReason != 0 {
		f.Notes = r.reason(f.Notes)
	}
	status := byte(r.number(1))
	if status&KeyVoid != 0 {
		f.Key = ""
	}
	if status&AfterVoid != 0 {
		f.After, f.AfterAll = "", false
	}
	f.Parked = tube.Parked(status &^ (KeyVoid | AfterVoid | HasStill | HasReports))
	f.FailuresBefore, f.DeliveriesBefore, f.Lease = uint32(r.number(4)), uint32(r.number(4)), r.number(8)
	if r.bad || r.rest != "" || f.Parked > tube.LastParked {
		return nil, errBrokenMetadata
	}
	return f, nil
}

// headers reads meta and trace.
func (r *metadataReader) headers() *tube.Notes {
	n, h := new(tube.Notes), &metadataReader{rest: r.long()}
	for n.Trace = h.short(); h.rest != "" && !h.bad; {
		n.Meta = append(n.Meta, tube.Meta{Name: h.short(), Value: h.long()})
	}
	r.bad = r.bad || h.bad
	return n
}

// reason reads the reason into n, or into new notes if that is nil.
func (r *metadataReader) reason(n *tube.Notes) *tube.Notes {
	if n == nil {
		n = new(tube.Notes)
	}
	capacity := int(r.number(2))
	n.FailedAt = tube.Instant(r.ms())
	t := &metadataReader{rest: r.text(capacity)}
	n.Reason = t.long()
	t.past(n)
	r.bad = r.bad || t.bad
	return n
}

// HasMetadata returns whether a record has a metadata block.
func (r Record) HasMetadata() bool { return r[LetterAt] >= 'a' }

// HasReports returns whether the block of a whole record says that the job has a checkpoint or a progress.
func (r Record) HasReports() bool {
	return r.MetadataLength() >= ChangingMetadata && r[len(r)-ChangingMetadata]&HasReports != 0
}

// Metadata reads the block of a whole record, which must have one.
func (r Record) Metadata() (*tube.Metadata, error) {
	n := r.MetadataLength()
	if n < 2 {
		return nil, errBrokenMetadata
	}
	return ParseMetadata(string(r[len(r)-n : len(r)-2]))
}

// OnlyGroup returns the group of a whole record whose metadata says nothing else that does not change;
// else "".
func (r Record) OnlyGroup() string {
	const at = 4 // flags, an empty key, and the flags after HasMore, and the length
	n := r.MetadataLength()
	if n < at+ChangingMetadata {
		return ""
	}
	block := r[len(r)-n:]
	end := at + int(block[at-1])
	if block[0] != HasMore || block[1] != 0 || block[2] != HasGroup || end+ChangingMetadata != n {
		return ""
	}
	return strings.Clone(string(block[at:end]))
}

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
