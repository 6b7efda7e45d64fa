package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAuditStalledPipe: a pipe that nobody reads any more holds up neither SIGHUP nor SIGTERM.
func TestAuditStalledPipe(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "acts")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	p, addr := serve(t, "-p0", "--store", "memory:", "--audit", file)
	fillPipe(t, dial(t, addr), reader)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(file); bytes.Contains(text, []byte(`"act":"reload"`)) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the file was not opened again")
		}
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// fillPipe sends acts until a pipe is full of them.
func fillPipe(t *testing.T, c *client, pipe *os.File) {
	t.Helper()
	size, _, errno := syscall.Syscall(syscall.SYS_FCNTL, pipe.Fd(), syscall.F_GETPIPE_SZ, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	for sent := 0; sent <= 2*int(size); sent += 100 { // a line is longer than 100 bytes
		c.ask("pause-tube default 0\r\n", "PAUSED")
	}
}

// TestAuditHalfLine: when a disk was full in the middle of a line, the next act has a line of its own, also after a restart.
func TestAuditHalfLine(t *testing.T) {
	t.Parallel()
	disk := mountDisk(t, 64<<10)
	file := filepath.Join(disk, "acts")
	p, addr := serve(t, "-p0", "--store", "memory:", "--audit", file)
	fill := func() {
		c := dial(t, addr)
		for sent := 0; sent <= 64<<10; sent += 100 {
			c.ask("pause-tube default 0\r\n", "PAUSED")
		}
	}
	fill()
	p.stderr.await(t, "(acts could not be written).*no space left")
	growDisk(t, disk, 128<<10)
	dial(t, addr).ask("pause-tube default 1\r\n", "PAUSED")
	awaitWholeLine(t, file)
	fill()
	p.signal(t, syscall.SIGTERM)
	p.code(t)
	growDisk(t, disk, 1<<20)
	_, addr = serve(t, "-p0", "--store", "memory:", "--audit", file)
	dial(t, addr).ask("pause-tube default 1\r\n", "PAUSED")
	awaitWholeLine(t, file)
}

// awaitWholeLine waits until a file has a line after a half one, and demands that it begins as lines do.
func awaitWholeLine(t *testing.T, file string) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for end := time.Now().Add(patience); size()%(64<<10) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the act has no line")
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if last := string(lines[len(lines)-1]); strings.Count(last, `"time"`) != 1 || !strings.HasPrefix(last, `{"time"`) {
		t.Errorf("the last line is %s", last)
	}
}
