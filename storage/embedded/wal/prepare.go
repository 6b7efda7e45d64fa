package wal

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxZeros is the maximum size in bytes to which a new segment is filled with zeros. A larger
// segment grows from there.
const maxZeros = 16 << 20

// NewName is the name of a segment that is being prepared.
const NewName = prefix + "new"

// prepareNext starts to prepare the next segment in the background.
func (l *Log) prepareNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.preparing = true
	go l.prepareSegment(l.header.number + 1)
}

// prepareSegment prepares the next segment, in the background. preparing is true.
func (l *Log) prepareSegment(number uint64) {
	l.mu.Lock()
	var reused string
	if len(l.reusable) > 0 {
		reused, l.reusable = l.reusable[0], l.reusable[1:]
	}
	l.mu.Unlock()
	var s *segment
	err := l.Check()
	if err != nil {
		l.fail(err) // the new segment might replace a segment of another log
	} else if s, err = l.prepare(number, reused, min(l.size, maxZeros)); err != nil {
		l.limited.Warn(l.log, "the next segment of the log cannot be prepared; the current one grows", "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.preparing, l.retry = s, false, l.end+l.size/8
	l.idle.Broadcast()
}

// prepare makes a segment that is not used yet: from the file reused if there is one, otherwise
// from that many zeros.
//
// A segment has its full size from the beginning. A sync of bytes that overwrite others is one
// write to the disk; if the file grows, its inode is a second one.
//
// A segment gets its name when all of it is on the disk. So a segment without a header is
// damaged.
func (l *Log) prepare(number uint64, reused string, zeros int64) (*segment, error) {
	path, made := l.path(number), l.fs.PathJoin(l.dir, NewName)
	file, info, err := l.makeFile(made, number, reused, zeros)
	if err == nil {
		if err = errors.Join(l.fs.Rename(made, path), SyncDir(l.fs, l.dir)); err != nil {
			file.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", path, err)
	}
	return &segment{number, file, info}, nil
}

// makeFile makes the file of a segment under another name: from the file reused if there is
// one, otherwise from that many zeros.
func (l *Log) makeFile(path string, number uint64, reused string, zeros int64) (f vfs.File, info vfs.FileInfo, err error) {
	if reused != "" {
		f, err = l.fs.ReuseForWrite(reused, path, vfs.WriteCategoryUnspecified)
	} else {
		f, err = l.fs.Create(path, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, nil, err
	}
	if reused == "" {
		err = fill(f, max(zeros, segmentHeader))
	}
	if err == nil {
		info, err = writeUnused(f, number)
	}
	if err != nil {
		f.Close()
		l.fs.Remove(path)
		return nil, nil, err
	}
	return f, info, nil
}

// writeUnused writes the header of an unused segment to a file, and syncs all of it.
func writeUnused(f vfs.File, number uint64) (info vfs.FileInfo, err error) {
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	h := header{number: number, size: info.Size()}
	if _, err := f.WriteAt(h.encode(), 0); err != nil {
		return nil, err
	}
	return info, f.Sync()
}

// fill writes zeros to a file. It clears them before each write, because a write may change its
// argument, see vfs.File.
func fill(f vfs.File, size int64) error {
	zeros := make([]byte, max(min(size, 256<<10), 1))
	for left := size; left > 0; left -= int64(len(zeros)) {
		clear(zeros)
		if _, err := f.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	return nil
}
