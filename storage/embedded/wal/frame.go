package wal

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// HeaderSize is how many bytes a frame given to Append must begin with,
	// for the log's own use.
	HeaderSize = 16

	segmentHeader = 64
	align         = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// place is where a frame is.
type place struct {
	segment uint64
	offset  int64
}

// seal fills the header of a frame and pads it.
func seal(frame []byte, at place, synced int64) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-HeaderSize))
	binary.BigEndian.PutUint64(frame[8:], uint64(synced))
	binary.BigEndian.PutUint32(frame[4:], checksum(frame, at))
	for len(frame)%align != 0 {
		frame = append(frame, 0)
	}
	return frame
}

// checksum is that of an unpadded frame. It is never 0, so that a run of zeros
// is no frame.
func checksum(frame []byte, at place) uint32 {
	var where [16]byte
	binary.BigEndian.PutUint64(where[:], at.segment)
	binary.BigEndian.PutUint64(where[8:], uint64(at.offset))
	sum := crc32.Update(0, castagnoli, where[:])
	sum = crc32.Update(sum, castagnoli, frame[:4])
	sum = crc32.Update(sum, castagnoli, frame[8:])
	return max(sum, 1)
}

// frameAt reads the frame at an offset of a segment's data; ok is false if
// there is none. next is where the following one begins.
func frameAt(data []byte, at place) (payload []byte, synced, next int64, ok bool) {
	rest := data[min(at.offset, int64(len(data))):]
	if len(rest) < HeaderSize {
		return nil, 0, 0, false
	}
	size, sum := int64(binary.BigEndian.Uint32(rest)), binary.BigEndian.Uint32(rest[4:])
	if sum == 0 || size > int64(len(rest)-HeaderSize) || checksum(rest[:HeaderSize+size], at) != sum {
		return nil, 0, 0, false
	}
	next = at.offset + (HeaderSize+size+align-1)/align*align
	return rest[HeaderSize : HeaderSize+size], int64(binary.BigEndian.Uint64(rest[8:])), next, true
}

// provenAfter looks for frames behind a place at which there is none, and
// returns how much of the segment they say had been on the disk.
func provenAfter(data []byte, at place) int64 {
	var proven int64
	for at.offset = (at.offset + align - 1) / align * align; at.offset < int64(len(data)); {
		_, synced, next, ok := frameAt(data, at)
		if !ok {
			at.offset += align
			continue
		}
		proven = max(proven, synced)
		at.offset = next
	}
	return proven
}

const magic = "redstalk log 01\n"

// header is the beginning of a segment.
type header struct {
	number  uint64
	prevEnd int64 // of the segment before
	durable bool  // all of that was on the disk
}

// encode: magic, number, prevEnd, durable in one byte, checksum of all that;
// zeros up to segmentHeader.
func (h *header) encode() []byte {
	b := make([]byte, 0, segmentHeader)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint64(b, h.number)
	b = binary.BigEndian.AppendUint64(b, uint64(h.prevEnd))
	if h.durable {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:segmentHeader]
}

// decodeHeader reads the header of segment number; ok is false if it has none.
func decodeHeader(data []byte, number uint64) (h header, ok bool) {
	const body = len(magic) + 17
	if len(data) < segmentHeader || string(data[:len(magic)]) != magic {
		return h, false
	}
	if crc32.Checksum(data[:body], castagnoli) != binary.BigEndian.Uint32(data[body:]) {
		return h, false
	}
	h.number = binary.BigEndian.Uint64(data[len(magic):])
	h.prevEnd = int64(binary.BigEndian.Uint64(data[len(magic)+8:]))
	h.durable = data[len(magic)+16] == 1
	return h, h.number == number
}
