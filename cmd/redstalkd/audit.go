package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"redstalk/storage/telemetry"
)

// auditFile is the file of --audit. A line that cannot be written is lost, which the log says: the act that it is
// about has happened.
type auditFile struct {
	path   string
	log    *slog.Logger
	failed telemetry.Throttle

	// Of Write only:
	written *os.File // the last file to which was written
	cut     bool     // it ends in the middle of a line

	mu   sync.Mutex // not held while a line is written, which can take for ever
	file *os.File
}

// openAudit opens the file of --audit and returns a log of acts, and what ends it; both are nil without the
// flag.
func (p *program) openAudit() (err error) {
	if p.auditPath == "" {
		return nil
	}
	f := &auditFile{path: p.auditPath, log: p.log}
	if f.file, err = openAppend(f.path); err != nil {
		return failure(exitFailure, "--audit: %w", err)
	}
	p.auditFile, p.auditSink = f, newLineSink(f)
	p.audit = newAuditLog(p.auditSink)
	p.auditSink.dropped = func(w io.Writer, lines int) {
		newAuditLog(w).Warn("lines-dropped", "count", lines)
	}
	return nil
}

// newAuditLog returns a log of acts, each a JSON object in a line.
func newAuditLog(w io.Writer) *slog.Logger {
	rename := func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.MessageKey:
			a.Key = "act"
		case slog.LevelKey:
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: rename}))
}

// openAppend opens a file to append to. It does not wait for a reader of a named pipe: without one it fails.
func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
}

// endsInLine reports whether a regular file ends in the middle of a line, as after a full disk.
func endsInLine(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Write implements io.Writer, for one goroutine.
func (f *auditFile) Write(lines []byte) (int, error) {
	f.mu.Lock()
	file := f.file
	f.mu.Unlock()
	if file != f.written {
		f.written, f.cut = file, endsInLine(f.path)
	}
	if f.cut {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := file.Write(lines)
	if n > 0 {
		f.cut = lines[n-1] != '\n'
	}
	if errors.Is(err, os.ErrClosed) && f.replaced(file) {
		return f.Write(lines[bytes.LastIndexByte(lines[:n], '\n')+1:]) // whole lines, to the new file
	}
	if err != nil {
		f.failed.Error(f.log, "acts could not be written to the file of --audit", "err", err)
	}
	return n, err
}

// replaced reports whether reopen has put another file in the place of this one.
func (f *auditFile) replaced(file *os.File) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != file
}

// reopen opens the file again, which somebody has renamed. If that fails the old one stays in use. The lines that are
// being written to the old one, such as a pipe that nobody reads, are written to the new one.
func (f *auditFile) reopen() {
	file, err := openAppend(f.path)
	if err != nil {
		f.log.Error("the file of --audit cannot be opened again; the one that is open stays in use", "err", err)
		return
	}
	f.mu.Lock()
	old := f.file
	f.file = file
	f.mu.Unlock()
	old.Close()
}

// act logs an act of a signal.
func (p *program) act(what string) {
	if p.audit != nil {
		p.audit.Info(what, "target", "", "user", "", "entrance", "signal", "peer", "", "result", "")
	}
}

// endAudit writes the last lines.
func (p *program) endAudit() {
	if p.auditSink != nil {
		p.auditSink.close("")
		p.auditFile.file.Close()
	}
}
