package sight

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"redstalk/tube"
)

// Redacted is what is shown instead of a hidden value. In JSON it is a string.
const Redacted = "[redacted]"

// Redaction hides values at some places of JSON texts. A nil Redaction hides nothing.
type Redaction struct{ root node }

// node is a place in a document that is hidden, or that contains some.
type node struct {
	hidden  bool
	members map[string]*node // by a name, or by the index of an element
	each    *node            // of all members and elements; nil: none
}

// ParseRedaction parses JSON pointers (RFC 6901) that are separated by commas. In contrast to RFC 6901, * stands for each member of an object or
// element of an array, and ~2 for a comma.
func ParseRedaction(pointers string) (*Redaction, error) {
	r := new(Redaction)
	for pointer := range strings.SplitSeq(pointers, ",") {
		tokens := strings.Split(strings.TrimSpace(pointer), "/")
		if len(tokens) < 2 || tokens[0] != "" {
			return nil, fmt.Errorf("%q is not a JSON pointer such as /card/number", pointer)
		}
		at := &r.root
		for _, token := range tokens[1:] {
			name, err := unescape(token)
			if err != nil {
				return nil, fmt.Errorf("%q is not a JSON pointer: %w", pointer, err)
			}
			at = at.add(name)
		}
		at.hidden = true
	}
	return r, nil
}

// unescape returns the name that a token of a pointer stands for.
func unescape(token string) (string, error) {
	var name strings.Builder
	for i := 0; i < len(token); i++ {
		if token[i] != '~' {
			name.WriteByte(token[i])
			continue
		}
		if i++; i == len(token) || token[i] < '0' || token[i] > '2' {
			return "", errors.New("after ~ there must be 0, 1 or 2")
		}
		name.WriteByte("~/,"[token[i]-'0'])
	}
	return name.String(), nil
}

func (n *node) add(name string) *node {
	if name == "*" {
		if n.each == nil {
			n.each = new(node)
		}
		return n.each
	}
	if n.members == nil {
		n.members = make(map[string]*node)
	}
	if n.members[name] == nil {
		n.members[name] = new(node)
	}
	return n.members[name]
}

// within returns the places in a member or element of what is at the given places.
func within(places []*node, name string) (inside []*node) {
	for _, n := range places {
		if next := n.members[name]; next != nil {
			inside = append(inside, next)
		}
		if n.each != nil {
			inside = append(inside, n.each)
		}
	}
	return inside
}

func hides(places []*node) bool {
	for _, n := range places {
		if n.hidden {
			return true
		}
	}
	return false
}

// JSON returns a text with Redacted instead of the hidden values. All else stays byte for byte. The text can be a sequence of values. One that begins
// like an object or array, but is not valid, is hidden as a whole: who knows what a client makes of it. Any other text is returned as it is.
func (r *Redaction) JSON(text []byte) []byte {
	if r == nil {
		return text
	}
	start := trimLead(text)
	if !hasStructure(start) {
		return text
	}
	c := cutter{text: start, decoder: jsontext.NewDecoder(bytes.NewBuffer(start), lenient...)}
	for c.decoder.PeekKind() != 0 {
		if c.cut([]*node{&r.root}) != nil {
			return []byte(Redacted)
		}
	}
	if len(bytes.TrimLeft(start[c.decoder.InputOffset():], space)) > 0 { // it goes on with something else
		return []byte(Redacted)
	}
	if c.shown == nil {
		return text
	}
	whole := append(make([]byte, 0, len(c.shown)+len(text)), text[:len(text)-len(start)]...)
	return append(append(whole, c.shown...), start[c.from:]...)
}

// trimLead returns a text without what some readers skip before JSON: byte order marks, also of UTF-16, control characters and spaces.
func trimLead(text []byte) []byte {
	for _, utf16Mark := range []string{"\xFF\xFE", "\xFE\xFF"} {
		text = bytes.TrimPrefix(text, []byte(utf16Mark))
	}
	return bytes.TrimLeftFunc(text, func(r rune) bool { return r <= ' ' || r == '\uFEFF' || unicode.IsSpace(r) })
}

// hasStructure reports whether a text begins like an object or array, perhaps after JSON values of other kinds.
func hasStructure(text []byte) bool {
	rest, decoder := text, jsontext.NewDecoder(bytes.NewBuffer(text), lenient...)
	for !beginning.Match(rest) {
		if decoder.SkipValue() != nil {
			return false
		}
		rest = bytes.TrimLeft(text[decoder.InputOffset():], space)
	}
	return true
}

// beginning is how objects and arrays begin, but not a message such as [Errno 111]. Some writers of JSON write NaN, and some of no
// JSON ['x', None].
var beginning = regexp.MustCompile(`^(\{|\[\s*([]{["'0-9+./,-]|(true|false|null|NaN|Infinity|None|True|False|undefined)\b))`)

const space = " \t\r\n"

// lenient makes a decoder accept what other readers of JSON accept, too.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// cutter copies a text without its hidden values.
type cutter struct {
	text    []byte
	decoder *jsontext.Decoder
	shown   []byte // what is shown of text[:from]; nil if nothing was hidden yet
	from    int
}

// cut reads the next value, which is at the given places.
func (c *cutter) cut(places []*node) error {
	kind := c.decoder.PeekKind()
	switch {
	case len(places) == 0:
		return c.decoder.SkipValue()
	case hides(places):
		value, err := c.decoder.ReadValue()
		if err == nil {
			end := int(c.decoder.InputOffset())
			c.shown = append(append(c.shown, c.text[c.from:end-len(value)]...), `"`+Redacted+`"`...)
			c.from = end
		}
		return err
	case kind == '{':
		return c.cutInside('}', func(int) error {
			name, err := c.decoder.ReadToken()
			if err != nil {
				return err
			}
			return c.cut(within(places, name.String()))
		})
	case kind == '[':
		return c.cutInside(']', func(i int) error { return c.cut(within(places, strconv.Itoa(i))) })
	}
	return c.decoder.SkipValue()
}

// cutInside reads an object or array, and calls one for each of its members or elements.
func (c *cutter) cutInside(end jsontext.Kind, one func(i int) error) error {
	if _, err := c.decoder.ReadToken(); err != nil {
		return err
	}
	for i := 0; c.decoder.PeekKind() != end; i++ {
		if err := one(i); err != nil {
			return err
		}
	}
	_, err := c.decoder.ReadToken()
	return err
}

// text is JSON for a text.
func (r *Redaction) text(text string) string {
	if r == nil || text == "" {
		return text
	}
	return string(r.JSON([]byte(text)))
}

// meta returns what is shown of the meta of a job, which counts as an object whose members have texts.
func (r *Redaction) meta(all []tube.Meta) []tube.Meta {
	if r == nil || len(all) == 0 {
		return all
	}
	shown := make([]tube.Meta, len(all))
	for i, m := range all {
		if shown[i] = m; hides(within([]*node{&r.root}, m.Name)) {
			shown[i].Value = Redacted
		} else {
			shown[i].Value = r.text(m.Value)
		}
	}
	return shown
}
