package wal

import (
	"encoding/binary"
	"hash/crc32"
)

const magic = "redstalk log 01\n"

// header is the first bytes of a segment.
type header struct {
	number  uint64
	used    bool  // false: the segment was prepared, and has no frame
	prevEnd int64 // where the frames of the segment before it end
	durable bool  // that segment, and all before it, were on the disk when this one began
	closed  int64 // where the frames end, if the log was closed in this segment; otherwise 0
	size    int64 // at least that many bytes of the file were on the disk
}

const (
	usedFlag    byte = 1
	durableFlag byte = 2

	sizeOffset = 48
	headerBody = segmentHeader - 4
)

// encode returns the header as it is on the disk: magic, number, prevEnd, closed, flags in one
// byte, 7 zeros, size, zeros, and a checksum of all that.
func (h *header) encode() []byte {
	b := make([]byte, 0, segmentHeader)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, h.number)
	b = binary.BigEndian.AppendUint64(b, uint64(h.prevEnd))
	b = binary.BigEndian.AppendUint64(b, uint64(h.closed))
	var flags byte
	if h.used {
		flags |= usedFlag
	}
	if h.durable {
		flags |= durableFlag
	}
	b = append(b, flags)[:headerBody]
	binary.BigEndian.PutUint64(b[sizeOffset:], uint64(h.size))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeHeader reads the header of segment number; ok is false if it has none.
func decodeHeader(data []byte, number uint64) (h header, ok bool) {
	if len(data) < segmentHeader || string(data[:len(magic)]) != magic {
		return h, false
	}
	if crc32.Checksum(data[:headerBody], castagnoli) != binary.BigEndian.Uint32(data[headerBody:]) {
		return h, false
	}
	h.number = binary.BigEndian.Uint64(data[len(magic):])
	h.prevEnd = int64(binary.BigEndian.Uint64(data[len(magic)+8:]))
	h.closed = int64(binary.BigEndian.Uint64(data[len(magic)+16:]))
	h.size = int64(binary.BigEndian.Uint64(data[sizeOffset:]))
	flags := data[len(magic)+24]
	h.used, h.durable = flags&usedFlag != 0, flags&durableFlag != 0
	return h, h.number == number
}
