package redis

import (
	"fmt"
	"strings"
)

const (
	// maxID is the largest possible id: clients and Lua read ids as doubles.
	maxID = 1<<53 - 1

	// idLen is the length of an id in keys.
	idLen = 16
)

// keyPrefix returns the beginning of all keys of a partition. The number is the hash tag.
func keyPrefix(namespace string, number int) string {
	return fmt.Sprintf("%s:{%d}:", namespace, number)
}

// appendID appends the end of the key of a job.
func appendID(b []byte, id uint64) []byte {
	if id > maxID {
		return append(b, '-') // no job has that id
	}
	var digits [idLen]byte
	for i := range digits {
		digits[idLen-1-i] = byte('0' + id%10)
		id /= 10
	}
	return append(b, digits[:]...)
}

// isID returns whether key is the end of the key of a job.
func isID(key string) bool {
	return len(key) == idLen && strings.Trim(key, "0123456789") == ""
}
