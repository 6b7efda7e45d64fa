package tables

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"redstalk/tube"
)

// The metadata of a job and the policy of a tube are each written as a block: its length as a
// varint, the version of the block in one byte, and fields in the order of their tags. Empty
// fields are left out. A tag is one byte. Numbers are varints, durations are whole
// milliseconds, and strings are preceded by their length.
const blockVersion = 1

// blockRoom is a size in bytes that is enough for most blocks.
const blockRoom = 256

// The tags of fields that have no row of their own in package field.
const (
	keyField         byte = 1
	retryField       byte = 2  // their number, and the durations
	failuresField    byte = 6  // Metadata.FailuresBefore
	deliveriesField  byte = 7  // Metadata.DeliveriesBefore
	parkedField      byte = 8  //
	pendingField     byte = 9  // Metadata.PendingDead
	leaseField       byte = 10 //
	fromField        byte = 11 // Metadata.FromTube, Metadata.FromID
	rateField        byte = 18 // Push.Rate, Push.RateEvery
	metaField        byte = 19 // how many, and name and value of each
	traceField       byte = 20 //
	reasonField      byte = 21 // Notes.Reason, Notes.FailedAt in ms
	expiresField     byte = 26 // Metadata.Expires, ms since the epoch
	groupField       byte = 27 // Metadata.Group
	limitsField      byte = 28 // Policy.Limits: concurrency, and the number of each of tube.RatePeriods
	groupLimitsField byte = 29 // Policy.GroupLimits, or GroupConfig.Limits, likewise
	weightField      byte = 31 // GroupConfig.Weight
	ttlField         byte = 32 // GroupConfig.TTL
	forgetField      byte = 33 // GroupRecord.ForgetAt, ns since the epoch
	pausedField      byte = 34 // GroupRecord.PauseSeconds, and PauseUntil in ns since the epoch
	occurrenceField  byte = 35 // Metadata.Occurrence: Schedule, and Nominal in ms since the epoch
	batchField       byte = 36 // Metadata.Batch
	afterField       byte = 37 // Metadata.After
	afterAllField    byte = 38 // the same, with Metadata.AfterAll
	attemptsField    byte = 41 // Notes.Attempts: how many, and of each when, ms since the epoch, how, the holder and the reason
	firstPutField    byte = 42 // Notes.FirstPut, ms since the epoch
	checkpointField  byte = 43 // Metadata.Checkpoint: Number and Size
	progressField    byte = 44 // Metadata.Progress
	lastField        byte = math.MaxUint8
)

// appendMetadata appends the block of a job's metadata.
func appendMetadata(to []byte, m *tube.Metadata) []byte {
	var room [blockRoom]byte
	b := appendRules(appendString(append(room[:0], blockVersion), keyField, m.Key), &m.Rules)
	b = appendNumber(b, failuresField, uint64(m.FailuresBefore))
	b = appendNumber(b, deliveriesField, uint64(m.DeliveriesBefore))
	b = appendNumber(b, parkedField, uint64(m.Parked))
	b = appendString(b, pendingField, m.PendingDead)
	b = appendNumber(b, leaseField, m.Lease)
	if b = appendString(b, fromField, m.FromTube); m.FromTube != "" {
		b = binary.AppendUvarint(b, m.FromID)
	}
	if m.Notes != nil {
		b = appendNotes(b, m.Notes)
	}
	b = appendRows(b, rulesRows, &m.Rules, reasonField, expiresField)
	b = appendNumber(b, expiresField, uint64(m.Expires/tube.Instant(time.Millisecond)))
	b = appendString(b, groupField, m.Group)
	if o := m.Occurrence; o != nil {
		b = binary.AppendUvarint(appendLong(append(b, occurrenceField), o.Schedule), inMS(o.Nominal))
	}
	after := afterField
	if m.AfterAll {
		after = afterAllField
	}
	b = appendString(appendString(b, batchField, m.Batch), after, m.After)
	b = appendRows(b, rulesRows, &m.Rules, afterAllField, attemptsField)
	if m.Notes != nil {
		b = appendAttempts(b, m.Notes)
	}
	if c := m.Checkpoint; c.Size > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, checkpointField), c.Number), uint64(c.Size))
	}
	b = appendString(b, progressField, m.Progress)
	return appendBlock(to, appendRows(b, rulesRows, &m.Rules, progressField, lastField))
}

