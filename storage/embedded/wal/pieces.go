package wal

import (
	"fmt"
	"hash/crc32"
)

// AppendPieces writes a frame whose payload is not in one piece. The first piece
// begins with HeaderSize bytes for the log to fill. The frame is with the
// operating system then.
func (l *Log) AppendPieces(pieces [][]byte) error {
	l.mu.Lock()
	at, synced, failed := place{l.header.number, l.end}, l.synced, l.failed
	l.mu.Unlock()
	if failed != nil {
		return failed
	}
	length, sum := -HeaderSize, uint32(0)
	for i, p := range pieces {
		length += len(p)
		if i == 0 {
			p = p[HeaderSize:]
		}
		sum = crc32.Update(sum, castagnoli, p)
	}
	if length > maxPayload {
		return l.fail(fmt.Errorf("writing to %s: a frame of %d bytes is too large", l.path(at.segment), length))
	}
	putHeader(pieces[0], at, frame{uint32(length), sum, synced})
	end := at.offset
	for _, p := range append(pieces, make([]byte, padding(HeaderSize+length))) {
		if len(p) == 0 {
			continue
		}
		if _, err := l.file.WriteAt(p, end); err != nil {
			return l.fail(fmt.Errorf("writing to %s: %w", l.path(at.segment), err))
		}
		end += int64(len(p))
	}
	l.appended(end - at.offset)
	return nil
}

// padding is how many bytes are missing to a multiple of align.
func padding(length int) int { return -length & (align - 1) }
