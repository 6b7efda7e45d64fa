package embedded

import (
	"bytes"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// readBody reads the body of a job that has one.
func readBody(from pebble.Reader, id uint64) ([]byte, error) {
	body, err := readInline(from, id)
	if err == nil && len(body) == 0 {
		body, err = get(from, idKey(nil, bodyKey, id), func(value []byte) ([]byte, error) { return value, nil })
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body of job %d: %w", id, err)
	}
	return body, nil
}

// readInline reads the body that is behind a job's record; it is empty if there is none.
func readInline(from pebble.Reader, id uint64) ([]byte, error) {
	return get(from, idKey(nil, jobKey, id), func(value []byte) ([]byte, error) {
		_, body, err := decodeRecord(id, value, func([]byte) string { return "" })
		return body, err
	})
}

// get returns a copy of a part of the value of key.
func get(from pebble.Reader, key []byte, part func([]byte) ([]byte, error)) ([]byte, error) {
	value, closer, err := from.Get(key)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	p, err := part(value)
	return bytes.Clone(p), err
}
