package wal

import (
	"errors"
	"fmt"
	"time"

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
	go l.makeNext(l.header.number + 1)
}

func (l *Log) makeNext(number uint64) {
	l.mu.Lock()
	spare := l.spare
	l.spare = ""
	l.mu.Unlock()
	var s *segment
	err := l.Check()
	if err != nil {
		l.fail(err) // a new segment might take the place of one of somebody else's
	} else if s, err = l.prepare(number, spare, min(l.size, maxZeros)); err != nil {
		l.complain(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.making, l.retry = s, false, l.end+l.size/8
	l.idle.Broadcast()
}

// complainEvery is how often it is said that a segment cannot be prepared, while
// that goes on.
const complainEvery = 10 * time.Second

// complain tells the operator why the current segment grows. Nobody else does
// at the same time: one segment is prepared at a time.
func (l *Log) complain(err error) {
	if now := time.Now(); now.Sub(l.told) >= complainEvery {
		l.told = now
		l.log.Warn("the next segment of the log cannot be prepared; the current one grows", "err", err)
	}
}

// making is the name of a segment that is being prepared.
const making = prefix + "new"

// prepare makes a segment that is not used yet, of the file spare if there is
// one, else of so many zeros.
// A sync of bytes that overwrite others is one write to the disk; where a file
// grows, its inode is a second one. So a segment has its full size beforehand.
// It gets its name when all of it is on the disk, so that one without a header
// is damaged.
func (l *Log) prepare(number uint64, spare string, zeros int64) (*segment, error) {
	path, made := l.path(number), l.fs.PathJoin(l.dir, making)
	file, info, err := l.makeFile(made, number, spare, zeros)
	if err == nil {
		if err = errors.Join(l.fs.Rename(made, path), l.syncDir()); err != nil {
			file.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", path, err)
	}
	return &segment{number, file, info}, nil
}

func (l *Log) syncDir() error {
	dir, err := l.fs.OpenDir(l.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (l *Log) makeFile(path string, number uint64, spare string, zeros int64) (f vfs.File, info vfs.FileInfo, err error) {
	if spare != "" {
		f, err = l.fs.ReuseForWrite(spare, path, vfs.WriteCategoryUnspecified)
	} else {
		f, err = l.fs.Create(path, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, nil, err
	}
	if spare == "" {
		err = fill(f, max(zeros, segmentHeader))
	}
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil {
		h := header{number: number, size: info.Size()}
		_, err = f.WriteAt(h.encode(), 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		l.fs.Remove(path)
		return nil, nil, err
	}
	return f, info, nil
}

// fill writes zeros. They are made anew for each write, which may change what it
// is given, see vfs.File.
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

// syncFile syncs a segment by its name, with b at an offset if it is not nil.
func syncFile(fs vfs.FS, path string, b []byte, offset int64) error {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("opening a segment: %w", err)
	}
	defer f.Close()
	if b != nil {
		if _, err := f.WriteAt(b, offset); err != nil {
			return fmt.Errorf("writing to %s: %w", path, err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return nil
}
