package wal

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
)

const (
	// HeaderSize is how many bytes a frame given to Append must begin with. The log fills them.
	HeaderSize = 16

	segmentHeader = 64
	align         = 8

	// continued is the length of a frame without a payload, the last one of its segment: the
	// log continues in the next segment.
	continued = math.MaxUint32

	maxPayload = math.MaxInt32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// position is the position of a frame.
type position struct {
	segment uint64
	offset  int64
}

// frame is the header of a frame.
type frame struct {
	length uint32
	sum    uint32 // of the payload
	synced int64
}

// seal fills the header of a frame and pads the frame.
func seal(b []byte, at position, synced int64) []byte {
	payload := b[HeaderSize:]
	putHeader(b, at, frame{uint32(len(payload)), crc32.Checksum(payload, castagnoli), synced})
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b
}

// sealContinued returns the frame that says that the log continues in the next segment.
func sealContinued(at position, synced int64) []byte {
	b := make([]byte, HeaderSize)
	putHeader(b, at, frame{continued, 0, synced})
	return b
}

func putHeader(b []byte, at position, f frame) {
	binary.BigEndian.PutUint32(b, f.length)
	binary.BigEndian.PutUint32(b[4:], f.sum)
	binary.BigEndian.PutUint32(b[8:], uint32(f.synced/align))
	binary.BigEndian.PutUint32(b[12:], headerSum(b, at))
}

// headerSum returns the checksum of a header at a position. It is never 0, so zeros are not a
// header.
func headerSum(b []byte, at position) uint32 {
	var covered [16 + HeaderSize - 4]byte
	binary.BigEndian.PutUint64(covered[:], at.segment)
	binary.BigEndian.PutUint64(covered[8:], uint64(at.offset))
	copy(covered[16:], b[:HeaderSize-4])
	return max(crc32.Checksum(covered[:], castagnoli), 1)
}

// headerAt reads the header of the frame at a position in a segment's data; ok is false if
// there is none. It does not read the payload.
func headerAt(data []byte, at position) (f frame, ok bool) {
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

// payload returns the payload of the frame at an offset of a segment's data; ok is false if it
// is not what was written.
func (f frame) payload(data []byte, offset int64) (payload []byte, ok bool) {
	rest := data[offset+HeaderSize:]
	if f.length == continued || int64(f.length) > int64(len(rest)) {
		return nil, false
	}
	payload = rest[:f.length:f.length]
	return payload, crc32.Checksum(payload, castagnoli) == f.sum
}

// next returns the offset behind the frame at an offset.
func (f frame) next(offset int64) int64 {
	if f.length == continued {
		return offset + HeaderSize
	}
	return offset + (HeaderSize+int64(f.length)+align-1)/align*align
}

// syncedAfter returns how much of a segment had been on the disk, according to the frames
// behind a position at which no frame can be read. It looks for headers of frames, so it reads
// all data once. It skips the payload of a frame whose header is intact: a payload can contain
// anything that a client sends.
func syncedAfter(data []byte, at position) int64 {
	var synced int64
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
		synced = max(synced, f.synced)
		at.offset = f.next(at.offset)
	}
	return synced
}

// blank is zeros to compare with.
var blank [256]byte

// zerosAt returns how many bytes can be skipped at an offset because all are zero, and no
// header begins among them; 0 if a header may begin there.
func zerosAt(data []byte, offset int64) int64 {
	if int64(len(data))-offset < int64(len(blank)) || !bytes.Equal(data[offset:][:len(blank)], blank[:]) {
		return 0
	}
	return int64(len(blank)) - HeaderSize + align
}
