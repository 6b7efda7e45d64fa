package access

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadNotRegular: anything but a regular file is refused at once.
func TestReadNotRegular(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, link, os.DevNull} {
		if text, err := ReadFile(path); err == nil || err.Error() != path+" is not a regular file" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// TestWarnsOfReadableSecrets: a file with secrets that every user of the machine can read or
// change is read, with a warning.
func TestWarnsOfReadableSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(path, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, can := range map[os.FileMode]string{0o600: "", 0o440: "", 0o660: "", 0o644: "read", 0o602: "change", 0o646: "read and change"} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		text, err := ReadSecrets(path, slog.New(slog.NewTextHandler(&log, nil)))
		if message := log.String(); string(text) != "s3cret" || strings.Contains(message, "file="+path) != (can != "") || can != "" && !strings.Contains(message, "can "+can+" a file") || strings.Contains(message, "s3cret") {
			t.Errorf("%o: %q, %v: %s", mode, text, err, message)
		}
	}
}
