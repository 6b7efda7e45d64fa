package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/busy"
	"redstalk/tools/conformance/compile"
)

// TestOnRedstalkd tests what beanstalkd does not support.
func TestOnRedstalkd(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	path := filepath.Join(t.TempDir(), "redstalkd")
	if err := compile.Program(path, "redstalk/cmd/redstalkd"); err != nil {
		t.Fatal(err)
	}
	memory := path + " --store memory: "
	t.Run("expire", func(t *testing.T) { testExpire(t, start(t, memory+"-p {port}")) })
	secure := start(t, memory+"-p {port2} --tls 127.0.0.1:{port} --tls-cert {cert} --tls-key {key} --access {access}")
	t.Run("secure", func(t *testing.T) { testSecure(t, secure) })
	t.Run("run", func(t *testing.T) { testRunSecure(t, secure) })
	t.Run("compare", func(t *testing.T) { testCompareSecure(t, memory) })
}

// start starts a server for one test.
func start(t *testing.T, command string) *running {
	t.Helper()
	s, err := parseServer("redstalkd=" + command)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.stop)
	return r
}

// testExpire needs a server that ends the TTR of idle holders, which beanstalkd often does
// not.
func testExpire(t *testing.T, r *running) {
	for _, pipeline := range []int{1, 4} {
		l := baseLoad()
		l.Mode, l.Conns, l.Duration, l.Rate, l.Pipeline = modeExpire, 11, busy.Times(100*time.Millisecond), 500, pipeline
		res, err := runLoad(context.Background(), r.target, l, r.pids())
		if err != nil {
			t.Fatal(err)
		}
		if err := res.verdict(); err != nil {
			t.Errorf("by %d: %v: %v", pipeline, err, res.Samples)
		}
		if jobs := res.Jobs; jobs.Put == 0 || jobs.Reserved != 2*jobs.Put || jobs.Deleted != jobs.Put || res.Lateness.Count != uint64(jobs.Put) {
			t.Errorf("by %d: %+v, %+v", pipeline, jobs, res.Lateness)
		}
	}
}

// testSecure runs loads on a server with TLS, as a user. Bodies that fill several records and
// more than socket buffers show whether bytes that a loop buffers arrive.
func testSecure(t *testing.T, r *running) {
	for name, change := range map[string]func(*load){
		"cycle":     func(*load) {},
		"pipelined": func(l *load) { l.Pipeline = 16 },
		"put":       func(l *load) { l.Mode, l.Pipeline = modePut, 8 },
		"pc":        func(l *load) { l.Mode = modePC },
		"big bodies": func(l *load) {
			l.Body, l.Pipeline, l.Conns, l.Duration = 60_000, 50, 3, busy.Times(300*time.Millisecond)
		},
		"backlog":  func(l *load) { l.Tubes, l.IdleTubes, l.Backlog = 4, 30, 100 },
		"blocking": func(l *load) { l.Blocking, l.Pipeline = true, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			l := baseLoad()
			l.Conns, l.Duration = 11, busy.Times(100*time.Millisecond)
			change(&l)
			res, err := runUntilDone(r.target, l, r.pids())
			if err != nil {
				t.Fatal(err)
			}
			if err := res.verdict(); err != nil || res.Ops == 0 {
				t.Errorf("%v, %d operations: %v", err, res.Ops, res.Samples)
			}
		})
	}
	l := baseLoad()
	l.Duration = time.Millisecond
	for what, change := range map[string]func(*target){
		"no user":           func(t *target) { t.user = "" },
		"a wrong secret":    func(t *target) { t.secret += "x" },
		"no TLS":            func(t *target) { t.tls = nil },
		"another name":      func(t *target) { t.tls = clientConfig("example.org", t.tls.RootCAs) },
		"other authorities": func(t *target) { t.tls = clientConfig(loopback, nil) },
	} {
		to := r.target
		change(&to)
		_, err := runLoad(context.Background(), to, l, nil)
		if err == nil || strings.Contains(err.Error(), r.secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.Mode = modeHTTP
	if _, err := runLoad(context.Background(), r.target, l, nil); err == nil {
		t.Error("mode http takes no notice of TLS and users")
	}
}

// testRunSecure connects with the flags of run.
func testRunSecure(t *testing.T, r *running) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(r.secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(flags ...string) error {
		app := newApp()
		app.Writer = io.Discard
		return app.Run(append([]string{"stalkbench", "run", "--addr", r.addr, "--duration", "20ms", "--conns", "2"}, flags...))
	}
	user := []string{"--user", r.user, "--secret-file", secret}
	if err := run(append(user, "--tls-ca", filepath.Join(r.dir, "cert.pem"))...); err != nil {
		t.Error(err)
	}
	if err := run(append(user, "--tls-insecure")...); err != nil {
		t.Error(err)
	}
	for what, flags := range map[string][]string{
		"a certificate that nobody knows": append(user, "--tls"),
		"no secret":                       {"--user", r.user, "--tls-insecure"},
		"no certificates in the file":     append(user, "--tls-ca", secret),
	} {
		if err := run(flags...); err == nil || strings.Contains(err.Error(), r.secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// testCompareSecure compares a plain server with one of TLS and one with users.
func testCompareSecure(t *testing.T, program string) {
	var out bytes.Buffer
	app := newApp()
	app.Writer, app.ErrWriter = &out, io.Discard
	err := app.Run(spreadServers([]string{"stalkbench", "compare", "--servers", "plain=" + program + "-p {port}",
		"tls=" + program + "-p {port2} --tls 127.0.0.1:{port} --tls-cert {cert} --tls-key {key}",
		"access=" + program + "-p {port} --access {access}",
		"--rounds", "1", "--duration", "50ms", "--loads", "50c-p16"}))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("the table has %d lines:\n%s", n, out.String())
	}
}
