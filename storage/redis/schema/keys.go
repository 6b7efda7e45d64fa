package schema

import (
	"fmt"
	"strings"
)

const (
	// LayoutVersion is the version of the keys in lua/keys.md, and of the records. A namespace
	// with an older one, from OldestLayout on, is upgraded at the start, see upgrade.go; one with
	// another version is not touched.
	LayoutVersion = 3
	OldestLayout  = 1

	// maxID is the largest possible id: clients and Lua read ids as doubles.
	maxID = 1<<53 - 1

	// RangeFrom is how many consecutive puts with one priority and TTR become a range, see
	// lua/keys.md.
	RangeFrom = 4

	// HeldScore is the score of held after-jobs in delayed:TUBE, beyond all times. Redis writes numbers below 1<<52
	// without an exponent.
	HeldScore = 4e15

	// IDLen is the length of an id in keys.
	IDLen = 16
)

// KeyPrefix returns the beginning of all keys of a partition. The number is the hash tag.
func KeyPrefix(namespace string, number int) string {
	return fmt.Sprintf("%s:{%d}:", namespace, number)
}

// AppendID appends the end of the key of a job.
func AppendID(b []byte, id uint64) []byte {
	if id > maxID {
		return append(b, '-') // no job has that id
	}
	var digits [IDLen]byte
	for i := range digits {
		digits[IDLen-1-i] = byte('0' + id%10)
		id /= 10
	}
	return append(b, digits[:]...)
}

// IsID returns whether key is the end of the key of a job.
func IsID(key string) bool {
	return len(key) == IDLen && strings.Trim(key, "0123456789") == ""
}

// PartitionOf returns the partition of a tube. The hash is FNV-1a; another one would not find
// existing jobs.
func PartitionOf(tube string, of int) int {
	if of == 1 {
		return 0
	}
	hash := uint32(2166136261)
	for i := range len(tube) {
		hash = (hash ^ uint32(tube[i])) * 16777619
	}
	return int(hash % uint32(of))
}
