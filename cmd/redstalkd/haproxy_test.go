package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	raw "redstalk/protocol/client"
	"redstalk/tools/conformance/child"
	"redstalk/tools/redistest"
)

// TestBehindHAProxy: with the example configuration, clients are distributed to two instances. When one
// dies, its clients are disconnected, and reach the other one.
func TestBehindHAProxy(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("there is no haproxy")
	}
	text, err := os.ReadFile("../../tools/deploy/haproxy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	url := redistest.Start(t).URL()
	first, one := serve(t, "-p0", "--store", url)
	_, two := serve(t, "-p0", "--store", url)
	at := "127.0.0.1:" + child.FreePort()
	replaced := strings.NewReplacer("127.0.0.1:11310", at, "127.0.0.1:11300", one, "127.0.0.1:11301", two).Replace(string(text))
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy := start(t, exec.Command(program, "-db", "-f", path))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", proxy.stderr)
		}
	})

	clients := clientsOfTwo(t, at)
	for _, c := range clients {
		if err := c.Ask([]byte("put 0 0 60 1\r\nx\r\n"), 1, raw.Expect(raw.Inserted)); err != nil {
			t.Error(err)
		}
	}
	first.signal(t, syscall.SIGKILL)
	<-first.Ended
	survivors := 0
	for _, c := range clients {
		if _, err := c.Page("stats"); err == nil {
			survivors++
		}
	}
	if survivors != 1 {
		t.Errorf("%d connections go on, want 1", survivors)
	}
	awaitJob(t, at)
}

// clientsOfTwo connects through a proxy until there is a connection to either of two instances. They
// are by the number of the process.
func clientsOfTwo(t *testing.T, at string) map[string]*raw.Conn {
	t.Helper()
	clients := make(map[string]*raw.Conn)
	for began := time.Now(); len(clients) < 2; {
		if time.Since(began) > patience {
			t.Fatalf("clients came to %d instances", len(clients))
		}
		c, err := raw.Dial(at, patience)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c.Timeout = patience
		t.Cleanup(func() { c.Close() })
		if page, err := c.Page("stats"); err == nil {
			pid, _ := page.Value("pid")
			clients[pid] = c
		}
	}
	return clients
}

// awaitJob connects through a proxy and reserves, more than once if the proxy has not noticed yet that
// an instance is gone.
func awaitJob(t *testing.T, at string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := raw.Dial(at, patience)
		if err == nil {
			c.Timeout = patience
			body := ""
			err = c.Ask([]byte("reserve-with-timeout 0\r\n"), 1, func(r *raw.Reply) error { body = string(r.Body); return nil })
			c.Close()
			if err == nil && body == "x" {
				return
			}
		}
		if time.Since(began) > patience {
			t.Fatalf("nobody serves: %v", err)
		}
	}
}
