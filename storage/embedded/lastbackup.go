package embedded

import (
	"io"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lastBackupName is a file in the engine's directory that says when the last backup was made. A store that was restored
// from it does not have the file: it has no backup yet.
const lastBackupName = "backup.last"

// backedUp records when the last backup was made. A file that cannot be written costs only the figure, after a restart.
func (j *journal) backedUp(made time.Time) {
	j.mu.Lock()
	j.lastBackup = made
	j.mu.Unlock()
	f, err := j.guard.fs.Create(j.guard.fs.PathJoin(j.dir, lastBackupName), vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(made.Format(time.RFC3339) + "\n"))
		if closing := f.Close(); err == nil {
			err = closing
		}
	}
	if err != nil {
		j.slog.Warn("the time of the last backup cannot be written", "dir", j.dir, "err", err.Error())
	}
}

// readLastBackup reads when the last backup was made; zero if there was none, or if the file is damaged.
func (j *journal) readLastBackup() (made time.Time) {
	f, err := j.guard.fs.Open(j.guard.fs.PathJoin(j.dir, lastBackupName))
	if err != nil {
		return made
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return made
	}
	made, _ = time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	return made
}
