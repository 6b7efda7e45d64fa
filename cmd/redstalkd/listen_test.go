package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestListenTCP(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "::1", "::"} {
		if strings.Contains(host, ":") {
			l, err := net.Listen("tcp", "[::1]:0")
			if err != nil {
				t.Logf("no IPv6 here: %v", err)
				continue
			}
			l.Close()
		}
		_, addr := serve(t, "-p0", "-l", host)
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		switch host {
		case "0.0.0.0":
			addr = "127.0.0.1:" + port
			if conn, err := net.Dial("tcp", "[::1]:"+port); err == nil {
				conn.Close()
				t.Error("0.0.0.0 listens on IPv6 as well")
			}
		case "::":
			addr = "[::1]:" + port
			dial(t, "127.0.0.1:"+port).ask("watch a\r\n", "WATCHING 2")
		}
		dial(t, addr).ask("watch a\r\n", "WATCHING 2")
	}
}

func TestDefaultAddress(t *testing.T) {
	_, addr := serve(t, "-p0")
	if !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Error(addr)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	p, _ := serve(t, "-l", "unix:"+path)
	c := dial(t, path)
	c.ask("watch a\r\n", "WATCHING 2")

	// A second server does not replace the first.
	code, _, text := run(t, command("-l", "unix:"+path))
	if code != 111 || !strings.Contains(text, "another server answers on "+path) {
		t.Errorf("%d, %s", code, text)
	}
	dial(t, path).ask("watch a\r\n", "WATCHING 2")

	// A killed server leaves its file, which the next one replaces.
	p.Cmd.Process.Kill()
	p.code(t)
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	p, _ = serve(t, "-l", "unix:"+path)
	dial(t, path).ask("watch a\r\n", "WATCHING 2")
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Errorf("%d, %s", code, p.stderr)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestUnixSocketNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"@at", strings.Repeat("x", maxUnixPath)} {
		cmd := command("-V", "-l", "unix:"+name)
		cmd.Dir = dir
		p := start(t, cmd)
		p.serving(t)
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Type() != os.ModeSocket {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestUnixSocketReplaced: the server does not remove a socket file that is no longer its own.
func TestUnixSocketReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	p, _ := serve(t, "-l", "unix:"+path)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p.signal(t, syscall.SIGTERM)
	p.code(t)
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// passed starts the binary as systemd would, with these files from descriptor
// 3 on.
func passed(t *testing.T, fds string, files []*os.File, args ...string) *process {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary}, args...)...)
	cmd.Dir = filepath.Dir(binary)
	cmd.Env = []string{"LISTEN_FDS=" + fds}
	cmd.ExtraFiles = files
	return start(t, cmd)
}

func fileOf(t *testing.T, l interface{ File() (*os.File, error) }) *os.File {
	t.Helper()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestSocketActivation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	for _, l := range []net.Listener{tcp, unix} {
		file := fileOf(t, l.(interface{ File() (*os.File, error) }))
		p := passed(t, "1", []*os.File{file}, "-V", "-p", "1", "-l", "192.0.2.1")
		if addr := p.serving(t); addr != l.Addr().String() {
			t.Errorf("serving %s, want %s", addr, l.Addr())
		}
		dial(t, l.Addr().String()).ask("watch a\r\n", "WATCHING 2")
		for _, option := range []string{"--listen", "--port"} {
			if !strings.Contains(p.stderr.String(), "option="+option+" ") {
				t.Errorf("no warning of %s:\n%s", option, p.stderr)
			}
		}
		p.signal(t, syscall.SIGTERM)
		if code := p.code(t); code != 0 {
			t.Error(code)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("systemd's socket was removed: %v", err)
	}

	// More than one.
	files := []*os.File{fileOf(t, tcp.(*net.TCPListener)), fileOf(t, unix.(*net.UnixListener))}
	p := passed(t, "2", files, "-V")
	if addr := p.serving(t); addr != tcp.Addr().String() || !strings.Contains(p.stderr.String(), "only the first is used") {
		t.Errorf("serving %s:\n%s", addr, p.stderr)
	}
}

func TestSocketActivationRefused(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connected, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	for _, test := range []struct {
		fds  string
		file *os.File
		want string
	}{
		{"1", file, "descriptor 3 is not a socket"},
		{"1", fileOf(t, udp.(*net.UDPConn)), "not a listening stream socket"},
		{"1", fileOf(t, connected.(*net.TCPConn)), "not a listening stream socket"},
		{"many", file, "LISTEN_FDS"},
	} {
		p := passed(t, test.fds, []*os.File{test.file}, "-p0")
		if code := p.code(t); code != 111 || !strings.Contains(p.stderr.String(), test.want) {
			t.Errorf("%d, %s, want %q", code, p.stderr, test.want)
		}
	}
}

// TestSocketActivationOfAnother: sockets that were passed to another process are ignored.
func TestSocketActivationOfAnother(t *testing.T) {
	cmd := command("-Vp0")
	cmd.Env = append(cmd.Env, fmt.Sprint("LISTEN_PID=", os.Getpid()), "LISTEN_FDS=1")
	start(t, cmd).serving(t)
}

// TestDescriptorLimit: the soft limit of descriptors is raised to the hard one, or one less, by
// package syscall.
func TestDescriptorLimit(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn 64; ulimit -Hn 4000; exec "$0" "$@"`, binary, "-Vp0")
	p := start(t, cmd)
	p.serving(t)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.Pid()))
	if err != nil {
		t.Skip(err)
	}
	if !regexp.MustCompile(`Max open files +(4000|3999) +4000`).Match(limits) {
		t.Errorf("%s", limits)
	}
}

// TestUnixSocketAtOnce: of several servers that start at the same time, one gets the socket of a
// dead one.
func TestUnixSocketAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	for range 100 {
		stale := must(net.ListenUnix("unix", &net.UnixAddr{Name: path}))(t)
		stale.SetUnlinkOnClose(false)
		stale.Close()
		for conn, err := net.Dial("unix", path); err == nil; conn, err = net.Dial("unix", path) {
			conn.Close() // another test starts a process, which has all descriptors until it executes its program
		}
		taken := make(chan net.Listener, 4)
		for range cap(taken) {
			go func() {
				l, _ := listenFile(t.Context(), path)
				taken <- l
			}()
		}
		n := 0
		for range cap(taken) {
			if l := <-taken; l != nil {
				n++
				defer l.Close()
			}
		}
		if n != 1 {
			t.Fatalf("%d servers have the socket", n)
		}
		os.Remove(path)
	}
}
