package filter

import (
	"bytes"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Filter says which jobs are wanted: those for which all of its fields hold. The zero value of a field holds for each job.
type Filter struct {
	Text string // one of the properties of Found, or the body, has this; see Body

	Group, Key, Batch, Schedule string // the whole name

	Reason      string            // the reason contains this, in upper or lower case
	WholeReason string            // the reason is this
	Since       time.Time         // Job.At is not before
	Until       time.Time         // Job.At is not after
	Attempts    uint32            // the least number of deliveries
	Meta        map[string]string // each of them

	// Body is a text in the body, in upper or lower case; JSON strings are compared as they read, whatever their
	// escapes. If it is a JSON object or array, a JSON body also matches that has such a value: order, spaces and the
	// notation of numbers do not matter, and objects and arrays of the body may contain more.
	Body string
}

// Job is what a filter has to know of a job, besides its body.
type Job struct {
	ID, FromID uint64 // FromID is that of a dead letter in the tube that it came from; 0: none

	Key, Group, Batch, After, Schedule, Reason string

	Meta     iter.Seq2[string, string] // nil: none
	Attempts uint32                    // deliveries
	At       time.Time                 // when it failed last, or otherwise was put
}

// DeadLetter is the Reason of a dead letter of which none is known.
const DeadLetter = "dead letter"

// Found is where a job has the text of a filter.
type Found string

// The places of a text, in the order in which they are examined. ID is only the whole number; the others contain the text.
const (
	Nowhere    Found = ""
	InID       Found = "id"
	InKey      Found = "key"
	InGroup    Found = "group"
	InBatch    Found = "batch"
	InSchedule Found = "schedule"
	InMeta     Found = "meta"
	InReason   Found = "reason"
	InBody     Found = "body"
)

// Verdict is what the properties of a job say about it.
type Verdict int

// The verdicts.
const (
	No       Verdict = iota // the job does not match
	Yes                     // it matches, whatever its body
	BodySays                // it matches if Matcher.Body does
)

// Matcher examines jobs. It can be used by several goroutines.
type Matcher struct {
	Filter
	id           uint64 // Text as a number; 0: it is none
	text, reason string // in lower case
	inText, body pattern
}

// New returns the matcher of a filter.
func New(f Filter) *Matcher {
	m := &Matcher{Filter: f, text: strings.ToLower(f.Text), reason: strings.ToLower(f.Reason), inText: newPattern(f.Text), body: newPattern(f.Body)}
	m.id, _ = strconv.ParseUint(f.Text, 10, 64)
	return m
}

// Properties examines a job without its body. If the verdict is Yes and there is a text, it returns where that was found.
func (m *Matcher) Properties(j *Job) (Verdict, Found) {
	if !m.holds(j) {
		return No, Nowhere
	}
	at := m.find(j)
	if m.Body != "" || m.Text != "" && at == Nowhere {
		return BodySays, at
	}
	return Yes, at
}

// holds reports whether all fields hold that do not need the body.
func (m *Matcher) holds(j *Job) bool {
	for _, name := range [...][2]string{{m.Group, j.Group}, {m.Key, j.Key}, {m.Schedule, j.Schedule}, {m.WholeReason, j.Reason}} {
		if name[0] != "" && name[0] != name[1] {
			return false
		}
	}
	return (m.Batch == "" || m.Batch == j.Batch || m.Batch == j.After) && j.Attempts >= m.Attempts &&
		!(m.Since.After(j.At)) && (m.Until.IsZero() || !j.At.After(m.Until)) &&
		(m.reason == "" || strings.Contains(strings.ToLower(j.Reason), m.reason)) && m.hasMeta(j)
}

func (m *Matcher) hasMeta(j *Job) bool {
	missing := len(m.Meta)
	if missing == 0 {
		return true
	}
	for name, value := range metaOf(j) {
		if want, is := m.Meta[name]; is && want == value {
			missing--
		}
	}
	return missing == 0
}

func metaOf(j *Job) iter.Seq2[string, string] {
	if j.Meta == nil {
		return func(func(string, string) bool) {}
	}
	return j.Meta
}

// find returns where the properties of a job have the text.
func (m *Matcher) find(j *Job) Found {
	if m.text == "" {
		return Nowhere
	}
	if m.id != 0 && (m.id == j.ID || m.id == j.FromID) {
		return InID
	}
	has := func(text string) bool { return text != "" && strings.Contains(strings.ToLower(text), m.text) }
	switch {
	case has(j.Key):
		return InKey
	case has(j.Group):
		return InGroup
	case has(j.Batch), has(j.After):
		return InBatch
	case has(j.Schedule):
		return InSchedule
	}
	for name, value := range metaOf(j) {
		if has(name) || has(value) {
			return InMeta
		}
	}
	if has(j.Reason) {
		return InReason
	}
	return Nowhere
}

// BodyOf examines the body of a job whose verdict is BodySays; found is what Properties has returned. It returns where the text was
// found, and where the body has it: the offset in bytes, -1 if that is not known.
func (m *Matcher) BodyOf(body []byte, found Found) (matches bool, in Found, at int) {
	at = -1
	if m.Body != "" {
		if matches, at = m.body.find(body); !matches {
			return false, Nowhere, -1
		}
	}
	if m.Text != "" && found == Nowhere {
		if matches, at = m.inText.find(body); !matches {
			return false, Nowhere, -1
		}
		found = InBody
	}
	return true, found, at
}

// pattern is a text, or a JSON value, that bodies have.
type pattern struct {
	lower []byte // the text in lower case
	value any    // if it is a JSON object or array; nil otherwise
}

func newPattern(text string) pattern {
	p := pattern{lower: []byte(strings.ToLower(text))}
	if start := strings.TrimLeft(text, " \t\r\n"); start != "" && (start[0] == '{' || start[0] == '[') {
		p.value, _ = decode([]byte(text))
	}
	return p
}

// find reports whether a body has the pattern, and the offset of the text, -1 if it is not there as it is written.
func (p *pattern) find(body []byte) (found bool, at int) {
	if at = bytes.Index(bytes.ToLower(body), p.lower); at >= 0 {
		return true, at
	}
	if p.value == nil && bytes.IndexByte(body, '\\') < 0 {
		return false, -1
	}
	doc, err := decode(body)
	return err == nil && (p.value != nil && contains(doc, p.value) || anyString(doc, p.says)), -1
}

// says reports whether a JSON string has the text.
func (p *pattern) says(text string) bool {
	return strings.Contains(strings.ToLower(text), string(p.lower))
}
