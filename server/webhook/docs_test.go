package webhook

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redstalk/tools/conformance/compile"
	"redstalk/tube"
)

// blocks returns the code blocks of docs/push.md in a language.
func blocks(t *testing.T, language string) (texts []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/push.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(page, -1) {
		texts = append(texts, string(m[1]))
	}
	if len(texts) == 0 {
		t.Fatalf("docs/push.md shows nothing in %s", language)
	}
	return texts
}

// verifiers are the languages in which docs/push.md verifies signatures, with a program
// around each. The program gets secret, id, time, signature and body, and prints true or
// false.
var verifiers = map[string]struct {
	file, program string
	block         int
	run           []string
}{
	"go": {"main.go", `package main

import ("crypto/hmac"; "crypto/sha256"; "encoding/base64"; "fmt"; "net/http"; "os"; "strconv"; "strings"; "time")

%s
func main() {
	a, h := os.Args[1:], http.Header{}
	h.Set("webhook-id", a[1]); h.Set("webhook-timestamp", a[2]); h.Set("webhook-signature", a[3])
	fmt.Println(verify(a[0], h, []byte(a[4])))
}
`, 0, []string{"go", "run"}},
	"python": {"main.py", `%s
import sys
a = sys.argv[1:]
print(str(verify(a[0], {"webhook-id": a[1], "webhook-timestamp": a[2], "webhook-signature": a[3]}, a[4].encode())).lower())
`, 1, []string{"python3"}},
	"js": {"main.js", `%s
const a = process.argv.slice(2);
console.log(verify(a[0], {"webhook-id": a[1], "webhook-timestamp": a[2], "webhook-signature": a[3]}, Buffer.from(a[4])));
`, 0, []string{"node"}},
	"php": {"main.php", `<?php
%s
$a = array_slice($argv, 1);
echo verify($a[0], ['Webhook-Id' => $a[1], 'Webhook-Timestamp' => $a[2], 'Webhook-Signature' => $a[3]], $a[4]) ? 'true' : 'false';
`, 0, []string{"php"}},
}

// TestVerifiersOfDocs: the code in docs/push.md accepts what is sent, and nothing else.
func TestVerifiersOfDocs(t *testing.T) {
	t.Parallel()
	key, other := []byte("new-secret-of-24-bytes!!"), []byte("old-secret-of-24-bytes!!")
	secret, now, body := secretOf(string(key)), time.Now().Unix(), "a body – with \"more\"\n"
	at := func(unix int64) string { return strconv.FormatInt(unix, 10) }
	cases := []struct{ at, signature, body, want string }{
		{at(now), sign([][]byte{other, key}, "17-2", now, []byte(body)), body, "true"},
		{at(now), sign([][]byte{key}, "17-2", now, []byte(body)), body + " ", "false"},
		{at(now), sign([][]byte{other}, "17-2", now, []byte(body)), body, "false"},
		{at(now - 3600), sign([][]byte{key}, "17-2", now-3600, []byte(body)), body, "false"},
	}
	for language, v := range verifiers {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(v.run[0]); err != nil {
				t.Skip(err)
			}
			file := filepath.Join(t.TempDir(), v.file)
			if err := os.WriteFile(file, fmt.Appendf(nil, v.program, blocks(t, language)[v.block]), 0o600); err != nil {
				t.Fatal(err)
			}
			run := append(v.run, file)
			if language == "go" {
				run = []string{built(t, file)}
			}
			for _, c := range cases {
				out, err := exec.Command(run[0], append(run[1:], secret, "17-2", c.at, c.signature, c.body)...).CombinedOutput()
				if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
					t.Errorf("%+v: %s, %v", c, got, err)
				}
			}
		})
	}
}

// built compiles a program of one file.
func built(t *testing.T, file string) string {
	t.Helper()
	path := strings.TrimSuffix(file, ".go")
	if err := compile.Program(path, file); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReceiverOfDocs: the receiver in docs/push.md accepts a job, and prints it.
func TestReceiverOfDocs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	const serve = `HTTPServer(("127.0.0.1", 8080), Hook).serve_forever()`
	text := blocks(t, "python")[0]
	if n := strings.Count(text, "\n"); n != 10 || !strings.Contains(text, serve) {
		t.Fatalf("it has %d lines", n)
	}
	text = strings.Replace(text, serve, "server = HTTPServer((\"127.0.0.1\", 0), Hook)\nprint(server.server_port, flush=True)\nserver.serve_forever()", 1)
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", "-c", text)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	lines := bufio.NewScanner(out)
	lines.Scan()
	w := newHarness(t, Config{Allow: allow(t, "localhost")})
	defer w.end()
	w.push("reminders", tube.Policy{Push: tube.Push{URL: "http://localhost:" + lines.Text() + "/hook"}})
	w.put("reminders", "hello")
	if lines.Scan(); lines.Text() != "reminders 1-1 b'hello'" {
		t.Errorf("it printed %q, %v; %q", lines.Text(), lines.Err(), w.log.all())
	}
}
