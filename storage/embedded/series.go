package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage"
	"redstalk/storage/embedded/wal"
)

// series is a directory with the backups that BackupInto writes. Whatever else is in it stays.
type series struct {
	fs    vfs.FS
	dir   string
	store string // the directory of the engine
}

// seriesName is the name of a backup in a series, as a layout of package time.
const seriesName = "redstalk-20060102T150405Z"

// nameAt returns the name of a backup that begins at a time. The order of names is that of times.
func nameAt(t time.Time) string { return t.UTC().Format(seriesName) }

func isSeriesName(name string) bool {
	t, err := time.Parse(seriesName, name)
	return err == nil && nameAt(t) == name
}

// storePath returns the path of a store as its manifests have it.
func storePath(dir string) string {
	if path, err := filepath.Abs(dir); err == nil {
		return path
	}
	return dir
}

// prepare makes the directory, and removes what backups that were killed have left in it.
func (s *series) prepare() error {
	if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) {
		if err := checkTarget(s.dir, s.store); err != nil {
			return err
		}
		if err := wal.MakeDir(s.fs, s.dir); err != nil {
			return fmt.Errorf("making %s: %w", s.dir, err)
		}
	}
	names, err := s.directories(func(name string) bool {
		name, partial := strings.CutSuffix(name, partialSuffix)
		return partial && isSeriesName(name)
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		left := &target{fs: s.fs, path: strings.TrimSuffix(path, partialSuffix), partial: path}
		if err := left.removeLeft(); err != nil && !errors.Is(err, storage.ErrBackupPath) { // that is another's
			return err
		}
	}
	return nil
}

// directories returns the names of the directories in the series that are wanted, in order.
func (s *series) directories(wanted func(name string) bool) (names []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("listing the backups: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() && wanted(entry.Name()) { // a link is none
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// removeOld removes the oldest complete backups of the store until keep are left. It never removes the one that was just
// written, even if the clock was set back.
func (s *series) removeOld(written string, keep int) (removed int, err error) {
	names, err := s.directories(func(name string) bool {
		path := filepath.Join(s.dir, name)
		if !isSeriesName(name) || path == written {
			return false
		}
		m, err := readManifest(s.fs, path)
		return err == nil && m.Store == storePath(s.store)
	})
	if err != nil {
		return 0, err
	}
	for _, name := range names[:max(len(names)+1-keep, 0)] {
		if err := s.remove(filepath.Join(s.dir, name)); err != nil {
			return removed, fmt.Errorf("removing %s: %w", name, err)
		}
		removed++
	}
	return removed, nil
}

// remove removes a backup. First it becomes what an interrupted one leaves: so no part of it is ever taken for a backup, and
// the next one removes what is left of it if the process dies.
func (s *series) remove(path string) error {
	f, err := s.fs.Create(s.fs.PathJoin(path, lockName), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	old := &target{fs: s.fs, path: path, partial: path + partialSuffix}
	if err := s.fs.Rename(path, old.partial); err != nil {
		return err
	}
	return errors.Join(wal.SyncDir(s.fs, s.dir), old.removeLeft())
}
