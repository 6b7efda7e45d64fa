package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"redstalk/tools/redistest"
)

// runCheck runs the program inside the test with --check and these arguments and variables (REDSTALK_ is added).
func runCheck(args []string, variables map[string]string) (code int, stdout, stderr string) {
	full, environ := make(map[string]string), []string(nil)
	for name, value := range variables {
		full["REDSTALK_"+name] = value
		environ = append(environ, "REDSTALK_"+name+"="+value)
	}
	m := &Main{Environ: environ, LookupEnv: func(name string) (string, bool) {
		value, found := full[name]
		return value, found
	}}
	out, log := newOutput(), newOutput()
	code = m.Run(context.Background(), append(args, "--check"), out, log)
	return code, out.String(), log.String()
}

// TestCheck: each value is printed with its source, and no secret is.
func TestCheck(t *testing.T) {
	t.Parallel()
	const secret = "open-sesame"
	url := "redis://u:" + secret + "@10.0.0.5:6379/0"
	for _, test := range []struct {
		args, env string
		want      []string
	}{
		{"", "", []string{"listen 127.0.0.1 default", "http none default", "quote-stats off default", "store embedded:./redstalk-data default"}},
		{"-p 7 -p 8", "PORT=9 LISTEN=::1", []string{"port 8 --port", "listen ::1 REDSTALK_LISTEN"}},
		{"", "STORE=" + url, []string{"store redis://xxxxx@10.0.0.5:6379/0 REDSTALK_STORE"}},
		{"--store " + url, "STORE=memory:", []string{"store redis://xxxxx@10.0.0.5:6379/0 --store"}},
		{"", "BINLOG=d", []string{"binlog d REDSTALK_BINLOG", "store embedded:d REDSTALK_BINLOG"}},
		{"-b d", "STORE=" + url, []string{"binlog d --binlog", "store embedded:d --binlog"}},
		{"--store memory:", "BINLOG=d", []string{"binlog none default", "store memory: --store"}},
		{"-F", "FSYNC_MS=50", []string{"no-fsync on --no-fsync", "fsync-ms 0 default"}},
		{"-F -f 50", "", []string{"no-fsync off default", "fsync-ms 50 --fsync-ms"}},
		{"", "FSYNC_MS=50 NO_FSYNC=0", []string{"no-fsync off REDSTALK_NO_FSYNC", "fsync-ms 50 REDSTALK_FSYNC_MS"}},
		{"--http-host a --http-host=b -VV", "HTTP_HOST=c", []string{"http-host a,b --http-host", "verbose 2 --verbose"}},
		{"-z", "", nil},
	} {
		args := strings.Fields(test.args)
		if test.want == nil {
			if code, out, _ := runCheck(append(args, "nonsense"), nil); code != exitUsage || out != "" {
				t.Errorf("%s: %d, %s", test.args, code, out)
			}
			continue
		}
		variables := make(map[string]string)
		for _, pair := range strings.Fields(test.env) {
			name, value, _ := strings.Cut(pair, "=")
			variables[name] = value
		}
		code, out, log := runCheck(args, variables)
		lines := strings.Split(regexp.MustCompile(` +`).ReplaceAllString(out, " "), "\n")
		for _, want := range test.want {
			if code != 0 || !slices.Contains(lines, want) {
				t.Errorf("%s, %s: %d, no %q in\n%s", test.args, test.env, code, want, out)
			}
		}
		if strings.Contains(out+log, secret) {
			t.Errorf("%s, %s: a secret in\n%s%s", test.args, test.env, out, log)
		}
	}
}

// TestCheckReadsFiles: a file that would end a start ends a check.
func TestCheckReadsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, dir)
	userFile(t, filepath.Join(dir, "users.yml"))
	good := []string{
		"--access", filepath.Join(dir, "users.yml"), "--tls", "127.0.0.1:1", "--http-tls", "127.0.0.1:1",
		"--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"),
	}
	if code, out, log := runCheck(good, nil); code != 0 || !strings.Contains(out, "cert.pem") {
		t.Errorf("%d, %s", code, log)
	}
	for _, flag := range []string{"--access", "--tls-cert", "--tls-key", "--http-tls-cert", "--push-secrets", "--push-ca"} {
		args := append(slices.Clone(good), "--push-allow", "*", "--http-tls-key", filepath.Join(dir, "key.pem"), "--http-tls-cert", filepath.Join(dir, "cert.pem"))
		code, _, log := runCheck(append(args, flag, filepath.Join(dir, "nothing")), nil)
		if code == 0 || !strings.Contains(log, filepath.Join(dir, "nothing")) {
			t.Errorf("%s: %d, %s", flag, code, log)
		}
	}
	if code, _, log := runCheck([]string{"fsck"}, nil); code != exitUsage {
		t.Errorf("fsck: %d, %s", code, log)
	}
}

// TestCheckOldProgram: values of the file of an older program have its path as their source, unless a flag overrides them.
func TestCheckOldProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "dq.ini")
	text := "bind_address = 127.0.0.1:9277\nqueue_block_timeout = 100\nredis.host = 10.0.0.5:6379\nredis.password = open-sesame\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, log := runCheck([]string{"ouqiang", "-c", file, "--gateway-wait", "7s"}, nil)
	for _, want := range []string{
		`gateway +ouqiang=127\.0\.0\.1:9277 +` + file, `store +redis://xxxxx@10\.0\.0\.5:6379\S* +` + file,
		`gateway-wait +7s +--gateway-wait`, `port +0 +in place of an old program`, `max-job-size +16777216 +in place of an old program`,
	} {
		if code != 0 || !regexp.MustCompile(`(?m)^`+want+`$`).MatchString(out) {
			t.Errorf("%d, no %q in\n%s%s", code, want, out, log)
		}
	}
	if strings.Contains(out+log, "sesame") {
		t.Error(out, log)
	}
}

