package embedded

import "encoding/binary"

// A frame of the log contains what one or several calls of the engine have changed. It is a
// sequence of entries. Each begins with its kind in one byte. In an entry about a job, its id
// follows as a varint; in one about a tube, the length of its name in one byte, and the name.
const (
	putEntry       byte = 1 // record, body
	changedEntry   byte = 2 // record
	deletedEntry   byte = 3
	pausedEntry    byte = 4 // pause (see tables.AppendPause)
	tombstoneEntry byte = 5 // length of the key in one byte, key, tombstone (see tables.AppendTombstone)
	policyEntry    byte = 6 // 1 and the policy (see tables.AppendPolicy), or 0: the tube no longer has one
	importEntry    byte = 7 // like an entry about a tube, with the source in place of its name; an import mark, and the last id in 8 bytes
)

func appendEntry(to []byte, kind byte, id uint64) []byte {
	return binary.AppendUvarint(append(to, kind), id)
}

func appendTubeEntry(to []byte, kind byte, tube string) []byte {
	return append(append(to, kind, byte(len(tube))), tube...)
}
