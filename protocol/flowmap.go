package protocol

import (
	"strconv"
)

// FlowMap builds a YAML map in flow style, on one line. The zero FlowMap is empty and ready to
// use. Keys and bare values are not escaped and must be plain words.
type FlowMap struct{ b []byte }

// key begins an entry.
func (m *FlowMap) key(key string) {
	if len(m.b) > 0 {
		m.b = append(m.b, ", "...)
	}
	m.b = append(append(m.b, key...), ": "...)
}

// Uint adds a whole number.
func (m *FlowMap) Uint(key string, v uint64) {
	m.key(key)
	m.b = strconv.AppendUint(m.b, v, 10)
}

// Int adds a whole number that can be negative.
func (m *FlowMap) Int(key string, v int64) {
	m.key(key)
	m.b = strconv.AppendInt(m.b, v, 10)
}

// Bare adds a word.
func (m *FlowMap) Bare(key, v string) {
	m.key(key)
	m.b = append(m.b, v...)
}

// Quoted adds a string in double quotes; a double quote or backslash in it is escaped.
func (m *FlowMap) Quoted(key, v string) {
	m.key(key)
	m.b = appendQuoted(m.b, v)
}

// Bool adds true or false.
func (m *FlowMap) Bool(key string, v bool) {
	m.key(key)
	m.b = strconv.AppendBool(m.b, v)
}

// Map adds a map.
func (m *FlowMap) Map(key string, of *FlowMap) {
	m.key(key)
	m.b = append(append(append(m.b, '{'), of.b...), '}')
}

// UintList adds a list of whole numbers.
func (m *FlowMap) UintList(key string, all []uint64) {
	m.key(key)
	m.b = append(m.b, '[')
	for i, v := range all {
		if i > 0 {
			m.b = append(m.b, ", "...)
		}
		m.b = strconv.AppendUint(m.b, v, 10)
	}
	m.b = append(m.b, ']')
}

// QuotedList adds a list of strings in double quotes.
func (m *FlowMap) QuotedList(key string, all []string) {
	m.key(key)
	m.b = append(m.b, '[')
	for i, v := range all {
		if i > 0 {
			m.b = append(m.b, ", "...)
		}
		m.b = appendQuoted(m.b, v)
	}
	m.b = append(m.b, ']')
}
