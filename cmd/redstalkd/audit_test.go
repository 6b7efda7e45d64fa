package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestAudit: each administrative act has a line, from whichever entrance it comes, and nothing else has one.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "acts.log")
	p, addr := serve(t, "-p0", "--store", "memory:", "--http", "127.0.0.1:0", "--audit", file)
	c := dial(t, addr)
	c.ask("use mails\r\n", "USING mails")
	c.ask("put 0 0 60 6\r\nsecret\r\n", "INSERTED 1")
	c.ask("flush-tube mails\r\n", "FLUSHED 1")
	c.ask("set-policy mails max:3\r\n", "SET")
	c.ask("get-policy nothing\r\n", "NOT_FOUND")
	c.ask("move-jobs mails ready other 5\r\n", "MOVED 0")
	c.ask("pause-group mails acme 10\r\n", "PAUSED")
	c.ask("cancel-batch none\r\n", "NOT_FOUND")
	c.ask("kick 7\r\n", "KICKED 0")
	r, err := http.NewRequest("DELETE", "http://"+p.stderr.await(t, `msg=listening listener=http addr=(\S+)`)+"/v1/tubes/mails/jobs?state=buried", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Redstalk", "console")
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	want := []string{
		`"act":"flush-tube","target":"mails","user":"","entrance":"beanstalk"`, `"result":"FLUSHED","count":1,"tube":"mails"}`,
		`"act":"set-policy","target":"mails"`, `"values":"max:3"}`,
		`"act":"move-jobs","target":"mails other"`,
		`"act":"pause-group","target":"mails acme"`,
		`"act":"cancel-batch","target":"none"`, `"result":"NOT_FOUND"}`,
		`"act":"kick","target":"mails"`,
		`"act":"flush","target":"mails","user":"","entrance":"console"`, `"request":"DELETE /v1/tubes/mails/jobs?state=buried","result":200,"answer":{`,
	}
	lines := awaitActs(t, file, 7)
	at := 0
	for _, part := range want {
		i := strings.Index(lines[at:], part)
		if i < 0 {
			t.Fatalf("%s is missing in\n%s", part, lines[at:])
		}
		at += i
	}
	if strings.Contains(lines, "secret") {
		t.Errorf("a body is in the file:\n%s", lines)
	}

	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	if lines := awaitActs(t, file, 1); !strings.Contains(lines, `"act":"reload"`) {
		t.Error(lines)
	}
}

// askAsConsole makes a request as the console does, which must succeed.
func askAsConsole(t *testing.T, method, url, body string) {
	t.Helper()
	r := must(http.NewRequest(method, url, strings.NewReader(body)))(t)
	r.Header.Set("X-Redstalk", "console")
	r.Header.Set("Content-Type", "application/json")
	answer := must(http.DefaultClient.Do(r))(t)
	answer.Body.Close()
	if answer.StatusCode >= 300 {
		t.Errorf("%s %s: %d", method, url, answer.StatusCode)
	}
}

