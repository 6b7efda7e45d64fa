package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The spare is a file of no use but for its room on the disk: if the disk is full, a start removes it, because
// Open has to write. Then the engine serves, and room is made by deletes. The file is made again when the disk
// has room for it.
const (
	spareName  = "spare"
	spareBytes = 4 << 20
)

// freeSpare removes the spare if the disk is full.
func freeSpare(o *Options) {
	path := o.fs.PathJoin(o.Dir, spareName)
	usage, err := o.fs.GetDiskUsage(o.Dir)
	if err != nil || int64(usage.AvailBytes) >= o.spare {
		return
	}
	if err := o.fs.Remove(path); err == nil {
		o.Log.Warn("the disk is full: the store starts with the room of its spare file; make room soon", "dir", o.Dir, "free", usage.AvailBytes)
	}
}

// makeSpare makes the spare, unless it exists or the disk lacks room. It returns whether there is one.
func makeSpare(fs vfs.FS, dir string, size int64) bool {
	path, made := fs.PathJoin(dir, spareName), fs.PathJoin(dir, spareName+".new")
	if _, err := fs.Stat(path); err == nil {
		return true
	}
	usage, err := fs.GetDiskUsage(dir)
	if err != nil || int64(usage.AvailBytes) < 2*size {
		return false
	}
	if err := fillSpare(fs, made, size); err != nil {
		fs.Remove(made)
		return false
	}
	return fs.Rename(made, path) == nil
}

// fillSpare writes random bytes: a file system may store zeros without taking room.
func fillSpare(fs vfs.FS, path string, size int64) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	random, b := rand.NewChaCha8([32]byte{}), make([]byte, 64<<10)
	for left := size; left > 0 && err == nil; left -= int64(len(b)) {
		random.Read(b)
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// explainFull adds what to do to an error that says that the disk is full.
func explainFull(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("the disk of %s is full, and the store needs %d MiB there; all its jobs are kept: make room, or enlarge the disk: %w", dir, spareBytes>>20, err)
	}
	return err
}
