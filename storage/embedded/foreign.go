package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
)

// ErrForeign is in the chain of Open's error if the directory is none of an engine's, or a part of one: jobs
// would seem to be lost there, or a backup would be spoiled.
var ErrForeign = errors.New("this is no directory of a store")

// ownNames are names that a directory can have in which no engine was ever opened, or in which a first start
// was interrupted: the lock of beanstalkd's binlog, too, which stays when that is moved away.
var ownNames = []string{"LOCK", "lock", "lost+found", ".snapshot", ".DS_Store", wal.NewName, lockName, spareName}

// refuseForeign fails if a directory is none of an engine's. With create, an engine may be made in a directory that has
// other files in it.
func refuseForeign(fs vfs.FS, dir string, create bool) error {
	names, err := fs.List(dir)
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w: it is a file, not a directory", ErrForeign)
	}
	if err != nil {
		return err
	}
	if err := refusePart(fs, dir, names); err != nil {
		return err
	}
	if isStore(fs, dir, names) || create {
		return nil
	}
	for _, name := range names {
		below := fs.PathJoin(dir, name)
		if inside, err := fs.List(below); err == nil && isStore(fs, below, inside) {
			return fmt.Errorf("%w: a store is in the directory %s below it; --new-store makes another one here", ErrForeign, below)
		}
	}
	for _, name := range names {
		if !slices.Contains(ownNames, name) && isFile(fs, fs.PathJoin(dir, name)) {
			return fmt.Errorf("%w: it has other files, such as %s; --new-store makes a new store beside them", ErrForeign, name)
		}
	}
	return nil
}

// refusePart fails if a directory is a backup or a part of a store, or has the binlog of a beanstalkd: the engine
// does not read that, and its jobs would seem to be lost.
func refusePart(fs vfs.FS, dir string, names []string) error {
	dir = filepath.Clean(dir)
	place := placeOf(dir)
	base, above := fs.PathBase(place), fs.PathDir(place)
	switch {
	case slices.Contains(names, manifestName):
		return fmt.Errorf("%w: it is a backup; redstalkd restore --from %s --to DIR makes a store from it", ErrForeign, dir)
	case strings.HasSuffix(base, partialSuffix) && slices.Contains(names, lockName):
		return fmt.Errorf("%w: it is what an interrupted backup or restore has left", ErrForeign)
	case slices.ContainsFunc(names, tables.IsFile):
		return fmt.Errorf("%w: it has the tables of a store, whose directory is %s", ErrForeign, above)
	case base == snapshotName || base == tables.DirName:
		if beside, err := fs.List(above); err == nil && isStore(fs, above, beside) {
			return fmt.Errorf("%w: it is a part of the store in %s", ErrForeign, above)
		}
	}
	for _, name := range names {
		if number, ok := strings.CutPrefix(name, "binlog."); ok && strings.Trim(number, "0123456789") == "" {
			return fmt.Errorf("there is a binlog of beanstalkd (%s): import its jobs, or choose another directory", name)
		}
	}
	return nil
}

// placeOf returns the path to a directory without links, such as that of "."; the given path if it is not on the real
// file system.
func placeOf(dir string) string {
	if place, err := filepath.EvalSymlinks(dir); err == nil {
		if place, err = filepath.Abs(place); err == nil {
			return place
		}
	}
	return dir
}

// explainLink adds to the error of making a directory that a symbolic link is in its place, which leads nowhere.
func explainLink(err error) error {
	failed, ok := errors.AsType[*os.PathError](err)
	if !ok {
		return err
	}
	to, wrong := os.Readlink(failed.Path)
	if wrong != nil {
		return err
	}
	_, wrong = os.Stat(failed.Path)
	return fmt.Errorf("%s is a symbolic link to %s, where no directory is: %w", failed.Path, to, wrong)
}

// isStore reports whether a directory with these names is that of an engine, perhaps of one whose first start was
// interrupted: it has tables, which can still be empty, or a segment of the log.
func isStore(fs vfs.FS, dir string, names []string) bool {
	if slices.Contains(names, tables.DirName) {
		inside, err := fs.List(fs.PathJoin(dir, tables.DirName))
		if err == nil && (len(inside) == 0 || slices.Contains(inside, "LOCK") || slices.ContainsFunc(inside, tables.IsFile)) {
			return true
		}
	}
	return wal.Exists(fs, dir)
}

// isFile reports whether a path is a file or a directory, and no socket, for example.
func isFile(fs vfs.FS, path string) bool {
	info, err := fs.Stat(path)
	return err == nil && (info.IsDir() || info.Mode().IsRegular())
}