// TestAuditOfJobs: what is done to jobs that are not reserved has a line with their ids and tubes, and
// what workers do to theirs has none.
func TestAuditOfJobs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "acts.log")
	p, addr := serve(t, "-p0", "--store", "memory:", "--http", "127.0.0.1:0", "--push-allow", "localhost", "--audit", file)
	url := "http://" + p.stderr.await(t, `msg=listening listener=http addr=(\S+)`)
	c := dial(t, addr)
	for id := range 12 {
		c.ask("put 0 0 60 1\r\nx\r\n", fmt.Sprint("INSERTED ", id+1))
	}
	c.ask("reserve-job 1\r\n", "RESERVED 1 1")
	c.line() // the body
	c.ask("delete 1\r\n", "DELETED")
	d := dial(t, addr)
	d.ask("reserve-job 2\r\n", "RESERVED 2 1")
	d.line()
	c.ask("delete 2\r\n", "NOT_FOUND")
	d.ask("bury 2 0\r\n", "BURIED")
	c.ask("delete 2\r\n", "DELETED")
	c.ask("delete-batch 3 4 99\r\n", "DELETED_BATCH 2 1")
	c.ask("kick-job 5\r\n", "NOT_FOUND")
	c.ask("set-policy default push:http://localhost:1/secret max:9\r\n", "SET")
	c.ask("set-group default g concurrency:2\r\n", "SET")
	body := strings.Repeat("secret", 2000) // more than one read
	c.ask(fmt.Sprintf("set-schedule s default 0 60 %d every:1h meta:k=v\r\n%s\r\n", len(body), body), "SET")
	console := func(method, path, body string) { askAsConsole(t, method, url+path, body) }
	console("POST", "/v1/jobs/actions", `{"action":"priority","priority":7,"ids":[6,7]}`)
	console("POST", "/v1/jobs/actions", `{"action":"bury","ids":[6,7]}`)
	console("POST", "/v1/jobs/7/kick", "")
	console("DELETE", "/v1/jobs/8", "")
	console("POST", "/v1/jobs/finish", `[{"id":9},{"id":10}]`)
	console("PUT", "/v1/tubes/mails/policy", `{"max":4}`)
	console("PUT", "/v1/tubes/mails/groups/g", `{"concurrency":3}`)
	console("PUT", "/v1/schedules/s2", `{"tube":"mails","every":"2h","body":"secret"}`)
	lines := awaitActs(t, file, 14)
	if strings.Contains(lines, "/secret") || strings.Contains(lines, `"secret`) {
		t.Error("the audit has a secret")
	}
	for i, want := range []string{
		`"act":"delete","target":"2",.*"result":"DELETED","tube":"default","ids":\[2\]}`,
		`"act":"delete-batch",.*"count":2,"tube":"default","ids":\[3,4\]}`,
		`"act":"kick-job","target":"5",.*"tube":"default","ids":\[5\]}`,
		`"act":"set-policy","target":"default",.*"values":"push:http://localhost:1/... max:9"}`,
		`"act":"set-group","target":"default g",.*"values":"concurrency:2"}`,
		`"act":"set-schedule",.*"values":"every:1h meta:k=v"}`,
		`"act":"priority",.*"entrance":"console",.*"tube":"default","ids":\[6,7\],"values":{"priority":7}}`,
		`"act":"bury",.*"tube":"default","ids":\[6,7\],"values":{}}`,
		`"act":"kickJob","target":"7",.*"tube":"default","ids":\[7\]}`,
		`"act":"delete","target":"8",.*"tube":"default","ids":\[8\]}`,
		`"act":"delete",.*"tube":"default","ids":\[9,10\]}`,
		`"act":"setPolicy","target":"mails",.*"values":{"max":4}}`,
		`"act":"setGroup",.*"values":{"concurrency":3}}`,
		`"act":"setSchedule",.*"values":{"tube":"mails","every":"2h".*}`,
	} {
		line := strings.Split(lines, "\n")[i]
		if !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("%s does not match %s", line, want)
		}
	}
}

// awaitActs waits until a file has n lines, and returns them.
func awaitActs(t *testing.T, file string, n int) string {
	t.Helper()
	var text []byte
	for end := time.Now().Add(patience); bytes.Count(text, []byte("\n")) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there are not %d lines:\n%s", n, text)
		}
		text, _ = os.ReadFile(file)
	}
	for line := range bytes.Lines(text) {
		if !json.Valid(line) {
			t.Errorf("no JSON: %s", line)
		}
	}
	return string(text)
}

// TestAuditDiskFull: an act is carried out also if its line cannot be written, and the log says so.
func TestAuditDiskFull(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it needs /dev/full")
	}
	p, addr := serve(t, "-p0", "--store", "memory:", "--audit", "/dev/full")
	c := dial(t, addr)
	c.ask("pause-tube default 0\r\n", "PAUSED")
	p.stderr.await(t, "(acts could not be written).*no space left")
	c.ask("flush-tube default\r\n", "FLUSHED 0")
}

// TestAuditToStdout: acts go to standard output, where containers want them, also after SIGHUP.
func TestAuditToStdout(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it needs /dev/stdout of Linux")
	}
	p, addr := serve(t, "-p0", "--store", "memory:", "--audit", "/dev/stdout")
	c := dial(t, addr)
	c.ask("pause-tube default 0\r\n", "PAUSED")
	p.stdout.await(t, `("act":"pause-tube")`)
	p.signal(t, syscall.SIGHUP)
	p.stdout.await(t, `("act":"reload")`)
	c.ask("flush-tube default\r\n", "FLUSHED 0")
	p.stdout.await(t, `("act":"flush-tube")`)
}

// TestAuditReopenLosesNothing: lines that are being written when the file is opened again are all in
// the old one or in the new one.
func TestAuditReopenLosesNothing(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &auditFile{path: filepath.Join(t.TempDir(), "acts.log"), log: slog.New(slog.DiscardHandler), file: w}
	var lines, old bytes.Buffer
	for i := range 50_000 { // more than a pipe holds
		fmt.Fprintf(&lines, "{%d}\n", i)
	}
	written := make(chan error, 1)
	go func() {
		_, err := f.Write(lines.Bytes())
		written <- err
	}()
	io.CopyN(&old, r, 1)
	f.reopen()
	if err := <-written; err != nil {
		t.Error(err)
	}
	io.Copy(&old, r)
	whole := old.Bytes()[:bytes.LastIndexByte(old.Bytes(), '\n')+1]
	if both := append(whole, must(os.ReadFile(f.path))(t)...); !bytes.Equal(both, lines.Bytes()) {
		t.Errorf("%d bytes instead of %d", len(both), lines.Len())
	}
}
