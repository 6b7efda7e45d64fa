package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Nginx starts nginx for a test, with which it ends, from the configuration in a file. In its text old and new strings
// are replaced, as by strings.NewReplacer. addr is where it then listens. Without nginx the test is skipped.
func Nginx(tb testing.TB, file, addr string, replaced ...string) *Process {
	tb.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		tb.Skip("there is no nginx; `make deps` installs it")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	own := "daemon off; master_process off; error_log stderr; pid nginx.pid;\n"
	inHTTP := "http {\naccess_log off;\n"
	for _, of := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		inHTTP += fmt.Sprintf("%s_temp_path %s;\n", of, of)
	}
	config := filepath.Join(dir, "nginx.conf")
	all := strings.NewReplacer(append(replaced, "http {", inHTTP)...).Replace(string(text))
	if err := os.WriteFile(config, []byte(own+all), 0o600); err != nil {
		tb.Fatal(err)
	}
	p, err := Start(exec.Command(path, "-e", "stderr", "-p", dir, "-c", config))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Kill)
	if err := p.AwaitWithin(time.Minute, Accepts("tcp", addr)); err != nil {
		tb.Fatal(err)
	}
	return p
}
