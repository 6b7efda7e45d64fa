package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"redstalk/storage"
	"redstalk/storage/embedded"
)

// TestQuiet: by default only one line says that the server serves, and with -q none.
func TestQuiet(t *testing.T) {
	dir := t.TempDir()
	for args, want := range map[string]string{
		"-p0 -q": "^$", "-p0": `^time=\S+ level=INFO msg=serving addr=127.0.0.1:\d+ version=dev engine=memory\n$`,
		"-p0 --store embedded:" + dir: `^time=\S+ level=INFO msg=serving addr=127.0.0.1:\d+ version=dev engine=embedded dir=` + dir + `\n$`,
	} {
		testQuiet(t, strings.Fields(args), want)
	}
}

func testQuiet(t *testing.T, args []string, want string) {
	p := runInside(t, &Main{}, append(args, "-l", "127.0.0.1")...)
	c := dial(t, receive(t, p.addr).String())
	c.ask("put 0 0 9 1\r\na\r\nnonsense\r\n", "INSERTED 1", "UNKNOWN_COMMAND")
	c.conn.Close()
	p.stop()
	if code := receive(t, p.code); code != 0 || !regexp.MustCompile(want).MatchString(p.stderr.String()) {
		t.Errorf("%v: %d, %q", args, code, p.stderr)
	}
}

func TestVerbosity(t *testing.T) {
	for _, test := range []struct {
		flag     string
		commands bool
	}{{"-V", false}, {"-VV", true}} {
		p := runInside(t, &Main{}, "-p0", test.flag)
		c := dial(t, receive(t, p.addr).String())
		c.ask("put 0 0 9 1\r\na\r\nquit\r\n", "INSERTED 1")
		p.stderr.await(t, "connection closed")
		text := p.stderr.String()
		if !strings.Contains(text, "connection accepted") || strings.Contains(text, "level=DEBUG") != test.commands {
			t.Errorf("%s: %s", test.flag, text)
		}
		p.stop()
		receive(t, p.code)
	}
}

func TestJSONLog(t *testing.T) {
	p := runInside(t, &Main{}, "-p0", "-Vc", "--log-format=json")
	addr := receive(t, p.addr).String()
	p.stderr.await(t, `"level":"WARN","msg":"flag -c is out of use and ignored"`)
	p.stderr.await(t, `"msg":"serving","addr":"`+addr+`","version":"dev","engine":"memory"`)
	dial(t, addr).ask("watch a\r\n", "WATCHING 2")
	p.stderr.await(t, `"msg":"connection accepted",.*"from":"127.0.0.1:`)
}

// TestPasswordIsNotPrinted: the password is in no output, on success or failure.
func TestPasswordIsNotPrinted(t *testing.T) {
	atLength(t)
	const secret, soon = "open-sesame", "REDSTALK_STORE_TIMEOUT=50ms"
	var out strings.Builder
	for _, store := range []string{
		"redis://u:" + secret + "@127.0.0.1:1/0", // nobody listens there
		"rediss://u:" + secret + "@127.0.0.1:1/0",
		"redis://:" + secret + "@127.0.0.1:1",
		"redis://u:" + secret + "@127.0.0.1:port",
		"redis://u:" + secret + "@127.0.0.1:1/nodb",
		"unix://u:" + secret + "@/nonexistent/redis.sock",
		"redis//u:" + secret + "@127.0.0.1:1",
		"reddis://u:" + secret + "@127.0.0.1:1",
	} {
		for _, args := range [][]string{
			{"-VVp0", "--store", store}, {"-VVp0", "--store=" + store}, {"-VVp0", store},
			{"-VVp0", "-u", store}, {"-VVp0", "-l", store}, {"-z", store},
		} {
			cmd := command(args...)
			cmd.Env = append(cmd.Env, soon)
			code, stdout, stderr := run(t, cmd)
			if code == 0 {
				t.Errorf("%q: %d", args, code)
			}
			fmt.Fprintf(&out, "%q\n%s%s", strings.ReplaceAll(strings.Join(args, " "), secret, "*"), stdout, stderr)
		}
		cmd := command("-VVp0", "--log-format", "json")
		cmd.Env = append(cmd.Env, "REDSTALK_STORE="+store, soon)
		_, stdout, stderr := run(t, cmd)
		out.WriteString(stdout + stderr)
	}
	m := &Main{open: func(context.Context, engine) (storage.Store, error) { return embedded.NewMemory(), nil }}
	p := runInside(t, m, "-VVp0", "--store", "redis://u:"+secret+"@h")
	dial(t, receive(t, p.addr).String()).ask("watch a\r\n", "WATCHING 2")
	p.stop()
	receive(t, p.code)
	out.WriteString(p.stderr.String())
	if strings.Contains(out.String(), secret) {
		t.Error(out.String())
	}
}
