package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A mask is a kind of value that an expectation accepts without naming it.
type mask int

const (
	noMask      mask = iota
	maskAny          // anything
	maskInt          // an integer
	maskRange        // an integer within lo..hi
	maskDecimal      // digits, a point, digits
	maskHex          // lower-case hex digits
)

var masks = map[string]mask{"any": maskAny, "int": maskInt, "decimal": maskDecimal, "hex": maskHex}

// A piece is one part of a text: literal bytes, a variable or a mask.
type piece struct {
	lit    []byte
	name   string // variable, if not empty
	mask   mask
	lo, hi int64
}

// A text is the parsed text of a line: bytes to send, or bytes to
// expect. src is its source, so that the recorder can keep it.
type text struct {
	src    string
	pieces []piece
}

// parseText reads the escapes, repetitions, variables and masks of src.
func parseText(src string) (text, error) {
	t := text{src: src}
	for i := 0; i < len(src); {
		n, p, err := parsePiece(src[i:])
		if err != nil {
			return t, err
		}
		t.add(p)
		i += n
	}
	return t, nil
}

// add appends p, joining neighbouring literals.
func (t *text) add(p piece) {
	if last := len(t.pieces) - 1; p.lit != nil && last >= 0 && t.pieces[last].lit != nil {
		t.pieces[last].lit = append(t.pieces[last].lit, p.lit...)
		return
	}
	t.pieces = append(t.pieces, p)
}

// parsePiece reads the piece at the start of s and returns its length in s.
func parsePiece(s string) (int, piece, error) {
	switch s[0] {
	case '\\':
		n, b, err := parseEscape(s)
		return n, piece{lit: []byte{b}}, err
	case '{':
		return parseBraces(s)
	case '$':
		if n := nameLen(s[1:]); n > 0 {
			return n + 1, piece{name: s[1 : n+1]}, nil
		}
	}
	return 1, piece{lit: []byte{s[0]}}, nil
}

// nameLen is the length of the name at the start of s: a lower-case letter,
// then lower-case letters and digits.
func nameLen(s string) int {
	n := 0
	for n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}

var escapes = map[byte]byte{'r': '\r', 'n': '\n', 't': '\t', '0': 0, 's': ' ', '\\': '\\', '$': '$', '{': '{', '}': '}', '#': '#'}

func parseEscape(s string) (int, byte, error) {
	if len(s) < 2 {
		return 0, 0, errors.New(`lone \ at the end`)
	}
	if s[1] == 'x' && len(s) >= 4 {
		v, err := strconv.ParseUint(s[2:4], 16, 8)
		return 4, byte(v), err
	}
	b, ok := escapes[s[1]]
	if !ok {
		return 0, 0, fmt.Errorf(`unknown escape \%c`, s[1])
	}
	return 2, b, nil
}

