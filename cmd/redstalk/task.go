package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

// task is one run of a command: its flags and arguments, its connection, and what the server
// can do. It belongs to one goroutine.
type task struct {
	*cli.Context
	stdio
	dialer *dialer
	conn   *client.Conn

	capabilities []string // of the server; nil until asked for
	used         string   // the tube of the connection, "" until use was sent
}

// arguments says how many arguments a command takes: at least and at most; most < 0 is any
// number.
type arguments struct{ least, most int }

var (
	noArguments = arguments{0, 0}
	anyNumber   = arguments{0, -1}
)

// withoutServer makes an action of a function that needs no server.
func withoutServer(n arguments, f func(*task) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() < n.least {
			return usage("%s needs an argument more: redstalk %s --help", c.Command.Name, c.Command.Name)
		}
		if n.most >= 0 && c.NArg() > n.most {
			return usage("%s does not know what to do with %q: redstalk %s --help", c.Command.Name, c.Args().Get(n.most), c.Command.Name)
		}
		t := &task{Context: c, stdio: c.App.Metadata["stdio"].(stdio)}
		if err := t.checkWordFlags(); err != nil {
			return err
		}
		return f(t)
	}
}

// withDialer is as locally, for a function that makes its own connections, by the link.
func withDialer(n arguments, f func(*task) error) cli.ActionFunc {
	return withoutServer(n, func(t *task) (err error) {
		if t.dialer, err = newDialer(t); err != nil {
			return err
		}
		return f(t)
	})
}

// withConn is as linked, for a function that uses one connection to the server.
func withConn(n arguments, f func(*task) error) cli.ActionFunc {
	return withDialer(n, func(t *task) (err error) {
		if t.conn, err = t.dialer.connect(); err != nil {
			return err
		}
		defer t.conn.Close()
		return f(t)
	})
}

// tubeFlag is the flag that names the tube a command is about.
func tubeFlag() cli.Flag {
	return &cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Value: "default", Usage: "`TUBE` that the command is about"}
}

// stateFlag is the flag that names a state of jobs.
func stateFlag(initially, help string) cli.Flag {
	return &cli.StringFlag{Name: "state", Value: initially, Usage: "`STATE`: " + help}
}

// checkWordFlags checks the flags that go on the wire as they are.
func (t *task) checkWordFlags() error {
	for _, name := range []string{"tube", "to", "key", "lease", "dead", "retry", "cursor"} {
		text, ok := t.Value(name).(string)
		if ok && text != "" {
			if err := checkWord("--"+name, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *task) tube() string { return t.String("tube") }

// request sends one command, without its CR LF, and hands over the reply. It is good until the
// next one.
func (t *task) request(doing, command string) (reply *client.Reply, err error) {
	err = t.conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error { reply = r; return nil })
	if err != nil {
		return nil, connectionError(doing, err)
	}
	return reply, nil
}

// expect sends one command that is answered with this word, and returns what follows that.
func (t *task) expect(doing, want, command string) (rest string, err error) {
	r, err := t.request(doing, command)
	if err != nil {
		return "", err
	}
	got, rest, _ := strings.Cut(string(r.Line), " ")
	if got != want {
		return "", replyError(doing, r)
	}
	return rest, nil
}

// page asks for a page.
func (t *task) page(doing, command string) (client.Page, error) {
	r, err := t.request(doing, command)
	if err != nil {
		return "", err
	}
	if r.Word != client.OK {
		return "", replyError(doing, r)
	}
	return client.Page(r.Body), nil
}

// names asks for a page that is a list of names.
func (t *task) names(doing, command string) ([]string, error) {
	page, err := t.page(doing, command)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "- "); ok {
			names = append(names, unquoted(strings.TrimSuffix(name, "\n")))
		}
	}
	return names, nil
}

// use makes the connection put into this tube, and count its jobs.
func (t *task) use(tube string) error {
	if t.used == tube {
		return nil
	}
	_, err := t.expect("using tube "+tube, "USING", "use "+tube)
	t.used = tube
	return err
}

// supports tells whether the server has an extension.
func (t *task) supports(extension string) (bool, error) {
	if t.capabilities == nil {
		r, err := t.request("asking what the server can do", "capabilities")
		if err != nil {
			return false, err
		}
		t.capabilities = []string{}
		if r.Word == client.OK {
			t.capabilities = strings.Fields(strings.ReplaceAll(string(r.Body), "- ", " "))
		}
	}
	return slices.Contains(t.capabilities, extension), nil
}

// require fails if the server has not got an extension. what is what needs it.
func (t *task) require(extension, what string) error {
	has, err := t.supports(extension)
	if err == nil && !has {
		err = failure{exitExtension, fmt.Errorf("%s needs the extension %s, which this server does not have", what, extension)}
	}
	return err
}

// window is how many commands are sent before their replies are read, and windowBytes how many
// bytes of them.
const (
	window      = 500
	windowBytes = 1 << 20
)

// pipeline sends n commands, many at a time, and hands over their replies in order. command appends
// the i-th to out. It ends at the first error of take.
func (t *task) pipeline(doing string, n int, command func(out []byte, i int) []byte, take func(i int, r *client.Reply) error) error {
	var out []byte
	for from := 0; from < n; {
		to := from
		for out = out[:0]; to < n && to-from < window && len(out) < windowBytes; to++ {
			out = command(out, to)
		}
		at := from
		err := t.conn.Ask(out, to-from, func(r *client.Reply) error { at++; return take(at-1, r) })
		if err != nil {
			return connectionError(doing, err)
		}
		from = to
	}
	return nil
}

// infof tells people something on standard error, unless they want to hear nothing.
func (t *task) infof(format string, args ...any) {
	if !t.Bool("quiet") {
		fmt.Fprintf(t.err, format+"\n", args...)
	}
}
