package wal

import (
	"fmt"
	"hash/crc32"
	"time"
)

// Append writes a frame. It begins with HeaderSize bytes for the log to fill. When Append
// returns, the frame is with the operating system. It returns the frame, which may have
// grown, so that the caller can use its memory again.
func (l *Log) Append(frame []byte) ([]byte, error) {
	at, synced, failed := l.position()
	if failed != nil {
		return frame, failed
	}
	if len(frame)-HeaderSize > maxPayload {
		return frame, l.fail(fmt.Errorf("writing to %s: a frame of %d bytes is too large", l.path(at.segment), len(frame)))
	}
	frame = seal(frame, at, synced)
	if _, err := l.file.WriteAt(frame, at.offset); err != nil {
		return frame, l.fail(fmt.Errorf("writing to %s: %w", l.path(at.segment), err))
	}
	l.appended(int64(len(frame)))
	return frame, nil
}

// AppendPieces is Append for a frame whose payload is in several pieces. The first piece
// begins with HeaderSize bytes for the log to fill. The log does not keep the pieces.
func (l *Log) AppendPieces(pieces [][]byte) error {
	at, synced, failed := l.position()
	if failed != nil {
		return failed
	}
	length, sum := measure(pieces)
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

// measure returns length and checksum of the payload of a frame in pieces.
func measure(pieces [][]byte) (length int, sum uint32) {
	length = -HeaderSize
	for i, p := range pieces {
		length += len(p)
		if i == 0 {
			p = p[HeaderSize:]
		}
		sum = crc32.Update(sum, castagnoli, p)
	}
	return length, sum
}

// padding returns how many bytes are missing to a multiple of align.
func padding(length int) int { return -length & (align - 1) }

// position returns where the next frame goes, what its mark synced says, and the error
// after which the log is of no use any more.
func (l *Log) position() (at place, synced int64, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return place{l.header.number, l.end}, l.synced, l.failed
}

// appended notes that so many bytes were written to the current segment, and has them
// synced in time.
func (l *Log) appended(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += bytes
	if l.every > 0 && l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(l.every, l.syncByTimer)
	}
}