// TestUnknownVariables: a variable that is no setting is warned of, unless the client redstalk or Kubernetes means it.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	known := map[string]string{"PORT": "7", "SECRET": "s", "AUTH_USER": "u", "CLIENT_TLS_NAME": "n", "SERVICE_HOST": "h", "SERVICE_PORT_HTTP": "1", "PORT_11300_TCP_ADDR": "h", "WEB_SERVICE_PORT": "1", "EMPTY": ""}
	if _, _, log := runCheck(nil, known); log != "" {
		t.Errorf("%s", log)
	}
	unknown := maps.Clone(known)
	unknown["PROT"], unknown["MAX_JOBSIZE"], unknown["VERSION"] = "open-sesame", "1", "1"
	_, _, log := runCheck(nil, unknown)
	if !strings.Contains(log, "unknown variables: REDSTALK_MAX_JOBSIZE, REDSTALK_PROT, REDSTALK_VERSION;") || strings.Contains(log, "sesame") {
		t.Errorf("%s", log)
	}
}

// TestPackagedSettings: the server accepts all values of the packaged file of settings together, also those in comments.
func TestPackagedSettings(t *testing.T) {
	t.Parallel()
	text := must(os.ReadFile("../../tools/packages/redstalkd.env"))(t)
	variables := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^#?(REDSTALK_\w+)=(.*)$`).FindAllStringSubmatch(string(text), -1) {
		variables[m[1]] = m[2]
	}
	s, err := configure(nil, func(name string) (string, bool) { value, found := variables[name]; return value, found }, io.Discard)
	for _, name := range []string{"REDSTALK_AUTH_USER", "REDSTALK_SECRET"} { // of redstalkd backup
		if _, has := variables[name]; !has {
			t.Errorf("there is no %s", name)
		}
		delete(variables, name)
	}
	if err != nil || len(s.origins) != len(variables) {
		t.Errorf("%v; %d of %d variables are read", err, len(s.origins), len(variables))
	}
}

// TestHangup: without anything to read again, SIGHUP is ignored with a line in the log.
func TestHangup(t *testing.T) {
	t.Parallel()
	p, addr := serve(t, "-p0")
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, "(ignoring SIGHUP)")
	dial(t, addr).ask("list-tube-used\r\n", "USING default")
	p.end(t)
}

// TestRedisIsLate: a start waits for a Redis that does not accept connections yet.
func TestRedisIsLate(t *testing.T) {
	t.Parallel()
	redis := redistest.StartWithProxy(t)
	redis.Front.Refuse(true)
	p := start(t, command("-V", "-p0", "--store", redis.URL(), "--store-timeout", (2*patience).String()))
	p.stderr.await(t, `(waiting for Redis)`)
	redis.Front.Refuse(false)
	dial(t, p.serving(t)).ask("put 0 0 9 1\r\na\r\n", "INSERTED 1")
	if n := strings.Count(p.stderr.String(), "waiting for Redis"); n != 1 {
		t.Errorf("%d lines about waiting", n)
	}
	p.end(t)
}

// TestRedisStaysAway: a start gives up after --store-timeout, and at once where waiting does not help. The line
// names the address, without its password.
func TestRedisStaysAway(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"redis://u:open-sesame@127.0.0.1:1/0", "redis+sentinel://127.0.0.1:1/m/0", "redis+cluster://127.0.0.1:1", "unix:///nowhere/r.sock"} {
		code, text := startWithout(t, at)
		shown := strings.Replace(at, "u:open-sesame", "xxxxx", 1)
		_, line, _ := strings.Cut(strings.TrimSpace(text), "\n") // after that of the wait
		if code != exitFailure || strings.Contains(line, "\n") || !strings.HasPrefix(line, "redstalkd: opening the store "+shown+": ") || strings.Contains(text, "sesame") {
			t.Errorf("%s: %d, %s", at, code, text)
		}
		if refused := strings.Contains(line, "connection refused"); refused != strings.Contains(at, "127.0.0.1:1") {
			t.Errorf("%s: %s", at, line)
		}
	}
	url := strings.Replace(redistest.Start(t, "--requirepass", "another").URL(), "://", "://:wrong@", 1)
	code, _, log := run(t, command("-p0", "--store", url, "--store-timeout", fmt.Sprint(2*patience)))
	if code != exitFailure || strings.Contains(log, "waiting for Redis") {
		t.Errorf("wrong password: %d, %s", code, log)
	}
}

// startWithout starts the program where no Redis is, with a timeout that lets it try twice: on a busy machine the first
// attempt takes long.
func startWithout(t *testing.T, url string) (code int, log string) {
	t.Helper()
	for timeout := 50 * time.Millisecond; timeout < patience; timeout *= 4 {
		code, _, log = run(t, command("-p0", "--store", url, "--store-timeout", timeout.String()))
		if strings.Contains(log, "waiting for Redis") {
			return code, log
		}
	}
	t.Fatalf("%s: it does not wait for Redis: %s", url, log)
	return 0, ""
}