// parseBraces reads {mask}, {lo..hi} or {text*count}.
func parseBraces(s string) (int, piece, error) {
	end := 1
	for end < len(s) && s[end] != '}' {
		if s[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s) {
		return 0, piece{}, errors.New("{ without }")
	}
	inner := s[1:end]
	if m, ok := masks[inner]; ok {
		return end + 1, piece{mask: m}, nil
	}
	var lo, hi int64
	if n, _ := fmt.Sscanf(inner, "%d..%d", &lo, &hi); n == 2 {
		return end + 1, piece{mask: maskRange, lo: lo, hi: hi}, nil
	}
	lit, err := parseRepeat(inner)
	return end + 1, piece{lit: lit}, err
}

func parseRepeat(inner string) ([]byte, error) {
	star := strings.LastIndexByte(inner, '*')
	if star < 1 {
		return nil, fmt.Errorf("{%s} is neither mask nor repetition", inner)
	}
	n, err := strconv.Atoi(inner[star+1:])
	if err != nil || n < 0 {
		return nil, fmt.Errorf("{%s}: bad count", inner)
	}
	t, err := parseText(inner[:star])
	if err != nil {
		return nil, err
	}
	if len(t.pieces) != 1 || t.pieces[0].lit == nil {
		return nil, fmt.Errorf("{%s}: only plain text can be repeated", inner)
	}
	return bytes.Repeat(t.pieces[0].lit, n), nil
}

// hasMask reports whether t can only be expected, not sent.
func (t text) hasMask() bool {
	for _, p := range t.pieces {
		if p.mask != noMask {
			return true
		}
	}
	return false
}

// vars are the job ids known by name. The zero value is not usable; max is
// the greatest id an INSERTED has bound. tokens are those whose names begin with t.
type vars struct {
	byName map[string]uint64
	max    uint64
	tokens map[string]string
}

// isToken reports whether a variable is a token and not an id.
func isToken(name string) bool { return name[0] == 't' }

// bytes is what t stands for when it is sent.
func (t text) bytes(v *vars) ([]byte, error) {
	var out []byte
	for _, p := range t.pieces {
		if p.name == "" {
			out = append(out, p.lit...)
			continue
		}
		if token, ok := v.tokens[p.name]; ok {
			out = append(out, token...)
			continue
		}
		id, ok := v.byName[p.name]
		if !ok {
			return nil, fmt.Errorf("variable $%s has no value yet", p.name)
		}
		out = strconv.AppendUint(out, id, 10)
	}
	return out, nil
}

// match reports whether data is what t stands for. Variables without a value are
// put into bind if that is not nil, and match nothing otherwise.
func (t text) match(data []byte, v *vars, bind map[string]uint64) bool {
	return matchPieces(t.pieces, data, v, bind)
}

func matchPieces(ps []piece, data []byte, v *vars, bind map[string]uint64) bool {
	if len(ps) == 0 {
		return len(data) == 0
	}
	p, rest := ps[0], ps[1:]
	if p.mask == maskAny {
		for i := 0; i <= len(data); i++ {
			if matchPieces(rest, data[i:], v, bind) {
				return true
			}
		}
		return false
	}
	n, ok := p.prefix(data, v, bind)
	return ok && matchPieces(rest, data[n:], v, bind)
}

// prefix is the length of what p takes from the start of data.
func (p piece) prefix(data []byte, v *vars, bind map[string]uint64) (int, bool) {
	switch {
	case p.name != "" && isToken(p.name):
		return p.token(data, v)
	case p.name != "":
		return p.variable(data, v, bind)
	case p.mask == maskInt, p.mask == maskRange:
		n := span(data, "-0123456789")
		i, err := strconv.ParseInt(string(data[:n]), 10, 64)
		return n, err == nil && (p.mask == maskInt || p.lo <= i && i <= p.hi)
	case p.mask == maskDecimal:
		n := span(data, "0123456789.")
		return n, bytes.Count(data[:n], []byte(".")) == 1 && data[0] != '.' && data[n-1] != '.'
	case p.mask == maskHex:
		n := span(data, "0123456789abcdef")
		return n, n > 0
	}
	return len(p.lit), bytes.HasPrefix(data, p.lit)
}

// token is the length of a token at the start of data, which is bound if it is not yet.
func (p piece) token(data []byte, v *vars) (int, bool) {
	n := span(data, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-_")
	if want, ok := v.tokens[p.name]; ok {
		return n, string(data[:n]) == want
	}
	if n > 0 {
		v.tokens[p.name] = string(data[:n])
	}
	return n, n > 0
}

func (p piece) variable(data []byte, v *vars, bind map[string]uint64) (int, bool) {
	n := span(data, "0123456789")
	id, err := strconv.ParseUint(string(data[:n]), 10, 64)
	if err != nil || n > 1 && data[0] == '0' {
		return n, false
	}
	if want, ok := v.byName[p.name]; ok {
		return n, id == want
	}
	if bind == nil {
		return n, false
	}
	if other, ok := bind[p.name]; ok {
		return n, id == other
	}
	bind[p.name] = id
	return n, true
}

// span is the length of the run of bytes out of set at the start of data.
func span(data []byte, set string) int {
	n := 0
	for n < len(data) && strings.IndexByte(set, data[n]) >= 0 {
		n++
	}
	return n
}

// quote writes data as a transcript would: the inverse of parseText.
func quote(data []byte) string {
	var b strings.Builder
	for i := 0; i < len(data); {
		c, run := data[i], 1
		for i+run < len(data) && data[i+run] == c {
			run++
		}
		if run >= 30 {
			fmt.Fprintf(&b, "{%s*%d}", quoteByte(c, data[i+run:], i == 0), run)
			i += run
			continue
		}
		b.WriteString(quoteByte(c, data[i+1:], i == 0 || i == len(data)-1))
		i++
	}
	return b.String()
}

// quoteByte writes c; rest is what comes after it, edge reports that it is
// where an editor might strip a space.
func quoteByte(c byte, rest []byte, edge bool) string {
	switch {
	case c == '\r':
		return `\r`
	case c == '\n':
		return `\n`
	case c == '\t':
		return `\t`
	case c == 0:
		return `\0`
	case c == '\\' || c == '{':
		return `\` + string(c)
	case c == ' ' && edge:
		return `\s`
	case c == '$' && len(rest) > 0 && rest[0] >= 'a' && rest[0] <= 'z':
		return `\$`
	case c < ' ' || c >= 0x7f:
		return fmt.Sprintf(`\x%02x`, c)
	}
	return string(rune(c))
}
