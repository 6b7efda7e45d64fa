package wal

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrGone is in the chain of an error if somebody else has removed, renamed or replaced a file
// or directory that is open: the next Open would not find what is written to it.
var ErrGone = errors.New("another program has changed the files on the disk")

// ErrReplaced is ErrGone if there is another file or directory under the name.
var ErrReplaced = fmt.Errorf("%w", ErrGone)

// leadsTo fails with ErrGone if a path no longer leads to a file or directory that is open.
// info is what Stat returned for that. leadsTo does not fail if the operating system does not
// say what is there now.
func leadsTo(fs vfs.FS, path string, info vfs.FileInfo) error {
	_, err := follow(fs, path, info)
	return err
}

// follow is leadsTo, and returns what Stat returns now; nil if Stat fails for another reason.
func follow(fs vfs.FS, path string, info vfs.FileInfo) (now vfs.FileInfo, err error) {
	now, err = fs.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ESTALE):
		return nil, fmt.Errorf("%w: %s has been removed or renamed", ErrGone, path)
	case err != nil:
		return nil, nil
	case !sameFile(now, info):
		return nil, fmt.Errorf("%w: %s has been replaced by another one", ErrReplaced, path)
	}
	return now, nil
}

// Check fails with ErrGone if the current segment is no longer the file under
// its name, or has been cut short.
func (l *Log) Check() error {
	for {
		l.mu.Lock()
		number, info, end, closed := l.header.number, l.info, l.end, l.closed
		l.mu.Unlock()
		err := l.checkSegment(number, info, end)
		if err == nil || closed {
			return nil
		}
		if _, current := l.Segments(); current == number {
			return err
		}
	}
}

func (l *Log) checkSegment(number uint64, info vfs.FileInfo, end int64) error {
	path := l.path(number)
	now, err := follow(l.fs, path, info)
	if err == nil && now != nil && now.Size() < end {
		return fmt.Errorf("%w: %s has been cut short to %d bytes, of which %d were written", ErrGone, path, now.Size(), end)
	}
	return err
}
