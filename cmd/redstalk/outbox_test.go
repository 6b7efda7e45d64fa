package main

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redstalk/tools/conformance/child"
)

// TestOutbox: the command makes its table, puts a row, serves metrics and ends when it is told to.
func TestOutbox(t *testing.T) {
	addr, path := ours(t), filepath.Join(t.TempDir(), "app.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cli := on(t, addr)
	if out := cli("outbox", "schema", "--database", "sqlite:"+path, "--create"); !strings.Contains(out, "redstalk_outbox") {
		t.Error(out)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("INSERT INTO redstalk_outbox (tube, body) VALUES ('mails', 'hello')"); err != nil {
		t.Fatal(err)
	}
	http := "127.0.0.1:" + child.FreePort()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan outcome)
	go func() {
		ended <- runIn(ctx, "", "--server", addr, "outbox", "--database", "sqlite:"+path, "--http", http)
	}()
	await(t, "the row", func() bool { return strings.Contains(pageOf(http), "\nredstalk_outbox_put_total 1\n") })
	stop()
	if got := <-ended; got.code != 0 || got.out != "" || !strings.Contains(got.err, "stopped; 1 row put, 0 failed") {
		t.Errorf("%+v", got)
	}
	if body := cli("reserve", "--tube", "mails", "--delete"); body != "hello\n" && body != "hello" {
		t.Errorf("%q", body)
	}
}

// pageOf returns the metrics at an address, "" if there are none.
func pageOf(addr string) string {
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// TestOutboxUsage: wrong settings are named, and no secret is.
func TestOutboxUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "--database or REDSTALK_DATABASE must be",
		"schema":                               "--database or REDSTALK_DATABASE must be",
		"--database oracle://u:s3cret@h/d":     "none of postgres://",
		"--database postgres://u:s3cret@h:x/d": "is invalid",
		"--database postgres://u:s3cret@h/d?sslmode=s3cret":              "is invalid",
		"--database mysql://u:s3cret@h/d?tls=none":                       "is invalid",
		"--database mysql://u:s3%zzcret@h/d":                             "is invalid",
		"--database postgres://u:1/s3cret@h/d":                           "is invalid",
		"--database mysql://u:1#s3cret@h/d":                              "is invalid",
		"--database postgres://u:1?s3cret@h/d":                           "is invalid",
		"--database sqlite:":                                             "is invalid",
		"--database sqlite:x --table a;b":                                "is not the name of a table",
		"--database sqlite:x --create":                                   "is for outbox schema",
		"--database sqlite:x --key-ttl 5s":                               "at least 1m",
		"--database sqlite:x nonsense":                                   "no argument, or schema",
		"schema --create --database postgres://u:s3cret@127.0.0.1:1/d":   "making the table",
		"schema --create --database mysql://u:s3cret@127.0.0.1:1/d":      "making the table",
		"schema --create --database sqlite:/nowhere/at/all/s3cret-is-ok": "making the table",
	} {
		got := runIn(t.Context(), "", append([]string{"outbox"}, strings.Fields(args)...)...)
		if got.code == 0 || !strings.Contains(got.err, want) || strings.Contains(got.err, "s3cret@") || strings.Contains(got.err, "s3cret ") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
