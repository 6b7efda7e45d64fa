package protocol

import "strconv"

// Page builds the YAML of the stats and list commands, in beanstalkd's own
// layout: a line of three dashes, then a line for each key or item. Clients
// split these pages by lines, without a YAML parser, so the bytes matter: one
// space after the colon, no empty line at the end, and no quotes except those of
// Quoted.
//
// The zero Page is empty and ready to use. Keys and bare values are not escaped and
// must not contain a line end.
type Page struct{ b []byte }

const pageHead = "---\n"

// Reset empties the page. The result of earlier calls of Bytes is no longer valid.
func (p *Page) Reset() {
	if cap(p.b) > keepBuffer {
		p.b = nil
	}
	p.b = p.b[:0]
}

// Bytes returns the page so far. It is valid until the page is changed.
func (p *Page) Bytes() []byte {
	p.head()
	return p.b
}

func (p *Page) head() {
	if len(p.b) == 0 {
		p.b = append(p.b, pageHead...)
	}
}

// key begins a line "key: ".
func (p *Page) key(key string) {
	p.head()
	p.b = append(p.b, key...)
	p.b = append(p.b, ':', ' ')
}

// Uint adds a whole number.
func (p *Page) Uint(key string, v uint64) {
	p.key(key)
	p.b = strconv.AppendUint(p.b, v, 10)
	p.b = append(p.b, '\n')
}

// Int adds a whole number that can be negative.
func (p *Page) Int(key string, v int64) {
	p.key(key)
	p.b = strconv.AppendInt(p.b, v, 10)
	p.b = append(p.b, '\n')
}

// Bool adds true or false.
func (p *Page) Bool(key string, v bool) {
	p.key(key)
	p.b = strconv.AppendBool(p.b, v)
	p.b = append(p.b, '\n')
}

// Bare adds a string without quotes.
func (p *Page) Bare(key, v string) {
	p.key(key)
	p.b = append(p.b, v...)
	p.b = append(p.b, '\n')
}

// Word adds a string without quotes; an empty one is written as "", because some clients expect
// something after every colon.
func (p *Page) Word(key, v string) {
	if v == "" {
		v = `""`
	}
	p.Bare(key, v)
}

// Quoted adds a string in double quotes; double quotes, backslashes, newlines and tabs in it are
// escaped with a backslash.
func (p *Page) Quoted(key, v string) {
	p.key(key)
	p.b = append(appendQuoted(p.b, v), '\n')
}

// appendQuoted appends a string in the form of Quoted.
func appendQuoted(to []byte, v string) []byte {
	to = append(to, '"')
	for i := range len(v) {
		switch v[i] {
		case '"', '\\':
			to = append(to, '\\', v[i])
		case '\n':
			to = append(to, `\n`...)
		case '\t':
			to = append(to, `\t`...)
		default:
			to = append(to, v[i])
		}
	}
	return append(to, '"')
}

// Seconds adds a time of sec seconds and usec microseconds (0 to 999,999) with
// exactly six decimals.
func (p *Page) Seconds(key string, sec, usec int64) {
	p.key(key)
	p.b = strconv.AppendInt(p.b, sec, 10)
	p.b = append(p.b, '.')
	for unit := int64(100_000); unit > 0; unit /= 10 {
		p.b = append(p.b, '0'+byte(usec/unit%10))
	}
	p.b = append(p.b, '\n')
}

// Item adds a line "- name" to a list.
func (p *Page) Item(name string) {
	p.head()
	p.b = append(p.b, '-', ' ')
	p.b = append(p.b, name...)
	p.b = append(p.b, '\n')
}

// Map adds a map in flow style, on one line.
func (p *Page) Map(key string, m *FlowMap) {
	p.key(key)
	p.b = append(p.b, '{')
	p.b = append(p.b, m.b...)
	p.b = append(p.b, "}\n"...)
}

// List begins a list of n items under a key; add the items with Flow.
func (p *Page) List(key string, n int) {
	if n == 0 {
		p.Bare(key, "[]")
		return
	}
	p.head()
	p.b = append(append(p.b, key...), ":\n"...)
}

// Flow adds a line "- {key: value, …}" to a list.
func (p *Page) Flow(m *FlowMap) {
	p.head()
	p.b = append(p.b, "- {"...)
	p.b = append(p.b, m.b...)
	p.b = append(p.b, "}\n"...)
}
