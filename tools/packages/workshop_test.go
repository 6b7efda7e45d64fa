package packages

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/conformance/child"
	"redstalk/tools/conformance/compile"
)

// A workshop has the program of the server, two clones of the repository, and a directory for each client.
type workshop struct {
	root   string
	client string
	env    []string
}

// open makes a workshop.
func open(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{root: t.TempDir()}
	if err := compile.Program(w.root+"/redstalkd", "redstalk/cmd/redstalkd"); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	w.env = append(os.Environ(), "CLONE="+w.root+"/clone", "RENAMED="+w.root+"/renamed",
		"VERSION="+w.sh(t, "", "sed -n 's/^VERSION ?= //p' "+here+"/Makefile"),
		// What the go command would fetch from the public home comes from a clone.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+w.root+"/renamed.insteadOf", "GIT_CONFIG_VALUE_0=https://"+home,
		"GONOSUMDB="+home, "GOFLAGS=-trimpath -modcacherw",
		"PIP_NO_INDEX=1", "PIP_NO_BUILD_ISOLATION=0", "PIP_DISABLE_PIP_VERSION_CHECK=1",
		"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false",
		"COMPOSER_ALLOW_SUPERUSER=1", "COMPOSER_NO_INTERACTION=1", "COMPOSER_HOME="+w.root+"/composer")
	w.sh(t, "", `mkdir $CLONE
		(cd `+here+` && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t $CLONE)
		cd $CLONE
		git init -q
		git add -A
		git -c user.name=x -c user.email=x@example.org commit -q -m 'As it is'
		git clone -q $CLONE $RENAMED
		cd $RENAMED
		sh tools/rename-module.sh `+home+`
		git -c user.name=x -c user.email=x@example.org commit -q -a -m 'With a public home'
		git tag clients/go/v$VERSION
		git tag clients/go/otel/v$VERSION`)
	return w
}

// of returns the workshop of one client.
func (w *workshop) of(t *testing.T, client string) *workshop {
	t.Helper()
	dir := filepath.Join(w.root, client)
	w.sh(t, "", "mkdir -p "+dir+"/built")
	cache, proxy, _ := strings.Cut(w.sh(t, "", "go env GOMODCACHE GOPROXY"), "\n")
	return &workshop{root: dir, client: client, env: append(w.env[:len(w.env):len(w.env)], "BUILT="+dir+"/built",
		"GOMODCACHE="+dir+"/modules", "GOPROXY=file://"+dir+"/built/cache/download,file://"+cache+"/cache/download,"+proxy)}
}

// command makes a command of sh in a directory of the workshop. What it starts ends with it.
func (w *workshop) command(ctx context.Context, dir, commands string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-ec", commands)
	cmd.Dir = filepath.Join(w.root, dir)
	cmd.Env = append(w.env[:len(w.env):len(w.env)], "GEM_HOME="+cmd.Dir, "PATH="+cmd.Dir+"/bin:"+w.root+"/bin:"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// sh runs commands, and returns what they print.
func (w *workshop) sh(t *testing.T, dir, commands string) string {
	t.Helper()
	out, err := w.command(t.Context(), dir, commands).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, out)
	}
	return strings.TrimSpace(string(out))
}

// await runs commands until they print a line with this text.
func (w *workshop) await(t *testing.T, dir, commands, text string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	cmd := w.command(ctx, dir, "exec 2>&1; "+commands)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(out); !strings.Contains(said, text); said += lines.Text() + "\n" {
		if !lines.Scan() {
			t.Errorf("%s does not print %q, but:\n%s", commands, text, said)
			break
		}
	}
	stop()
	cmd.Wait()
}

// serve starts a server, and returns its port.
func (w *workshop) serve(t *testing.T) string {
	t.Helper()
	port := child.FreePort()
	server, err := child.Start(exec.Command(filepath.Join(w.root, "../redstalkd"), "-l", "127.0.0.1", "-p", port, "--store", "memory:"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	if err := server.AwaitWithin(time.Minute, child.Accepts("tcp", "127.0.0.1:"+port)); err != nil {
		t.Fatal(err)
	}
	return port
}

// write writes a file.
func (w *workshop) write(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join(w.root, file)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// find returns the one file below a directory that has a name of this pattern.
func (w *workshop) find(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(w.root, dir, pattern))
	if len(found) != 1 {
		t.Fatalf("%s is %v in %s", pattern, found, dir)
	}
	path, _ := filepath.Rel(w.root, found[0])
	return path
}
