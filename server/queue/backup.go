package queue

import (
	"context"

	"redstalk/storage"
)

// Backup writes a backup of the store to a directory of this machine, see storage.BackupStore.
func (q *Queue) Backup(ctx context.Context, dir string) (storage.Backup, error) {
	s, ok := q.store.(storage.BackupStore)
	if !ok {
		return storage.Backup{}, storage.ErrNoBackup
	}
	return s.Backup(ctx, dir)
}

// BackupInto writes a backup whose name is the time to a directory in which keep are kept, see storage.BackupStore.
func (q *Queue) BackupInto(ctx context.Context, dir string, keep int) (storage.Backup, error) {
	s, ok := q.store.(storage.BackupStore)
	if !ok {
		return storage.Backup{}, storage.ErrNoBackup
	}
	return s.BackupInto(ctx, dir, keep)
}
