//go:build !nogateways

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/redistest"
)

// tasksPatience is the timeout of one run of tasks.js, which takes about a minute.
const tasksPatience = 5 * time.Minute

// TestTaskClients runs testdata/clients/node/tasks.js: a gRPC client and callback servers in
// another language, made only from zywaited's .proto file, with the binary in
// place of the old program. On Redis one of two instances is killed, on disk the only one, which
// is then restarted.
func TestTaskClients(t *testing.T) {
	if !*withClients {
		t.Skip("wants -clients")
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		tryTasks(t, "never", newTaskServer(t, "", "--store", "memory:"))
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		tryTasks(t, "back", newTaskServer(t, "", "--store", "embedded:"+t.TempDir()))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		store := fmt.Sprintf("[redis]\naddr = %q\ndb = 3\n", redistest.Start(t).Addr)
		tryTasks(t, "gone", newTaskServer(t, store), newTaskServer(t, store))
	})
}

// taskServer is redstalkd in place of zywaited. It keeps its addresses when it is
// restarted.
type taskServer struct {
	grpc, http, api string // HOST:PORT
	folder          string // with the certificate that callbacks by HTTPS have
	args            []string
	running         *process
}

// newTaskServer starts a server with a configuration file of which a part is given.
func newTaskServer(t *testing.T, config string, args ...string) *taskServer {
	t.Helper()
	at := func() string { return net.JoinHostPort("127.0.0.1", child.FreePort()) }
	s := &taskServer{grpc: at(), http: at(), api: at(), folder: t.TempDir()}
	certificate(t, s.folder, "localhost")
	file := filepath.Join(s.folder, "config.toml")
	config = fmt.Sprintf("base_level = \"second\"\nrole = 3\n%s[services]\ntypes = [\"GRPC\", \"HTTP\"]\n[services.http]\naddr = %q\n[services.grpc]\naddr = %q\n",
		config, s.http, s.grpc)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = append([]string{"zywaited", "-f", file, "-V", "--http", s.api, "--push-allow", "localhost"}, args...)
	return s
}

// start starts the server, which trusts the certificate in a folder.
func (s *taskServer) start(t *testing.T, folder string) {
	t.Helper()
	cmd := command(append(s.args, "--push-ca", filepath.Join(folder, "cert.pem"))...)
	cmd.Env = cmd.Env[:1] // without REDSTALK_STORE
	s.running = start(t, cmd)
	s.running.stderr.await(t, "msg=serving listener=(zywaited-grpc)")
	s.running.gateURL(t, "zywaited")
	s.running.stderr.await(t, "msg=serving listener=http (url)")
}

// kill kills the server without a warning.
func (s *taskServer) kill(t *testing.T) {
	t.Helper()
	s.running.signal(t, syscall.SIGKILL)
	s.running.code(t)
}

// tryTasks runs tasks.js with some servers. When that requests to kill the first one, after decides what
// happens: "gone", "back", or "never".
func tryTasks(t *testing.T, after string, servers ...*taskServer) {
	t.Helper()
	first := servers[0]
	program := []string{clientsFolder + "/node/tasks.js", "../../server/gateway/zywaited/pb/delayqueue.proto", first.folder}
	for _, s := range servers {
		s.start(t, first.folder)
		program = append(program, strings.Join([]string{s.grpc, s.http, s.api}, ","))
	}
	ctx, cancel := context.WithTimeout(context.Background(), tasksPatience)
	defer cancel()
	cmd, said := exec.CommandContext(ctx, "node", program...), newOutput()
	cmd.Stderr = said
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make test-clients installs what is missing", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(said, lines.Text())
		if lines.Text() != "kill" {
			continue
		}
		if after != "never" {
			first.kill(t)
		}
		if after == "back" {
			first.start(t, first.folder)
		}
		io.WriteString(in, after+"\n")
	}
	err := cmd.Wait()
	t.Logf("\n%s", said)
	if err != nil {
		t.Errorf("%v (%v)", err, ctx.Err())
	}
}
