package protocol

import (
	"bytes"
	"redstalk/tube/field"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file parses values in quotes, and the tags with texts for people and workers.

const (
	// MaxMeta is how many tags meta a put can have, MaxMetaBytes the largest size of their names
	// and values together, and MaxMetaName that of one name.
	MaxMeta      = 16
	MaxMetaBytes = 1 << 10
	MaxMetaName  = 128

	// MaxReason is the longest reason, in bytes.
	MaxReason = 512

	// MaxProgress is the longest progress, in bytes.
	MaxProgress = 256

	metaTag = "meta"
)

// Meta is the tag meta: a name and a value for the workers of a job.
type Meta struct{ Name, Value string }

// unquote returns a value without its quotes and escapes, and whether it is well-formed. The
// value of meta begins behind its name.
func (tag *Tag) unquote(value []byte) ([]byte, bool) {
	head := 0
	if tag.Name == metaTag {
		head = bytes.IndexByte(value, '=') + 1
	}
	if head == len(value) || value[head] != '"' || head == 0 && tag.Name == metaTag {
		return value, field.Printable(value, MaxTagLine)
	}
	plain, ok := unquote(value[head:])
	return append(value[:head:head], plain...), ok
}

// unquote returns what is between double quotes, and whether that is UTF-8 in which control
// characters, quotes and backslashes occur only as escapes.
func unquote(quoted []byte) (plain []byte, ok bool) {
	text := quoted[1:]
	for len(text) > 0 && text[0] != '"' {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && n == 1, unicode.IsControl(r):
			return nil, false
		case r == '\\':
			c, known := unescaped(text[1:])
			if !known {
				return nil, false
			}
			plain, n = append(plain, c), 2
		default:
			plain = append(plain, text[:n]...)
		}
		text = text[n:]
	}
	return plain, len(text) == 1
}

// unescaped returns which character is meant by what follows a backslash.
func unescaped(text []byte) (c byte, known bool) {
	if len(text) == 0 {
		return 0, false
	}
	i := strings.IndexByte("\"\\nt", text[0])
	if i < 0 {
		return 0, false
	}
	return "\"\\\n\t"[i], true
}

// Quote returns a text in quotes, as the value of a tag. It must be UTF-8, and have no control
// characters but tabs and newlines.
func Quote(text string) string { return string(appendQuoted(nil, text)) }

func (t *Tags) readMeta(value []byte) bool {
	name, text, found := bytes.Cut(value, []byte("="))
	t.Meta = append(t.Meta, Meta{string(name), string(text)})
	return found && ValidMeta(t.Meta)
}

// ValidMeta reports whether a put can have these: at most MaxMeta, with at most MaxMetaBytes, whose
// names have 1 to MaxMetaName letters, digits, - and _, and differ in more than case, and whose
// values are UTF-8 without control characters other than tabs and newlines.
func ValidMeta(all []Meta) bool {
	size := 0
	for i, m := range all {
		size += len(m.Name) + len(m.Value)
		if !metaName.MatchString(m.Name) || len(m.Name) > MaxMetaName || !validText(m.Value) {
			return false
		}
		for _, other := range all[:i] {
			if strings.EqualFold(other.Name, m.Name) {
				return false
			}
		}
	}
	return len(all) <= MaxMeta && size <= MaxMetaBytes
}

var metaName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func validText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

func (t *Tags) readTrace(value []byte) bool {
	t.Trace = string(value)
	return ValidTrace(t.Trace)
}

// ValidTrace reports whether a text is a traceparent of 55 characters, as W3C Trace Context defines
// it.
func ValidTrace(s string) bool {
	return traceForm.MatchString(s) && s[:2] != "ff" && strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}

var traceForm = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

func (t *Tags) readReason(value []byte) bool {
	t.Reason = string(value)
	return ValidReason(t.Reason)
}

// ValidReason reports whether a text can be a reason: it has 1 to MaxReason bytes of UTF-8, and no
// control characters but tabs and newlines.
func ValidReason(s string) bool { return s != "" && len(s) <= MaxReason && validText(s) }

// CleanReason makes a reason of any text: what is invalid is replaced by spaces, and it is cut at
// MaxReason bytes. It is "" if nothing is left.
func CleanReason(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimSpace(text)
	if len(text) > MaxReason {
		end := MaxReason
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = strings.TrimSpace(text[:end])
	}
	return text
}

func (t *Tags) readProgress(value []byte) bool {
	text := string(value)
	t.Progress = &text
	return ValidProgress(text)
}

// ValidProgress reports whether a text can be a progress: it has at most MaxProgress bytes of UTF-8, and no control characters but tabs
// and newlines.
func ValidProgress(s string) bool { return len(s) <= MaxProgress && validText(s) }

func (t *Tags) readFailure(value []byte) bool {
	t.NoFailure = true
	return string(value) == "no"
}

// forms says what the values of tags look like, by their Kind.
var forms = map[string]string{
	"DURATION":    "a whole number with a unit, such as 250ms, 90s, 10m, 36h or 30d",
	"DURATIONS":   "up to 32 durations with commas, such as 10s,1m,10m; or exp(10s,1h,25): the first, the longest, how many",
	"PERCENT":     "a whole number from 0 to 100",
	"ACTION":      "delete or park",
	"TIME":        "milliseconds since 1970",
	"KEY":         "1 to 128 printable ASCII characters without spaces",
	"WHAT":        "keep, replace or fail",
	"N":           "a whole number within its limits",
	"TUBE":        "the name of a tube",
	"URL":         "a URL that begins with http:// or https://",
	"RATES":       "numbers per s, m or h, such as 100/m,1000/h",
	"ORDER":       "fair or strict",
	"GROUP":       "1 to 128 bytes, in double quotes if it has spaces",
	"RATE":        "a number of calls per s, m or h, such as 100/s",
	"NAME=VALUE":  `up to 16 different names of letters, digits, - and _, each with a value such as name="a text", 1,024 bytes together`,
	"TRACEPARENT": "the 55 characters of a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	"TEXT":        `1 to 512 bytes in double quotes, with the escapes \" \\ \n \t`,
	"STATUS":      `up to 256 bytes in double quotes, with the escapes \" \\ \n \t`,
	"no":          "no",
	"EXPRESSION":  `a cron expression in double quotes, such as "30 2 * * 1-5"`,
	"ZONE":        "a name of the tz database, such as Europe/Berlin",
	"OVERLAP":     "skip, replace, allow or buffer-one",
	"SPREAD":      "a duration with a unit, such as 5m, or a whole number from 0 to 100",
	"BATCH":       "1 to 100 printable ASCII characters without spaces",
	"NAME":        "the name of a schedule",
}

// WrongTags says what is wrong with the tags of a command, which are separated by spaces; "" if
// nothing is.
func WrongTags(tags string, in field.Commands) string {
	wrong, ok := new(Tags).read([]byte(" "+tags), in)
	if !ok {
		return "there is something other than its tags"
	}
	return wrong
}

// expected says what the value of a tag must be.
func (tag *Tag) expected() string {
	form := forms[tag.Kind]
	if form == "" {
		form = tag.Kind
	}
	return "the tag " + tag.Name + " needs " + form
}
