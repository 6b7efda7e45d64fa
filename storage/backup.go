package storage

import (
	"context"
	"errors"
)

// BackupStore is a Store that can write a backup of all that it keeps, while it is used.
type BackupStore interface {
	Store

	// Backup writes a backup to a directory of this machine, which must not exist or be empty.
	// Everything that was acknowledged before the call is in it, and of every other batch all
	// or nothing. The path must be absolute. If Backup fails, or ctx ends first, nothing is left.
	Backup(ctx context.Context, dir string) (Backup, error)

	// BackupInto writes a backup as Backup does, to a new directory in dir whose name is the time. It makes dir, if the
	// directory above it exists. Then it removes the oldest backups of the same store that BackupInto has written there, until keep
	// are left; with 0 it removes none. If it fails before the new one is complete, it has removed no backup.
	BackupInto(ctx context.Context, dir string, keep int) (Backup, error)
}

// Backup describes a backup that was written. Its files were read again and compared with their digests.
type Backup struct {
	To      string // its directory
	Files   int
	Bytes   int64  // of these files; most of them can be links, which take no space yet
	LastID  uint64 // no larger id was given out before
	Removed int    // older backups that were removed, see BackupInto
}

var (
	// ErrNoBackup is returned by a store that cannot write backups.
	ErrNoBackup = errors.New("this engine writes no backups: of Redis, back up its own files; jobs in memory have none")

	// ErrBackupRunning is returned while the store is writing another backup.
	ErrBackupRunning = errors.New("another backup is being written")

	// ErrBackupPath is in the chain of an error if a backup cannot be written to a path for a
	// reason that the error says.
	ErrBackupPath = errors.New("no backup can be written there")
)
