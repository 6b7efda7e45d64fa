package main

import (
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

	mu   sync.Mutex
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

// Write implements io.Writer.
func (f *auditFile) Write(lines []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.file.Write(lines)
	if err != nil {
		f.failed.Error(f.log, "acts could not be written to the file of --audit", "err", err)
	}
	return n, err
}

// reopen opens the file again, which somebody has renamed. If that fails the old one stays in use.
func (f *auditFile) reopen() {
	file, err := openAppend(f.path)
	if err != nil {
		f.log.Error("the file of --audit cannot be opened again; the one that is open stays in use", "err", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file.Close()
	f.file = file
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
