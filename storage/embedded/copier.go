package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redstalk/storage/embedded/tables"
	"redstalk/storage/embedded/wal"
)

// copyBuffer is how many bytes are copied at a time. More are not written between two calls of yield.
const copyBuffer = 64 << 10

// syncCopied is how many bytes are written before the operating system is told to start writing
// them to the disk, so that syncs of the log need not wait for all of a file.
const syncCopied = 512 << 10

// copier copies the files of a backup, and computes their digests.
type copier struct {
	ctx    context.Context
	fs     vfs.FS
	link   bool // link files instead, where that is possible
	yield  func()
	buffer [copyBuffer]byte
}

// tree copies the log and the tables from one directory to another, and syncs all of it.
func (c *copier) tree(from, to string) (all []manifestFile, err error) {
	for _, below := range []string{"", tables.DirName} {
		names, err := c.fs.List(c.fs.PathJoin(from, below))
		if err != nil {
			return nil, fmt.Errorf("listing the files: %w", err)
		}
		if err := wal.MakeDir(c.fs, c.fs.PathJoin(to, below)); err != nil {
			return nil, fmt.Errorf("making a directory: %w", err)
		}
		for _, name := range names {
			if below == "" && name == tables.DirName {
				continue
			}
			f, err := c.file(c.fs.PathJoin(from, below, name), c.fs.PathJoin(to, below, name))
			if err != nil {
				return nil, err
			}
			if f.Name = name; below != "" {
				f.Name = below + "/" + name
			}
			all = append(all, f)
		}
		if err := wal.SyncDir(c.fs, c.fs.PathJoin(to, below)); err != nil {
			return nil, fmt.Errorf("syncing a directory: %w", err)
		}
	}
	return all, nil
}

// openRegular opens a file to be read. It refuses what is no regular file: a pipe could be waited for in vain.
func openRegular(fs vfs.FS, path string) (vfs.File, error) {
	info, err := fs.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return fs.Open(path, vfs.SequentialReadsOption)
}

// file copies a file, or links it. The result has no name. If to is "" the file is only read.
func (c *copier) file(from, to string) (f manifestFile, err error) {
	in, err := openRegular(c.fs, from)
	if err != nil {
		return f, err
	}
	defer in.Close()
	var out vfs.File
	if to != "" && !(c.link && c.fs.Link(from, to) == nil) {
		if out, err = c.fs.Create(to, vfs.WriteCategoryUnspecified); err != nil {
			return f, err
		}
		out = vfs.NewSyncingFile(out, vfs.SyncingFileOptions{BytesPerSync: syncCopied})
		defer func() { err = errors.Join(err, out.Close()) }()
	}
	sum := sha256.New()
	for {
		if err := c.ctx.Err(); err != nil {
			return f, err
		}
		n, err := in.Read(c.buffer[:])
		if n > 0 {
			f.Bytes += int64(n)
			sum.Write(c.buffer[:n]) // first, because a write may change its argument, see vfs.File
			if out != nil {
				if _, err := out.Write(c.buffer[:n]); err != nil {
					return f, fmt.Errorf("writing %s: %w", to, err)
				}
			}
		}
		c.yield()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f, fmt.Errorf("reading %s: %w", from, err)
		}
	}
	if f.SHA256 = hex.EncodeToString(sum.Sum(nil)); out != nil {
		if err := out.Sync(); err != nil {
			return f, fmt.Errorf("syncing %s: %w", to, err)
		}
	}
	return f, nil
}
