package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
)

// body is the body of a put: a first line that identifies it, and random bytes
// from the seed.
func (l *Ledger) body(e *entry) []byte {
	body := l.head(e.putKey)
	head := len(body)
	body = append(body, make([]byte, e.size)...)
	var seed [32]byte
	for i, n := range []uint64{l.config.Seed, uint64(e.producer), uint64(e.seq)} {
		binary.LittleEndian.PutUint64(seed[8*i:], n)
	}
	rand.NewChaCha8(seed).Read(body[head:])
	return body
}

// head is the first line of a body.
func (l *Ledger) head(key putKey) []byte {
	return fmt.Appendf(nil, "%s %d %d\r\n", l.config.Name, key.producer, key.seq)
}

// headSize is the length of the first line of a producer's next body.
func (l *Ledger) headSize(producer int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.head(putKey{producer, l.next[producer]}))
}

var errBody = errors.New("the body has no first line of this ledger")

// parse returns the put that a body belongs to.
func (l *Ledger) parse(body []byte) (putKey, error) {
	var key putKey
	line, _, found := bytes.Cut(body, []byte("\r\n"))
	name, numbers, _ := bytes.Cut(line, []byte(" "))
	if !found || string(name) != l.config.Name {
		return key, errBody
	}
	_, err := fmt.Sscanf(string(numbers), "%d %d", &key.producer, &key.seq)
	return key, err
}
