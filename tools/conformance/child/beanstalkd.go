package child

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Beanstalkd starts the real beanstalkd on a unix socket, for a test, with which it ends, and
// returns its address. It is the one on the path, or $REDSTALK_BEANSTALKD. Without one the test
// is skipped.
func Beanstalkd(tb testing.TB, args ...string) (p *Process, addr string) {
	tb.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("REDSTALK_BEANSTALKD"), "beanstalkd"))
	if err != nil {
		tb.Skip("there is no beanstalkd; `make deps` installs it")
	}
	return Serve(tb, exec.Command(path, args...))
}

// Serve starts a server for a test with beanstalkd's flag -l, on a unix socket, and returns its
// address. The server ends with the test.
func Serve(tb testing.TB, cmd *exec.Cmd) (p *Process, addr string) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "") // the path of a socket must be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	addr = "unix:" + socket
	cmd.Args = append(cmd.Args, "-l", addr)
	if p, err = Start(cmd); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Kill)
	if err := p.AwaitWithin(time.Minute, Accepts("unix", socket)); err != nil {
		tb.Fatal(err)
	}
	return p, addr
}
