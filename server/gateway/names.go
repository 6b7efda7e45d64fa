package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"redstalk/protocol"
)

// naming maps any text to a name of limited length, from a small set of characters.
type naming struct {
	mark   byte // the prefix of an escaped name; also the escape character
	hashed byte // follows mark if the name is a hash
	maxLen int  // bytes

	legal func(string) bool // reports whether a text can itself be a name, if it is short enough
}

var (
	tubeNames = naming{mark: '$', hashed: '(', maxLen: protocol.MaxName, legal: func(s string) bool { return protocol.ValidName([]byte(s)) }}
	keyNames  = naming{mark: '%', hashed: '~', maxLen: protocol.MaxKey, legal: printable}
)

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

const upperHex = "0123456789ABCDEF"

// encode returns the name of a text, and whether it is only a hash of it.
func (n *naming) encode(text string) (name string, isHash bool) {
	if len(text) <= n.maxLen && text != "" && text[0] != n.mark && n.legal(text) {
		return text, false
	}
	b := []byte{n.mark}
	for i := 0; i < len(text) && len(b) <= n.maxLen; i++ {
		switch c := text[i]; {
		case c != n.mark && c != n.hashed && n.legal("x"+string(rune(c))) && c < 0x80:
			b = append(b, c)
		default:
			b = append(b, n.mark, upperHex[c>>4], upperHex[c&15])
		}
	}
	if len(b) <= n.maxLen {
		return string(b), false
	}
	sum := sha256.Sum256([]byte(text))
	return string(n.mark) + string(n.hashed) + base64.RawURLEncoding.EncodeToString(sum[:]), true
}

// decode is the inverse of encode. It returns false if name is a hash. A name that encode
// never returns is decoded as itself.
func (n *naming) decode(name string) (text string, known bool) {
	escaped, ok := strings.CutPrefix(name, string(n.mark))
	if !ok {
		return name, true
	}
	if strings.HasPrefix(escaped, string(n.hashed)) {
		return "", false
	}
	b := make([]byte, 0, len(escaped))
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != n.mark {
			b = append(b, escaped[i])
			continue
		}
		if i+2 >= len(escaped) {
			return name, true
		}
		b = append(b, byte(strings.IndexByte(upperHex, escaped[i+1])<<4|strings.IndexByte(upperHex, escaped[i+2])))
		i += 2
	}
	if again, _ := n.encode(string(b)); again != name {
		return name, true
	}
	return string(b), true
}

// Tube returns the tube of a topic.
func Tube(topic string) string {
	name, _ := tubeNames.encode(topic)
	return name
}

// Key returns the key of an id.
func Key(id string) string {
	name, _ := keyNames.encode(id)
	return name
}

// packedNames are the topic and the id of a job whose tube or key is only a hash. They
// precede the body, as a line of JSON.
type packedNames struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
}

// Pack returns the tube, the key and the body of a job with a topic, an id and a body. An
// empty id gives no key. Topic and id must be valid UTF-8.
func Pack(topic, id string, body []byte) (tube, key string, packed []byte) {
	tube, tubeHashed := tubeNames.encode(topic)
	keyHashed := false
	if id != "" {
		key, keyHashed = keyNames.encode(id)
	}
	if !tubeHashed && !keyHashed {
		return tube, key, body
	}
	line, _ := json.Marshal(packedNames{topic, id}) // strings never fail
	return tube, key, append(append(line, '\n'), body...)
}

// Envelope returns how many bytes of a packed body do not count towards the largest body of
// a job: those of topic and id, unless they are very long.
func Envelope(packed []byte, own int) int { return min(len(packed)-own, bodyOverhead) }

// Unpack is the inverse of Pack. A job that another listener has put into such a tube, or
// with such a key, has the tube's name as its topic and the key as its id.
func Unpack(tube, key string, packed []byte) (topic, id string, body []byte) {
	topic, topicKnown := tubeNames.decode(tube)
	id, idKnown := "", true
	if key != "" {
		id, idKnown = keyNames.decode(key)
	}
	if topicKnown && idKnown {
		return topic, id, packed
	}
	line, body, found := bytes.Cut(packed, []byte("\n"))
	var t packedNames
	if found && json.Unmarshal(line, &t) == nil {
		if gotTube, gotKey, _ := Pack(t.Topic, t.ID, nil); gotTube == tube && gotKey == key {
			return t.Topic, t.ID, body
		}
	}
	if !topicKnown {
		topic = tube
	}
	if !idKnown {
		id = key
	}
	return topic, id, packed
}
