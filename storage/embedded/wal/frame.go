package wal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
)

const (
	// HeaderSize is how many bytes a frame given to Append must begin with,
	// for the log's own use.
	HeaderSize = 16

	segmentHeader = 64
	align         = 8

	// goesOn is the length of a frame without a payload, the last one of its
	// segment: the next segment is there.
	goesOn = math.MaxUint32

	maxPayload = math.MaxInt32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// place is where a frame is.
type place struct {
	segment uint64
	offset  int64
}

// frame is what the header of one says.
type frame struct {
	length uint32
	sum    uint32 // of the payload
	synced int64
}

// seal fills the header of a frame and pads it.
func seal(b []byte, at place, synced int64) []byte {
	payload := b[HeaderSize:]
	putHeader(b, at, frame{uint32(len(payload)), crc32.Checksum(payload, castagnoli), synced})
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b
}

// sealGoesOn returns the frame that says that the next segment is there.
func sealGoesOn(at place, synced int64) []byte {
	b := make([]byte, HeaderSize)
	putHeader(b, at, frame{goesOn, 0, synced})
	return b
}

func putHeader(b []byte, at place, f frame) {
	binary.BigEndian.PutUint32(b, f.length)
	binary.BigEndian.PutUint32(b[4:], f.sum)
	binary.BigEndian.PutUint32(b[8:], uint32(f.synced/align))
	binary.BigEndian.PutUint32(b[12:], headerSum(b, at))
}

// headerSum is the checksum of a header at a place. It is never 0, so that a
// run of zeros is no header.
func headerSum(b []byte, at place) uint32 {
	var covered [16 + HeaderSize - 4]byte
	binary.BigEndian.PutUint64(covered[:], at.segment)
	binary.BigEndian.PutUint64(covered[8:], uint64(at.offset))
	copy(covered[16:], b[:HeaderSize-4])
	return max(crc32.Checksum(covered[:], castagnoli), 1)
}

// headerAt reads the header of the frame at an offset of a segment's data; ok
// is false if there is none. What it costs does not depend on the data.
func headerAt(data []byte, at place) (f frame, ok bool) {
	b := data[min(at.offset, int64(len(data))):]
	if len(b) < HeaderSize {
		return f, false
	}
	sum := binary.BigEndian.Uint32(b[12:])
	if sum == 0 || headerSum(b, at) != sum {
		return f, false
	}
	f.length, f.sum = binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	f.synced = int64(binary.BigEndian.Uint32(b[8:])) * align
	return f, true
}

// payload returns the payload of the frame at an offset of a segment's data; ok
// is false if it is not there as it was written.
func (f frame) payload(data []byte, offset int64) (payload []byte, ok bool) {
	rest := data[offset+HeaderSize:]
	if f.length == goesOn || int64(f.length) > int64(len(rest)) {
		return nil, false
	}
	payload = rest[:f.length:f.length]
	return payload, crc32.Checksum(payload, castagnoli) == f.sum
}

// next is where the frame behind the one at an offset begins.
func (f frame) next(offset int64) int64 {
	if f.length == goesOn {
		return offset + HeaderSize
	}
	return offset + (HeaderSize+int64(f.length)+align-1)/align*align
}

// provenAfter looks for frames from a place on at which there is none that
// could be read, and returns how much of the segment they say had been on the
// disk. Their headers are enough for that, so one look at all data is. What
// stands in the payload of a frame whose header is there is not looked at: it
// is whatever a client has sent.
func provenAfter(data []byte, at place) int64 {
	var proven int64
	for at.offset < int64(len(data)) {
		if n := zerosAt(data, at.offset); n > 0 {
			at.offset += n
			continue
		}
		f, ok := headerAt(data, at)
		if !ok {
			at.offset += align
			continue
		}
		proven = max(proven, f.synced)
		at.offset = f.next(at.offset)
	}
	return proven
}

var blank [256]byte

// zerosAt tells by how many bytes to go on from an offset because there are only
// zeros, and so no header begins before that; 0 if it may begin here.
func zerosAt(data []byte, offset int64) int64 {
	if int64(len(data))-offset < int64(len(blank)) || !bytes.Equal(data[offset:][:len(blank)], blank[:]) {
		return 0
	}
	return int64(len(blank)) - HeaderSize + align
}

const magic = "redstalk log 02\n"

// header is the beginning of a segment.
type header struct {
	number  uint64
	used    bool  // false: it was prepared, and there is no frame in it
	prevEnd int64 // of the segment before
	durable bool  // all of that, and of those before it, was on the disk
	closed  int64 // where the frames end, if the log was closed then; or 0
	size    int64 // bytes of the file that were on the disk, at least; 0 if an older program wrote this
}

const (
	usedFlag    byte = 1
	durableFlag byte = 2

	sizeOffset = 48
	headerBody = segmentHeader - 4
)

// encode: magic, number, prevEnd, closed, flags in one byte, 7 zeros, size,
// zeros, and a checksum of all that.
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