func appendNotes(b []byte, n *tube.Notes) []byte {
	if len(n.Meta) > 0 {
		b = binary.AppendUvarint(append(b, metaField), uint64(len(n.Meta)))
		for _, m := range n.Meta {
			b = appendLong(appendLong(b, m.Name), m.Value)
		}
	}
	b = appendString(b, traceField, n.Trace)
	if b = appendString(b, reasonField, n.Reason); n.Reason != "" {
		b = binary.AppendUvarint(b, uint64(n.FailedAt)/uint64(time.Millisecond))
	}
	return b
}

func appendAttempts(b []byte, n *tube.Notes) []byte {
	if len(n.Attempts) > 0 {
		b = append(b, attemptsField, byte(len(n.Attempts)))
		for _, a := range n.Attempts {
			b = appendLong(appendLong(append(binary.AppendUvarint(b, inMS(a.At)), byte(a.How)), a.Holder), a.Reason)
		}
	}
	return appendNumber(b, firstPutField, inMS(n.FirstPut))
}

// AppendPolicy appends the block of a policy.
func AppendPolicy(to []byte, p *tube.Policy) []byte {
	var room [blockRoom]byte
	b := appendRules(append(room[:0], blockVersion), &p.Rules)
	b = appendRows(b, policyRows, p, fromField, rateField)
	if p.Push.Rate > 0 {
		b = binary.AppendUvarint(appendNumber(b, rateField, uint64(p.Push.Rate)), uint64(p.Push.RateEvery/time.Millisecond))
	}
	b = appendRows(b, rulesRows, &p.Rules, reasonField, expiresField)
	b = appendRows(b, policyRows, p, reasonField, expiresField)
	b = appendLimits(appendLimits(b, limitsField, p.Limits), groupLimitsField, p.GroupLimits)
	b = appendRows(b, policyRows, p, groupLimitsField, afterAllField)
	b = appendRows(b, rulesRows, &p.Rules, afterAllField, lastField)
	return appendBlock(to, appendRows(b, policyRows, p, afterAllField, lastField))
}

// appendLimits appends limits unless they are empty.
func appendLimits(b []byte, field byte, l tube.Limits) []byte {
	if l == (tube.Limits{}) {
		return b
	}
	b = binary.AppendUvarint(append(b, field), uint64(l.Concurrency))
	for _, n := range l.Rates {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// limits reads limits.
func (b *block) limits() (l tube.Limits) {
	l.Concurrency = uint32(b.number(math.MaxUint32))
	for i := range l.Rates {
		l.Rates[i] = uint32(b.number(math.MaxUint32))
	}
	return l
}

// AppendGroup appends the block of what is set for a group.
func AppendGroup(to []byte, r *tube.GroupRecord) []byte {
	var room [blockRoom]byte
	b := append(room[:0], blockVersion)
	if c := r.Config; c != nil {
		b = appendLimits(b, groupLimitsField, c.Limits)
		b = appendNumber(b, weightField, uint64(c.Weight))
		b = appendNumber(b, ttlField, uint64(c.TTL/time.Millisecond))
		b = appendNumber(b, forgetField, uint64(r.ForgetAt))
	}
	if r.PauseUntil != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, pausedField), uint64(r.PauseSeconds)), uint64(r.PauseUntil))
	}
	return appendBlock(to, b)
}

