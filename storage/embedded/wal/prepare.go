package wal

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxZeros bounds the size in bytes to which a new segment is filled with
// zeros: a larger one grows from there.
const maxZeros = 16 << 20

// prepareNext has the next segment prepared aside.
func (l *Log) prepareNext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.making = true
	go l.makeNext(l.number + 1)
}

func (l *Log) makeNext(number uint64) {
	l.mu.Lock()
	spare := l.spare
	l.spare = ""
	l.mu.Unlock()
	s, err := l.prepare(number, spare, min(l.size, maxZeros))
	if err != nil {
		l.log.Warn("the next segment of the log cannot be prepared; the current one grows", "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.making = s, false
	l.idle.Broadcast()
}

// prepare makes a segment without a header, of the file spare if there is one,
// else of so many zeros.
// A sync of bytes that overwrite others is one write to the disk; where a file
// grows, its inode is a second one. So a segment has its full size beforehand.
func (l *Log) prepare(number uint64, spare string, zeros int64) (*segment, error) {
	file, err := l.makeFile(l.path(number), spare, zeros)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", l.path(number), err)
	}
	dir, err := l.fs.OpenDir(l.dir)
	if err == nil {
		err = dir.Sync()
		dir.Close()
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("preparing %s: %w", l.path(number), err)
	}
	return &segment{number, file}, nil
}

func (l *Log) makeFile(path, spare string, zeros int64) (vfs.File, error) {
	if spare != "" {
		return l.fs.ReuseForWrite(spare, path, vfs.WriteCategoryUnspecified)
	}
	f, err := l.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if err := fill(f, zeros); err != nil {
		f.Close()
		l.fs.Remove(path)
		return nil, err
	}
	return f, nil
}

// fill writes zeros and syncs them.
func fill(f vfs.File, size int64) error {
	zeros := make([]byte, max(min(size, 256<<10), 1))
	for left := size; left > 0; left -= int64(len(zeros)) {
		if _, err := f.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	return f.Sync()
}

func syncFile(fs vfs.FS, path string) error {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("opening a segment: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}
