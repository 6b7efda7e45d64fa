package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"redstalk/server/access"
	"redstalk/storage"
)

// codeBackup is the code of problems with a backup.
const codeBackup = "BACKUP_FAILED"

type backupInput struct {
	Body struct {
		To   string `json:"to,omitempty" doc:"absolute path of a directory of the server's machine, which does not exist or is empty"`
		Dir  string `json:"dir,omitempty" doc:"instead of to: absolute path of a directory in which the backup gets the time as its name"`
		Keep int    `json:"keep,omitempty" minimum:"0" doc:"with dir: how many backups of this store are kept there; 0 is all"`
	}
}

type backupOutput struct{ Body backupInfo }

// backupInfo describes a backup.
type backupInfo struct {
	To      string `json:"to"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes" doc:"of these files; most of them can be links"`
	LastID  uint64 `json:"last_id" doc:"no larger id was given out before"`
	Removed int    `json:"removed" doc:"older backups that were removed because of keep"`
}

// backupOperation is the operation that writes a backup. It lets the server write to any place, so without
// a users file only clients on its machine may call it.
func (svc *service) backupOperation() *row {
	r := typed(svc, Operation{"POST", "/v1/server/backup", access.Admin, NoTube}, huma.Operation{
		OperationID: "backup", Summary: "Write a backup of the embedded engine", DefaultStatus: 200,
		Description: "Answers when the backup is complete and verified. It is abandoned if the client closes the connection.",
	}, svc.backup)
	r.local, r.extraStatuses = true, []int{409, 501, 507}
	return r
}

func (svc *service) backup(ctx context.Context, in *backupInput) (*backupOutput, error) {
	to, dir, keep := in.Body.To, in.Body.Dir, in.Body.Keep
	write := func() (storage.Backup, error) { return svc.queue.Backup(ctx, to) }
	switch {
	case (to == "") == (dir == ""):
		return nil, invalid("either to or dir says where the backup goes")
	case dir == "" && keep > 0:
		return nil, invalid("keep: it is for dir")
	case !filepath.IsAbs(to + dir):
		return nil, invalid("the path must be absolute")
	case dir != "":
		write = func() (storage.Backup, error) { return svc.queue.BackupInto(ctx, dir, keep) }
	}
	b, err := write()
	if err != nil {
		return nil, backupProblem(err)
	}
	user := ""
	if u := access.UserIn(ctx); u != nil {
		user = u.Name()
	}
	svc.log.Info("a backup was written", "to", b.To, "removed", b.Removed, "user", user)
	return &backupOutput{backupInfo{To: b.To, Files: b.Files, Bytes: b.Bytes, LastID: b.LastID, Removed: b.Removed}}, nil
}

// backupProblem returns the problem of a backup that failed. In contrast to others it has the text of the error: it is
// for administrators, and is about files whose path they have given.
func backupProblem(err error) error {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, storage.ErrClosed), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, storage.ErrNoBackup):
		status = http.StatusNotImplemented
	case errors.Is(err, storage.ErrBackupPath), errors.Is(err, storage.ErrBackupRunning):
		status = http.StatusConflict
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		status = http.StatusInsufficientStorage
	}
	return newProblem(status, codeBackup, "%v", err)
}

// fromThisMachine reports whether a request came over a unix socket or from a loopback address, and not through a proxy.
func fromThisMachine(r *http.Request) bool {
	if access.Proxied(r.Context()) {
		return false
	}
	if local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); local != nil && local.Network() == "unix" {
		return true
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}
