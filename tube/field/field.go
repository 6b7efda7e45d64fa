package field

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Commands is a set of the commands that have tags.
type Commands uint16

const (
	InPut Commands = 1 << iota
	InPolicy
	InRelease
	InBury
	InGroup

	// InCopy are further tags of a put, for the copy of a job of another server.
	InCopy

	InSchedule
	InPreview
	InTouch
)

// Field is a row about a field of T. A field that is stored as two has a row for each; the second has no Help, and is
// only stored.
type Field[T any] struct {
	Name       string   // in the protocol, with hyphens; JSON has underscores
	In         Commands // the commands that know it
	Value      string   // the word that stands for its value in texts
	Help       string   // of one line, with Value in backquotes
	Capability string   // the word that announces it in the reply to capabilities

	Kind     Kind
	Min, Max uint64   // of a Number, and of a Duration in ms
	Words    []string // of a Word, by their numbers; 0 is not set

	// Of a Number, Duration or Word: its number, in ms or of its word, and whether it is set. set sets it.
	Get func(*T) (n uint64, isSet bool)
	Set func(*T, uint64)

	// Of a Text: where it is. Valid reports whether it can be the value. Quoted says that it is quoted on pages.
	Text   func(*T) *string
	Valid  func([]byte) bool
	Quoted bool

	// Other forms of the value, if they are not those of its kind. Nil: it is.
	parse  func(*T, []byte) bool // in the protocol
	format func(*T) string
	load   func(*T, string) bool // in a stored text
	store  func(*T) string

	Stored Stored
}

// Kind is what kind of value a field has.
type Kind uint8

const (
	Number Kind = iota
	Duration
	Word
	Text
	Retry // Rules.Retry with Rules.Doubled
	Rate  // one or several rates
)

// Stored is the place of a field in the stored forms. None of it can ever change.
type Stored struct {
	Name string // in the text of a policy in Redis, if it is not Field.Name

	Tag  byte   // in the blocks of the embedded engine; 0: it is part of a composite field there
	Plus uint64 // is added to the number there

	Flag  uint32 // announces it in the metadata of a job in Redis; 0: jobs do not have it
	Width int    // of its number there, in bytes
}

// JSON returns the name of the field in JSON and in queries.
func (f *Field[T]) JSON() string { return strings.ReplaceAll(f.Name, "-", "_") }

// IsSet reports whether v has a value in the field.
func (f *Field[T]) IsSet(v *T) bool { return f.Format(v) != "" }

// Parse sets the field to a value in the form of the protocol. If it is not valid, ok is false, and nothing is set.
func (f *Field[T]) Parse(v *T, text []byte) (ok bool) {
	var n uint64
	switch {
	case f.parse != nil:
		return f.parse(v, text)
	case f.Kind == Text:
		if ok = f.Valid(text); ok {
			*f.Text(v) = string(text)
		}
		return ok
	case f.Kind == Word:
		i := slices.Index(f.Words, string(text))
		n, ok = uint64(max(i, 0)), i > 0
	case f.Kind == Duration:
		var d time.Duration
		d, ok = ParseDuration(text)
		n = inMS(d)
	default:
		n, ok = number(text)
	}
	if ok = ok && f.Min <= n && n <= f.Max; ok {
		f.Set(v, n)
	}
	return ok
}

// Format returns the value in the form of the protocol; "" if it is not set.
func (f *Field[T]) Format(v *T) string {
	if f.format != nil {
		return f.format(v)
	}
	if f.Kind == Text {
		return *f.Text(v)
	}
	n, isSet := f.Get(v)
	switch {
	case !isSet:
		return ""
	case f.Kind == Word:
		return f.Words[n]
	case f.Kind == Duration:
		return Durations(ms(n))
	}
	return strconv.FormatUint(n, 10)
}

// StoredName returns the name of the field in a stored text.
func (f *Field[T]) StoredName() string {
	if f.Stored.Name != "" {
		return f.Stored.Name
	}
	return f.Name
}

// Store returns the value in the form of a stored text, without spaces; "" if it is not set. Numbers, times in ms and
// the numbers of words are decimal.
func (f *Field[T]) Store(v *T) string {
	if f.store != nil {
		return f.store(v)
	}
	if f.Kind == Text {
		return *f.Text(v)
	}
	if n, isSet := f.Get(v); isSet {
		return strconv.FormatUint(n, 10)
	}
	return ""
}

// Load is the reverse of Store. It reports whether the text can be read.
func (f *Field[T]) Load(v *T, text string) bool {
	if f.load != nil {
		return f.load(v, text)
	}
	if f.Kind == Text {
		*f.Text(v) = text
		return true
	}
	n, ok := number([]byte(text))
	if ok {
		f.Set(v, n)
	}
	return ok
}

// StoredAsText reports whether Store returns a text, and not a number or, for Retry, a list of numbers.
func (f *Field[T]) StoredAsText() bool { return f.Kind == Text || f.Get == nil && f.Kind == Rate }

// Named returns the row of that name; it panics if there is none.
func Named[T any](rows []Field[T], name string) *Field[T] {
	return &rows[slices.IndexFunc(rows, func(f Field[T]) bool { return f.Name == name })]
}
