package inspect

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redstalk/clients/go/client"
)

// An Inspector shows and changes what is on a server.
type Inspector struct{ client *client.Client }

// New returns an inspector that uses a client.
func New(c *client.Client) *Inspector { return &Inspector{c} }

// page returns the page of a command that only reads.
func (in *Inspector) page(ctx context.Context, needs client.Capability, line string) ([]byte, error) {
	reply, err := in.client.Exec(ctx, client.Command{Line: line, Repeat: true, Needs: needs})
	if err == nil && reply.Word != "OK" {
		err = fmt.Errorf("%s: unexpected reply %s", line, reply.Word)
	}
	return reply.Body, err
}

// change sends a command that must be answered with word, and returns the number behind it, if there is one.
func (in *Inspector) change(ctx context.Context, word string, cmd client.Command) (int, error) {
	reply, err := in.client.Exec(ctx, cmd)
	if err != nil {
		return 0, err
	}
	if reply.Word != word {
		return 0, fmt.Errorf("%s: unexpected reply %s", cmd.Line, reply.Word)
	}
	n, _ := strconv.Atoi(reply.Args)
	return n, nil
}

// list returns the entries of a page that is a list.
func list(page []byte) (names []string) {
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "- "); ok {
			names = append(names, unquote(name))
		}
	}
	return names
}

// fields returns the dictionary of a page, without the quotes of values.
func fields(page []byte) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(string(page)) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ": "); ok {
			all[key] = unquote(value)
		}
	}
	return all
}

func unquote(s string) string {
	if u, err := strconv.Unquote(s); err == nil {
		return u
	}
	return s
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func secs(s string) time.Duration { return time.Duration(number(s)) * time.Second }
