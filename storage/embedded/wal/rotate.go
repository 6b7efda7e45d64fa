package wal

import (
	"fmt"
	"slices"
)

// CanRotate reports whether the next segment is prepared.
func (l *Log) CanRotate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next != nil
}

// Full reports whether the current segment is full and the next one is prepared. If preparing
// it has failed, Full starts another attempt now and then.
func (l *Log) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end >= max(l.size, l.retry) && l.next == nil && !l.preparing {
		l.preparing = true // an earlier attempt failed
		go l.prepareSegment(l.header.number + 1)
	}
	return l.end >= l.size && l.next != nil
}

// Rotate ends the current segment, whose number it returns, and begins the next one. It must
// only be called after Full or CanRotate has returned true.
func (l *Log) Rotate() (ended uint64, err error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	l.mu.Lock()
	next, file := l.next, l.file
	l.mu.Unlock()
	if err := leadsTo(l.fs, l.path(next.number), next.info); err != nil {
		return 0, l.fail(err) // before the current segment says that the log continues
	}
	if err := l.endSegment(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	h := header{number: next.number, used: true, prevEnd: l.end, durable: !l.never}
	ended, l.next = l.header.number, nil
	l.mu.Unlock()
	if err := l.makeCurrent(next, h); err != nil {
		return 0, l.fail(err)
	}
	if err := file.Close(); err != nil {
		return 0, l.fail(fmt.Errorf("closing %s: %w", l.path(ended), err))
	}
	l.prepareNext()
	return ended, nil
}

// endSegment writes at the end of the current segment that there is another one, and syncs
// it. The lock syncing is held.
func (l *Log) endSegment() error {
	at, synced, failed := l.position()
	if failed != nil {
		return failed
	}
	if _, err := l.file.WriteAt(sealContinued(at, synced), at.offset); err != nil {
		return l.fail(fmt.Errorf("writing to %s: %w", l.path(at.segment), err))
	}
	if l.never {
		return nil
	}
	if err := l.file.SyncData(); err != nil {
		return l.fail(fmt.Errorf("syncing %s: %w", l.path(at.segment), err))
	}
	return nil
}

// Release says that the segments up to number are no longer needed. As many as the log has
// segments are kept to be used again, the others are removed. So a log whose segments are
// released several at a time needs no new ones: writing over an old file costs a third of
// making a new one.
func (l *Log) Release(number uint64) {
	if l.holdBack(number) {
		return
	}
	for _, path := range l.release(number) {
		if err := l.fs.Remove(path); err != nil {
			l.log.Warn("an old segment of the log cannot be removed", "err", err)
		}
	}
}

// release records that the segments up to number are released. It returns the paths of those
// that have to be removed.
func (l *Log) release(number uint64) (remove []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var linked []string
	for ; l.oldest <= number; l.oldest++ {
		if l.oldest <= l.linked {
			linked = append(linked, l.path(l.oldest))
		} else {
			l.reusable = append(l.reusable, l.path(l.oldest))
		}
	}
	keep := int(l.header.number + 1 - l.oldest)
	if l.closed {
		keep = 0
	}
	excess := max(len(l.reusable)-keep, 0)
	remove, l.reusable = slices.Clone(l.reusable[:excess]), slices.Delete(l.reusable, 0, excess)
	return append(remove, linked...)
}
