package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"redstalk/server"
	"redstalk/storage"
	"redstalk/storage/embedded"
)

func TestPrintAndExit(t *testing.T) {
	for _, flag := range []string{"-v", "--version", "-Vv"} {
		if code, out, _ := run(t, command(flag)); code != 0 || out != "redstalkd dev\n" {
			t.Errorf("%s: %d, %q", flag, code, out)
		}
	}
	for _, flag := range []string{"-h", "--help"} {
		if code, out, _ := run(t, command(flag)); code != 0 || !strings.Contains(out, "--max-job-size") {
			t.Errorf("%s: %d, %q", flag, code, out)
		}
	}
}

// TestFailures: every failure to start prints one line and has its exit code.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "binlog.7"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, takenPort, _ := net.SplitHostPort(taken.Addr().String())

	tests := []struct {
		args []string
		env  string
		code int
		want string
	}{
		{args: []string{"-x"}, code: 5, want: "unknown flag -x"},
		{args: []string{"-p"}, code: 5, want: "flag -p needs a value"},
		{args: []string{"stray"}, code: 5, want: "unexpected argument"},
		{args: []string{"-z", "5x"}, code: 5, want: "not a number"},
		{args: []string{"-p", "99999"}, code: 5, want: "neither a port"},
		{env: "REDSTALK_PORT=99999", code: 5, want: "REDSTALK_PORT"},
		{env: "REDSTALK_FSYNC_MS=-1", code: 5, want: `REDSTALK_FSYNC_MS: "-1" is not a number from 0 to`},
		{env: "REDSTALK_BINLOG_SIZE=99999999999999999999", code: 5, want: "REDSTALK_BINLOG_SIZE"},
		{args: []string{"-p0", "-u", "no such user"}, code: 33, want: `no user "no such user"`},
		{args: []string{"-p", takenPort}, code: 111, want: "address already in use: another server has the port, perhaps a beanstalkd; -p chooses"},
		{args: []string{"-l", "192.0.2.1", "-p", "0"}, code: 1, want: "cannot assign requested address"},
		{args: []string{"-l", "256.1.1.1"}, code: 111, want: "256.1.1.1"},
		{args: []string{"-l", "unix:" + file}, code: 111, want: "is not a socket"},
		{args: []string{"-l", "unix:" + filepath.Join(dir, "no", "dir")}, code: 111, want: "no such file"},
		{args: []string{"-l", "unix:" + strings.Repeat("x", 108)}, code: 111, want: "at most 107 bytes"},
		{args: []string{"-p0", "--store", "redis://u:p@127.0.0.1:port"}, code: 1, want: "redis://xxxxx@127.0.0.1:port"},
		{args: []string{"-p0", "-b", file}, code: 1, want: "opening the store embedded:" + file},
		{args: []string{"-p0", "--no-import", "-b", foreign}, code: 1, want: "there is a binlog of beanstalkd (binlog.7)"},
	}
	for _, test := range tests {
		cmd := command(test.args...)
		cmd.Env = append(cmd.Env, test.env)
		code, out, text := run(t, cmd)
		if code != test.code || out != "" || !strings.Contains(text, test.want) {
			t.Errorf("%q: %d, %q, %q, want %d and %q", test.args, code, out, text, test.code, test.want)
		}
		if !strings.HasPrefix(text, "redstalkd: ") || strings.Count(text, "\n") != 1 {
			t.Errorf("%q: not one line: %q", test.args, text)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "kept" {
		t.Errorf("the file was touched: %q, %v", kept, err)
	}
}

func TestLockedDirectory(t *testing.T) {
	m := &Main{open: func(context.Context, engine) (storage.Store, error) {
		return nil, fmt.Errorf("locking dir: %w", embedded.ErrLocked)
	}}
	p := runInside(t, m, "-p0", "-b", "dir")
	if code := receive(t, p.code); code != 10 || !strings.Contains(p.stderr.String(), "embedded:dir") {
		t.Errorf("%d, %s", code, p.stderr)
	}
}

func TestIdentify(t *testing.T) {
	answers := func(u *user.User, err error) func(string) (*user.User, error) {
		return func(string) (*user.User, error) { return u, err }
	}
	if uid, gid, err := lookupUser("x", answers(&user.User{Uid: "3", Gid: "4"}, nil)); uid != 3 || gid != 4 || err != nil {
		t.Error(uid, gid, err)
	}
	if _, _, err := lookupUser("x", answers(nil, user.UnknownUserError("x"))); exitCode(err) != 33 {
		t.Error(err)
	}
	if _, _, err := lookupUser("x", answers(nil, errors.New("broken"))); exitCode(err) != 32 {
		t.Error(err)
	}
	if _, _, err := lookupUser("x", answers(&user.User{Uid: "S-1-5", Gid: "4"}, nil)); exitCode(err) != 32 {
		t.Error(err)
	}
}

func needRoot(t *testing.T) *user.User {
	nobody, err := user.Lookup("nobody")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("needs root and a user nobody")
	}
	return nobody
}

