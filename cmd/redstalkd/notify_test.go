package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNotify: systemd is notified when connections are served, and when shutdown begins.
func TestNotify(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	cmd := command("-p0")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+path)
	p := start(t, cmd)
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		b := make([]byte, 100)
		n, err := conn.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("%q, %v, want %q", b[:n], err, want)
		}
		if want == "READY=1" {
			p.signal(t, syscall.SIGTERM)
		}
	}
	if code := p.code(t); code != 0 {
		t.Errorf("code %d: %s", code, p.stderr)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, "-p0")
	_, port, _ := net.SplitHostPort(addr)
	for _, host := range []string{"127.0.0.1", "0.0.0.0"} {
		if code, out, text := run(t, command("healthcheck", "-l", host, "-p", port)); code != 0 || out+text != "" {
			t.Errorf("%s: %d, %s%s", host, code, out, text)
		}
	}
	dead := "unix:" + filepath.Join(t.TempDir(), "nobody")
	if code, _, text := run(t, command("healthcheck", "-l", dead)); code != 1 || !strings.Contains(text, "does not answer") {
		t.Errorf("%d, %s", code, text)
	}
}