// DecodeGroup reads the block of what is set for a group. It also returns the bytes behind it.
func DecodeGroup(from []byte) (r tube.GroupRecord, rest []byte, err error) {
	b, rest := cutBlock(from)
	var c tube.GroupConfig
	for tag, more := b.next(); more; tag, more = b.next() {
		switch tag {
		case groupLimitsField:
			c.Limits = b.limits()
		case weightField:
			c.Weight = uint32(b.number(tube.MaxGroupWeight))
		case ttlField:
			c.TTL = b.duration()
		case forgetField:
			r.ForgetAt = tube.Instant(b.number(math.MaxInt64))
		case pausedField:
			r.PauseSeconds, r.PauseUntil = uint32(b.number(math.MaxUint32)), tube.Instant(b.number(math.MaxInt64))
		default:
			b.bad = true
		}
	}
	if b.bad {
		return r, nil, fmt.Errorf("reading the limits of a group: %w", errPolicy)
	}
	if c.Weight > 0 {
		r.Config = &c
	}
	return r, rest, nil
}

func appendRules(b []byte, r *tube.Rules) []byte {
	if r.Retry != nil {
		b = binary.AppendUvarint(append(b, retryField), uint64(len(r.Retry)))
		for _, wait := range r.Retry {
			b = binary.AppendUvarint(b, uint64(wait/time.Millisecond))
		}
	}
	return appendRows(b, rulesRows, r, retryField, failuresField)
}

// appendNumber appends a number unless it is 0.
func appendNumber(b []byte, field byte, n uint64) []byte { return appendKnown(b, field, n != 0, n) }

// appendKnown appends a number if known is true.
func appendKnown(b []byte, field byte, known bool, n uint64) []byte {
	if !known {
		return b
	}
	return binary.AppendUvarint(append(b, field), n)
}

// appendString appends a string unless it is empty.
func appendString(b []byte, field byte, s string) []byte {
	if s == "" {
		return b
	}
	return appendLong(append(b, field), s)
}