func TestBecomeUser(t *testing.T) {
	nobody := needRoot(t)
	p, addr := serve(t, "-p0", "-u", "nobody")
	dial(t, addr).ask("put 0 0 9 1\r\na\r\n", "INSERTED 1")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	if err != nil {
		t.Skip(err)
	}
	four := func(id string) string { return strings.Repeat("\t"+id, 4) + "\n" }
	for _, want := range []string{
		"\nUid:" + four(nobody.Uid), "\nGid:" + four(nobody.Gid), "\nGroups:\t" + nobody.Gid + " \n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
}

func TestBecomeUserRefused(t *testing.T) {
	needRoot(t)
	cmd := command("-p0", "-u", "root")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if code, _, text := run(t, cmd); code != 34 || !strings.Contains(text, `becoming the user "root"`) {
		t.Errorf("%d, %s", code, text)
	}
}

// TestListensBeforeTheStoreIsOpen: connections before serving are not refused but wait in the backlog.
func TestListensBeforeTheStoreIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	opening, open := make(chan struct{}), make(chan struct{})
	m := &Main{open: func(context.Context, engine) (storage.Store, error) {
		close(opening)
		<-open
		return embedded.NewMemory(), nil
	}}
	runInside(t, m, "-l", "unix:"+path)
	receive(t, opening)
	c := dial(t, path)
	c.send("put 0 0 9 1\r\na\r\n")
	close(open)
	c.ask("", "INSERTED 1")
}

func TestDrain(t *testing.T) {
	p, addr := serve(t, "-p0")
	c := dial(t, addr)
	c.ask("put 0 0 9 1\r\na\r\n", "INSERTED 1")
	p.signal(t, syscall.SIGUSR1)
	p.stderr.await(t, "msg=.draining")
	c.ask("put 0 0 9 1\r\nb\r\n", "DRAINING")
	p.signal(t, syscall.SIGUSR1)
	c.ask("reserve\r\n", "RESERVED 1 1", "a")
	c.ask("delete 1\r\n", "DELETED")
	p.signal(t, syscall.SIGUSR2)
	p.stderr.await(t, "msg=.not draining")
	c.ask("put 0 0 9 1\r\nb\r\n", "INSERTED 2")
}

// TestRaiseMaxProcs: loops do not take threads from the rest of the program, unless GOMAXPROCS
// is set.
func TestRaiseMaxProcs(t *testing.T) {
	usual := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(usual)
	raiseMaxProcs(func(string) (string, bool) { return "2", true })
	if got := runtime.GOMAXPROCS(0); got != usual {
		t.Errorf("with GOMAXPROCS set: %d threads, want %d", got, usual)
	}
	raiseMaxProcs(func(string) (string, bool) { return "", false })
	if got := runtime.GOMAXPROCS(0); got != usual+server.Loops() {
		t.Errorf("%d threads, want %d and one for each of %d loops", got, usual, server.Loops())
	}
}
