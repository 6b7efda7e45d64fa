package wal

import (
	"fmt"
	"hash/crc32"
	"time"
)

// Append writes a frame. It begins with HeaderSize bytes for the log to fill. When Append
// returns, the frame is with the operating system. Append returns the frame, which may have
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
	if err := l.writeAt(frame, at); err != nil {
		return frame, err
	}
	l.appended(int64(len(frame)))
	return frame, nil
}

// AppendPieces is Append for a frame whose payload is in several pieces. The first piece begins
// with HeaderSize bytes for the log to fill. The log does not keep the pieces.
//
// The first piece is written last, because only then the checksum in its header is known, see
// writePiece.
func (l *Log) AppendPieces(pieces [][]byte) error {
	at, synced, failed := l.position()
	if failed != nil {
		return failed
	}
	first, length := pieces[0], -HeaderSize
	for _, p := range pieces {
		length += len(p)
	}
	if length > maxPayload {
		return l.fail(fmt.Errorf("writing to %s: a frame of %d bytes is too large", l.path(at.segment), length))
	}
	f := frame{length: uint32(length), sum: crc32.Checksum(first[HeaderSize:], castagnoli), synced: synced}
	end := position{at.segment, at.offset + int64(len(first))}
	for _, p := range pieces[1:] {
		if err := l.writePiece(p, end, &f.sum); err != nil {
			return err
		}
		end.offset += int64(len(p))
	}
	pad := make([]byte, padding(HeaderSize+length))
	if err := l.writeAt(pad, end); err != nil {
		return err
	}
	putHeader(first, at, f)
	if err := l.writeAt(first, at); err != nil {
		return err
	}
	l.appended(f.next(at.offset) - at.offset)
	return nil
}

// cached is a size in bytes that fits into the cache of a processor core.
const cached = 256 << 10

// writePiece writes a piece of a frame, and adds it to the checksum of the pieces before it. It
// does that in parts, and writes each part before it computes the checksum: the write brings
// the part into the processor's cache. The checksum reads at three places in turn, so from
// memory it is four times slower.
func (l *Log) writePiece(p []byte, at position, sum *uint32) error {
	for len(p) > 0 {
		part := p[:min(len(p), cached)]
		if err := l.writeAt(part, at); err != nil {
			return err
		}
		*sum = crc32.Update(*sum, castagnoli, part)
		p, at.offset = p[len(part):], at.offset+int64(len(part))
	}
	return nil
}

// writeAt writes to the current segment.
func (l *Log) writeAt(p []byte, at position) error {
	if len(p) == 0 {
		return nil
	}
	if _, err := l.file.WriteAt(p, at.offset); err != nil {
		return l.fail(fmt.Errorf("writing to %s: %w", l.path(at.segment), err))
	}
	return nil
}

// padding returns how many bytes are missing to a multiple of align.
func padding(length int) int { return -length & (align - 1) }

// position returns where the next frame goes, what its mark synced says, and the error
// after which the log is of no use any more.
func (l *Log) position() (at position, synced int64, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return position{l.header.number, l.end}, l.synced, l.failed
}

// appended records that bytes were written to the current segment, and makes sure that they are
// synced within SyncEvery.
func (l *Log) appended(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end += bytes
	if l.every > 0 && l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(l.every, l.syncByTimer)
	}
}
