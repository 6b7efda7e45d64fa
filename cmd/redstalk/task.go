package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"redstalk/protocol/client"
)

// task is one run of a command: its flags and arguments, its connection, and the server's
// capabilities. It is used by one goroutine.
type task struct {
	*cli.Context
	stdio
	dialer *dialer
	conn   *client.Conn

	capabilities []string  // of the server; nil until asked for
	used         string    // the tube of the connection, "" until use was sent
	maxBody      int       // the longest body that the server takes; 0 until asked for
	progress     *progress // of a long command; nil: there is none
	unread       bool      // the text of a search was not looked for in a body, as the user may not read it
}

// arguments is the least and the largest number of arguments of a command; most < 0 is no
// limit.
type arguments struct{ least, most int }

var (
	noArguments = arguments{0, 0}
	anyNumber   = arguments{0, -1}
)

// withoutServer makes an action from a function that needs no server.
func withoutServer(n arguments, f func(*task) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() < n.least {
			return usage("%s needs another argument: redstalk %s --help", c.Command.Name, c.Command.Name)
		}
		if n.most >= 0 && c.NArg() > n.most {
			return usage("unexpected argument of %s: %q; see redstalk %s --help", c.Command.Name, c.Args().Get(n.most), c.Command.Name)
		}
		t := &task{Context: c, stdio: c.App.Metadata["stdio"].(stdio)}
		if err := t.checkWordFlags(); err != nil {
			return err
		}
		return f(t)
	}
}

// withDialer is like withoutServer, for a function that makes its own connections.
func withDialer(n arguments, f func(*task) error) cli.ActionFunc {
	return withoutServer(n, func(t *task) (err error) {
		if t.dialer, err = newDialer(t); err != nil {
			return err
		}
		return f(t)
	})
}

// withConn is like withDialer, for a function that uses one connection to the server.
func withConn(n arguments, f func(*task) error) cli.ActionFunc {
	return withDialer(n, func(t *task) (err error) {
		if t.conn, err = t.dialer.connect(); err != nil {
			return err
		}
		defer func() { t.conn.Close() }() // perhaps another one by then
		return f(t)
	})
}

// tubeFlag is the flag for the tube of a command.
func tubeFlag() cli.Flag {
	return &cli.StringFlag{Name: "tube", Aliases: []string{"t"}, Value: "default", Usage: "`TUBE` of the command"}
}

// stateFlag is the flag for a state of jobs.
func stateFlag(initially, help string) cli.Flag {
	return &cli.StringFlag{Name: "state", Value: initially, Usage: "`STATE`: " + help}
}

// checkWordFlags checks the flags that are sent to the server as words.
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

// request sends one command, given without its CR LF, and returns the reply, which is valid until
// the next request. doing describes the request in errors.
func (t *task) request(doing, command string) (reply *client.Reply, err error) {
	err = t.watchSilence(func() error {
		return t.conn.Ask([]byte(command+"\r\n"), 1, func(r *client.Reply) error { reply = r; return nil })
	})
	if err != nil {
		return nil, connectionError(doing, err)
	}
	return reply, nil
}

// expect sends a command whose reply must begin with the word want, and returns the rest of the reply.
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

// page requests a page.
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

// names requests a page that is a list of names.
func (t *task) names(doing, command string) ([]string, error) {
	page, err := t.page(doing, command)
	if err != nil {
		return nil, err
	}
	return itemsOf(page), nil
}

// itemsOf returns the items of a page that is a list.
func itemsOf(page client.Page) []string {
	items := []string{}
	for line := range strings.Lines(string(page)) {
		if item, ok := strings.CutPrefix(line, "- "); ok {
			items = append(items, unquoted(strings.TrimSuffix(item, "\n")))
		}
	}
	return items
}

// use makes tube the used tube of the connection, unless it is already.
func (t *task) use(tube string) error {
	if t.used == tube {
		return nil
	}
	_, err := t.expect("using tube "+tube, "USING", "use "+tube)
	t.used = tube
	return err
}

// supports reports whether the server has an extension.
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

// require fails if the server does not have an extension. what names what needs it.
func (t *task) require(extension, what string) error {
	has, err := t.supports(extension)
	if err == nil && !has {
		err = failure{exitExtension, fmt.Errorf("%s needs the extension %s, which this server does not have", what, extension)}
	}
	return err
}

// The windows of a pipeline, and of other work in steps.
const (
	window      = client.Window
	windowBytes = client.WindowBytes
)

// pipeline is client.Pipeline on the connection of the task. doing describes it in errors.
func (t *task) pipeline(doing string, n int, command func(out []byte, i int) []byte, take func(i int, r *client.Reply) error) error {
	ask := func(commands []byte, n int, take func(*client.Reply) error) error {
		err := t.watchSilence(func() error { return t.conn.Ask(commands, n, take) })
		if err != nil {
			return connectionError(doing, err)
		}
		return nil
	}
	return client.Pipeline(ask, n, command, take)
}

// infof prints a message on standard error, unless --quiet is set.
func (t *task) infof(format string, args ...any) {
	if !t.Bool("quiet") {
		fmt.Fprintf(t.err, format+"\n", args...)
	}
}
