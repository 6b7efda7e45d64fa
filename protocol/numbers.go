package protocol

import (
	"math"

	"redstalk/tube/field"
)

func skipSpaces(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}

// u64 skips spaces (no other white space) and parses decimal digits without a
// sign. ok is false if there are no digits, or if the number does not fit.
func u64(b []byte) (n uint64, rest []byte, ok bool) {
	return field.Digits(skipSpaces(b))
}

// u32 is u64 for numbers up to 2^32-1.
func u32(b []byte) (n uint32, rest []byte, ok bool) {
	wide, rest, ok := u64(b)
	return uint32(wide), rest, ok && wide <= math.MaxUint32
}

// strtoul is C's strtoul in base 10 on a 64-bit machine: white space, a sign,
// digits, then anything: rest. A negative number wraps around. ok is false if there
// are no digits, or if the number without its sign exceeds 2^64-1.
func strtoul(b []byte) (n uint64, rest []byte, ok bool) {
	for len(b) > 0 && (b[0] == ' ' || '\t' <= b[0] && b[0] <= '\r') {
		b = b[1:]
	}
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	n, rest, ok = field.Digits(b)
	if negative {
		n = -n
	}
	return n, rest, ok
}
