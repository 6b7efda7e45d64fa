package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Hold makes the log keep all segments that are not released yet, until end is called. Release
// takes effect then.
func (l *Log) Hold() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
	return func() {
		if number := l.endHold(); number > 0 {
			l.Release(number)
		}
	}
}

// endHold ends a Hold. It returns up to where the segments are released now; 0 if none is.
func (l *Log) endHold() (number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds--; l.holds > 0 {
		return 0
	}
	number, l.heldBack = l.heldBack, 0
	return number
}

// holdBack reports whether segments up to number have to stay because of a Hold.
func (l *Log) holdBack(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds == 0 {
		return false
	}
	l.heldBack = max(l.heldBack, number)
	return true
}

// CopyTo makes a closed log in another directory: with all frames that were appended before it was
// called, in the segments that are not released. It links the ended segments, which are never
// written to again, and copies the current one. The caller has a Hold.
func (l *Log) CopyTo(dir string) error {
	l.mu.Lock()
	first, h, end := l.oldest, l.header, l.end
	l.linked = max(l.linked, h.number-1)
	l.mu.Unlock()
	for number := first; number < h.number; number++ {
		from := l.path(number)
		if l.never {
			if err := syncFile(l.fs, from, nil, 0); err != nil {
				return err
			}
		}
		if err := vfs.LinkOrCopy(l.fs, from, l.fs.PathJoin(dir, l.fs.PathBase(from))); err != nil {
			return fmt.Errorf("linking %s: %w", from, err)
		}
	}
	h.durable, h.closed, h.size = true, end, end
	from := l.path(h.number)
	if err := l.copyCurrent(from, l.fs.PathJoin(dir, l.fs.PathBase(from)), h); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return nil
}

// copyCurrent copies a segment up to h.closed, with h as its header.
func (l *Log) copyCurrent(from, to string, h header) (err error) {
	in, err := l.fs.Open(from, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := l.fs.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.CopyBuffer(out, io.NewSectionReader(in, 0, h.closed), make([]byte, cached)); err != nil {
		return err
	}
	if _, err := out.WriteAt(h.encode(), 0); err != nil {
		return err
	}
	return out.Sync()
}
