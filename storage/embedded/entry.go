package embedded

import "encoding/binary"

// A frame of the log is what one or several calls of the engine have changed. It is a
// sequence of entries. Each begins with its kind in one byte. The id of the job follows as
// a varint, except in an entry about a pause.
const (
	putEntry     byte = 1 // record, body
	changedEntry byte = 2 // record
	deletedEntry byte = 3
	pausedEntry  byte = 4 // length of the name in one byte, name, pause (see encodePause)
)

func appendEntry(to []byte, kind byte, id uint64) []byte {
	return binary.AppendUvarint(append(to, kind), id)
}