// appendLong appends the length of a string, and the string.
func appendLong[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBlock(to, block []byte) []byte { return appendLong(to, block) }

// block reads an encoded block. After the first error bad is true, and everything that is
// read is zero.
type block struct {
	rest []byte // not read yet
	bad  bool
	last byte // tag
}

// cutBlock splits b into a block and the bytes behind it.
func cutBlock(b []byte) (fields block, rest []byte) {
	all := block{rest: b}
	fields = block{rest: all.long(), bad: all.bad}
	if version := fields.bytes(1); !fields.bad && version[0] != blockVersion {
		fields.bad = true
	}
	return fields, all.rest
}

// next returns the tag of the next field; false if there is none.
func (b *block) next() (tag byte, more bool) {
	if b.bad || len(b.rest) == 0 {
		return 0, false
	}
	tag = b.rest[0]
	b.rest = b.rest[1:]
	b.bad = tag <= b.last
	b.last = tag
	return tag, !b.bad
}

// bytes reads n bytes.
func (b *block) bytes(n uint64) []byte {
	if b.bad = b.bad || n > uint64(len(b.rest)); b.bad {
		return nil
	}
	s := b.rest[:n]
	b.rest = b.rest[n:]
	return s
}

// long reads a string that is preceded by its length.
func (b *block) long() []byte { return b.bytes(b.number(math.MaxUint64)) }

// number reads a varint of at most limit.
func (b *block) number(limit uint64) uint64 {
	n, size := binary.Uvarint(b.rest)
	if b.bad = b.bad || size <= 0 || n > limit; b.bad {
		return 0
	}
	b.rest = b.rest[size:]
	return n
}

// duration reads a duration.
func (b *block) duration() time.Duration {
	return time.Duration(b.number(uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// durations reads a number, and that many durations.
func (b *block) durations() []time.Duration {
	n := b.number(uint64(len(b.rest)))
	if b.bad {
		return nil
	}
	d := make([]time.Duration, n)
	for i := range d {
		d[i] = b.duration()
	}
	return d
}

// decodeMetadata reads the block of a job's metadata. It also returns the bytes behind it. name
// makes strings of the names of tubes.
func decodeMetadata(from []byte, name func([]byte) string) (m *tube.Metadata, rest []byte, err error) {
	b, rest := cutBlock(from)
	m = new(tube.Metadata)
	for tag, more := b.next(); more; tag, more = b.next() {
		switch tag {
		case keyField:
			m.Key = string(b.long())
		case failuresField:
			m.FailuresBefore = uint32(b.number(math.MaxUint32))
		case deliveriesField:
			m.DeliveriesBefore = uint32(b.number(math.MaxUint32))
		case parkedField:
			m.Parked = tube.Parked(b.number(uint64(tube.LastParked)))
		case pendingField:
			m.PendingDead = name(b.long())
		case leaseField:
			m.Lease = b.number(math.MaxUint64)
		case fromField:
			m.FromTube, m.FromID = name(b.long()), b.number(math.MaxUint64)
		case metaField, traceField, reasonField, attemptsField, firstPutField:
			b.note(tag, m)
		case groupField:
			m.Group = string(b.long())
		case occurrenceField:
			m.Occurrence = &tube.Occurrence{Schedule: name(b.long()), Nominal: b.instant()}
		case batchField:
			m.Batch = name(b.long())
		case afterField, afterAllField:
			m.After, m.AfterAll = name(b.long()), tag == afterAllField
		case checkpointField:
			m.Checkpoint = tube.CheckpointRef{Number: b.number(math.MaxUint64), Size: uint32(b.number(math.MaxUint32))}
		case progressField:
			m.Progress = string(b.long())
		case expiresField:
			m.Expires = tube.Instant(b.number(uint64(tube.Latest/tube.Instant(time.Millisecond)))) * tube.Instant(time.Millisecond)
		default:
			b.rule(tag, &m.Rules, name)
		}
	}
	if b.bad {
		return nil, nil, errRecord
	}
	return m, rest, nil
}

// note reads a field of tube.Notes.
func (b *block) note(tag byte, m *tube.Metadata) {
	if m.Notes == nil {
		m.Notes = new(tube.Notes)
	}
	switch n := m.Notes; tag {
	case metaField:
		for range b.number(uint64(len(b.rest))) {
			n.Meta = append(n.Meta, tube.Meta{Name: string(b.long()), Value: string(b.long())})
		}
	case traceField:
		n.Trace = string(b.long())
	case reasonField:
		n.Reason, n.FailedAt = string(b.long()), b.instant()
	case attemptsField:
		for range b.number(tube.MaxAttempts) {
			n.Attempts = append(n.Attempts, tube.Attempt{
				At: b.instant(), How: tube.Failed(b.number(uint64(tube.LastFailed))), Holder: string(b.long()), Reason: string(b.long()),
			})
		}
	case firstPutField:
		n.FirstPut = b.instant()
	}
}

// rule reads a field of tube.Rules.
func (b *block) rule(tag byte, r *tube.Rules, name func([]byte) string) {
	if tag == retryField {
		r.Retry = b.durations()
		return
	}
	readRow(b, rulesRows.byTag[tag], r, name)
}

// DecodePolicy reads the block of the policy of a tube. It also returns the bytes behind it.
func DecodePolicy(tubeName string, from []byte, name func([]byte) string) (p *tube.Policy, rest []byte, err error) {
	b, rest := cutBlock(from)
	p = new(tube.Policy)
	for tag, more := b.next(); more; tag, more = b.next() {
		switch tag {
		case rateField:
			p.Push.Rate, p.Push.RateEvery = uint32(b.number(math.MaxUint32)), b.duration()
		case limitsField:
			p.Limits = b.limits()
		case groupLimitsField:
			p.GroupLimits = b.limits()
		default:
			if f := policyRows.byTag[tag]; f != nil {
				readRow(&b, f, p, name)
			} else {
				b.rule(tag, &p.Rules, name)
			}
		}
	}
	if b.bad {
		return nil, nil, fmt.Errorf("reading the policy of tube %q: %w", tubeName, errPolicy)
	}
	return p, rest, nil
}
